//! A plan as a TOML file for people: each value, followed by the line on which it is written.

use super::{
    Api, Backing, BinaryName, Board, Compile, Content, DebianProgram, GoComponent, HostPrograms,
    ImageFrom, Kernel, Kubernetes, LockState, NodeSettings, NodeSpec, OptionValue, Origins,
    Payload, Plan, Pod, PodImage, Product, ProgramComponent, Requirements, RootFile, Signing,
    Updates, Volumes, WritablePath,
};
use std::collections::BTreeMap;

impl<L: LockState, P: Product<L>> Plan<L, P> {
    /// The plan as `osbuild plan` shows it, with the keys that the recipe names. Equal plans print
    /// equally.
    pub fn print(&self) -> String {
        self.print_signed(self.product.default_signing())
    }

    /// The plan of a build with these keys, as `out/<recipe>/plan.toml` has it.
    pub fn print_signed(&self, signing: Option<&Signing>) -> String {
        let mut page = Page { text: String::new(), origins: &self.origins };
        page.entry("", "recipe", quote(&self.recipe));
        if let Some(version) = self.product.version() {
            page.entry("", "version", quote(version));
        }
        page.entry("", "architecture", quote(self.architecture.name()));
        self.product.print_sections(&mut page);
        page.requirements(&self.requirements);
        if let Some(Signing { key, origin }) = signing {
            page.section("signing");
            match origin {
                Some(origin) => page.line(&format!("key = {}  # {origin}", quote(key))),
                None => page.line(&format!("key = {}", quote(key))),
            }
        }
        page.text
    }
}

/// Prints fields of a struct as the keys of the same name, each with its origin.
macro_rules! fields {
    ($page:ident, $section:literal, $of:expr => $($field:ident),+) => {
        $( $page.entry(concat!($section, "."), key!($field), $of.$field.to_string()); )+
    };
}

/// The text of a printed plan, as far as it is written.
pub struct Page<'p> {
    text: String,
    origins: &'p Origins,
}

impl Page<'_> {
    /// The sections of a node.
    pub fn node<L: LockState>(&mut self, node: &NodeSpec<L>) {
        self.entry("", "security-epoch", node.security_epoch.to_string());
        if !node.time_servers.is_empty() {
            self.entry("", "time-servers", list(&node.time_servers));
        }
        self.board(&node.board);
        self.kernel(&node.kernel);
        self.section("boot");
        let boot = &node.boot;
        self.entry("boot.", "component", quote(&boot.component));
        self.line(&format!("package = {}\nprogram = {}", quote(&boot.package), quote(&boot.bin)));
        self.section("binaries");
        BinaryName::ALL.into_iter().for_each(|name| self.binary(name, node));
        self.section("pods");
        node.pods.iter().for_each(|pod| self.pod(pod));
        self.section("pause");
        self.entry_from("image", quote(&node.pause.name), "pause.component");
        self.section("files");
        node.files.iter().for_each(|file| self.entry("files.", &file.path, root_file(file)));
        if !node.writable.is_empty() {
            self.section("writable");
            let paths = node.writable.iter();
            paths.for_each(|path| self.entry("writable.", &path.path, writable_path(path)));
        }
        self.kubernetes(&node.kubernetes);
        self.api(node.api.as_ref());
        self.updates(node.updates.as_ref());
        self.node_settings(&node.settings);
        self.volumes(node.volumes.as_ref());
        if node.console_address {
            self.section("console");
            self.entry("console.", "address", true.to_string());
        }
        if let Some(installs) = &node.installs {
            self.section("installs");
            self.entry("installs.", "recipe", quote(&installs.recipe));
            self.entry("installs.", "settings", quote(&installs.settings));
        }
    }

    /// The section `[api]`, if the recipe has it.
    fn api(&mut self, api: Option<&Api>) {
        let Some(api) = api.filter(|api| **api != Api::default()) else { return };
        let Api { clients, debug, static_pods, cluster_join, control_plane } = api;
        self.section("api");
        if let Some(clients) = clients {
            self.entry("api.", "clients", quote(clients));
        }
        if let Some(debug) = debug {
            self.entry("api.", "debug", quote(debug.name()));
        }
        if let Some(rights) = static_pods {
            self.entry("api.", "static-pods", list(rights));
        }
        if *cluster_join {
            self.entry("api.", "cluster-join", "true".to_owned());
        }
        if *control_plane {
            self.entry("api.", "control-plane", "true".to_owned());
        }
    }

    /// The section of programs for the build machine, in order of file name.
    pub fn programs<L: LockState>(&mut self, programs: &HostPrograms<L>) {
        self.section("programs");
        let mut all = BTreeMap::new();
        for ProgramComponent { go, files } in &programs.components {
            all.extend(files.iter().map(|file| (file, go)));
        }
        for (file, go) in all {
            self.entry_from(file, go_component(go), &format!("programs.{file}.version"));
        }
    }

    fn board(&mut self, board: &Board) {
        self.section("board");
        self.entry("board.", "name", quote(&board.name));
        fields!(self, "board", board => sector_size, esp_size_mib, slot_size_mib, data_size_mib);
        fields!(self, "board", board => min_ram_mib, gate_hold_s, gate_deadline_s, watchdog_s);
        let Some(qemu) = &board.qemu else { return };
        self.section("board.qemu");
        self.entry("board.qemu.", "machine", quote(&qemu.machine));
        self.entry("board.qemu.", "cpu", quote(&qemu.cpu));
        fields!(self, "board.qemu", qemu => memory_mib, cpus);
        self.entry("board.qemu.", "bus", quote(qemu.bus.name()));
    }

    fn kernel(&mut self, kernel: &Kernel) {
        self.section("kernel");
        self.entry("kernel.", "package", quote(&kernel.package));
        self.line("command-line = [");
        for word in &kernel.command_line {
            self.with_origin(
                format!("    {},", quote(word)),
                &format!("kernel.command-line.{word}"),
            );
        }
        self.line("]");
        if !kernel.groups.is_empty() {
            self.section("kernel.groups");
            for (name, has) in &kernel.groups {
                self.entry("kernel.groups.", name, has.to_string());
            }
        }
        self.section("kernel.options");
        for (name, option) in &kernel.options {
            self.entry("kernel.options.", name, option_value(&option.value));
        }
    }

    fn kubernetes(&mut self, kubernetes: &Kubernetes) {
        self.section("kubernetes");
        let minors: Vec<String> = kubernetes.api_servers.iter().map(ToString::to_string).collect();
        self.entry("kubernetes.", "api-servers", list(&minors));
        if let Some(exception) = &kubernetes.exception {
            let value =
                format!("{{ reason = {}, until = {} }}", quote(&exception.reason), exception.until);
            self.entry("kubernetes.", "exception", value);
        }
    }

    fn updates(&mut self, updates: Option<&Updates>) {
        let Some(updates) = updates else { return };
        self.section("updates");
        self.entry("updates.", "url", quote(&updates.url));
        self.entry("updates.", "channel", quote(updates.channel.name()));
        self.entry("updates.", "root", quote(&updates.root));
        fields!(self, "updates", updates => interval_s, waits_for_grant);
    }

    fn node_settings(&mut self, settings: &NodeSettings) {
        if settings.keys.is_empty() {
            return;
        }
        self.section("node");
        for (key, value) in &settings.keys {
            self.entry_from(key, value.clone(), &format!("node.{key}"));
        }
    }

    fn volumes(&mut self, volumes: Option<&Volumes>) {
        let Some(volumes) = volumes else { return };
        self.section("volumes");
        match volumes {
            Volumes::Signed(root) => self.entry("volumes.", "root", quote(root)),
            Volumes::Unsigned => self.entry("volumes.", "unsigned", true.to_string()),
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn section(&mut self, name: &str) {
        self.line(&format!("\n[{name}]"));
    }

    fn with_origin(&mut self, line: String, name: &str) {
        match self.origins.get(name) {
            Some(origin) => self.line(&format!("{line}  # {origin}")),
            None => self.line(&line),
        }
    }

    /// A value whose origin is named by its section and key.
    fn entry(&mut self, section: &str, key: &str, value: String) {
        self.with_origin(format!("{} = {value}", key_text(key)), &format!("{section}{key}"));
    }

    /// A value whose origin is named `origin`.
    fn entry_from(&mut self, key: &str, value: String, origin: &str) {
        self.with_origin(format!("{key} = {value}"), origin);
    }

    fn binary<L: LockState>(&mut self, name: BinaryName, node: &NodeSpec<L>) {
        let (value, origin) = match &node.component(name).build {
            Compile::Go(go) => (go_component(go), "version"),
            Compile::Cargo { component, package } => {
                let [component, package] = [component, package].map(|text| quote(text));
                let program = quote(name.file_name());
                let value =
                    format!("component = {component}, package = {package}, program = {program}");
                (format!("{{ {value} }}"), "component")
            }
        };
        self.entry_from(name.file_name(), value, &format!("binaries.{name}.{origin}"));
    }

    fn requirements(&mut self, requirements: &Requirements) {
        self.section("wanted");
        self.line(&format!("digest = {}", quote(&requirements.digest())));
        if let Some(stub) = &requirements.stub {
            self.entry_from("stub", quote(&stub.package), "uki.stub");
        }
        self.entry_from("go", quote(&requirements.go_toolchain), "toolchains.go");
        if let Some(rust) = &requirements.rust_toolchain {
            self.line(&format!("rust = {}  # rust-toolchain.toml", quote(&rust.version)));
            self.line(&format!("rust-targets = {}", list(&rust.targets)));
        }
        let Requirements { sandbox, cross, files, .. } = requirements;
        for (name, packages) in [("sandbox", sandbox), ("cross", cross), ("files", files)] {
            let names: Vec<String> = packages.iter().map(|each| each.package.clone()).collect();
            self.line(&format!("{name} = {}", list(&names)));
        }
        self.line(&format!("crates = {}  # Cargo.lock", requirements.crates.len()));
    }

    fn pod<L: LockState>(&mut self, pod: &Pod<L>) {
        let images: Vec<String> = pod.images.iter().map(image).collect();
        let runs = pod.runs.annotation().map(|value| format!("runs = \"{value}\", "));
        let runs = runs.unwrap_or_default();
        let value = format!(
            "{{ {runs}containers = {}, images = [{}] }}",
            list(&pod.containers),
            images.join(", ")
        );
        self.entry("pods.", &pod.name, value);
    }
}

fn go_component<L: LockState>(go: &GoComponent<L>) -> String {
    let GoComponent { name, module, version, tags, ldflags, cgo, empty_packages, .. } = go;
    let libraries = cgo.as_ref().map(|cgo| format!("libraries = {}", list(&cgo.debian)));
    let empty =
        (!empty_packages.is_empty()).then(|| format!("empty-packages = {}", list(empty_packages)));
    let parts = [
        format!("component = {}", quote(name)),
        format!("version = \"{version}\""),
        format!("go = {}", quote(module)),
        format!("tags = {}", list(tags)),
        format!("ldflags = {}", list(ldflags)),
    ];
    let parts: Vec<String> = parts.into_iter().chain(libraries).chain(empty).collect();
    format!("{{ {} }}", parts.join(", "))
}

fn image<L: LockState>(image: &PodImage<L>) -> String {
    let name = quote(&image.name);
    match &image.from {
        ImageFrom::Built { package, bin, payload } => {
            let payload = payload.as_deref().map(|Payload { go, debian }| {
                let programs: Vec<String> =
                    go.packages.iter().map(|program| program.file.clone()).collect();
                let debian: Vec<String> = debian.iter().map(debian_program).collect();
                format!(
                    ", payload = {{ go = {}, version = \"{}\", programs = {}, debian = {{ {} }} }}",
                    quote(&go.module),
                    go.version,
                    list(&programs),
                    debian.join(", ")
                )
            });
            let payload = payload.unwrap_or_default();
            format!(
                "{{ name = {name}, package = {}, program = {}{payload} }}",
                quote(package),
                quote(bin)
            )
        }
        ImageFrom::Archive { path, digest } => {
            format!("{{ name = {name}, archive = {}, digest = {} }}", quote(path), quote(digest))
        }
    }
}

fn debian_program<L: LockState>(program: &DebianProgram<L>) -> String {
    let DebianProgram { name, package, path, libraries } = program;
    let libraries: Vec<_> = libraries.iter().map(|library| library.name.clone()).collect();
    format!(
        "{} = {{ package = {}, path = {}, libraries = {} }}",
        key_text(name),
        quote(&package.name),
        quote(path),
        list(&libraries)
    )
}

fn root_file<L: LockState>(file: &RootFile<L>) -> String {
    let mode = format!("mode = {:#o}", file.mode);
    match &file.content {
        Content::File(source) => format!("{{ source = {}, {mode} }}", quote(source)),
        Content::Text(text) => format!("{{ text = {}, {mode} }}", quote(text)),
        Content::Symlink(target) => format!("{{ symlink = {} }}", quote(target)),
        Content::Directory => format!("{{ directory = true, {mode} }}"),
        Content::Debian { package, path } => {
            format!("{{ debian = {}, path = {}, {mode} }}", quote(&package.name), quote(path))
        }
        Content::AppArmorProfile { source, parser } => {
            let (source, parser) = (quote(source), quote(&parser.name));
            format!("{{ apparmor-profile = {source}, debian = {parser}, {mode} }}")
        }
    }
}

fn writable_path(path: &WritablePath) -> String {
    let backing = match &path.backing {
        Backing::Data(folder) => format!("data = {}", quote(folder)),
        Backing::Memory(mib) => format!("memory-mib = {mib}"),
    };
    format!("{{ {backing}, mode = {:#o}, exec = {} }}", path.mode, path.exec)
}

fn option_value(value: &OptionValue) -> String {
    match value {
        OptionValue::Yes => "true".to_owned(),
        OptionValue::No => "false".to_owned(),
        OptionValue::Number(number) => number.clone(),
        OptionValue::Text(text) => quote(text),
    }
}

fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(", "))
}

/// A string of one line, as TOML writes it.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            letter if letter.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(letter)))
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// A key in TOML, in quotation marks where it needs them.
pub fn key_text(key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !key.is_empty() && key.bytes().all(is_bare) { key.to_owned() } else { quote(key) }
}

//! A plan as a TOML file for people: what each value is, and behind it where it was written.

use super::{
    Backing, Binary, Compile, Content, DebianProgram, GoBuild, HostPrograms, ImageFrom,
    KernelOption, OptionValue, Origins, Pod, PodImage, Resolved, RootFile, Wanted, WritablePath,
};

impl Resolved {
    /// The plan as `osbuild plan` shows it and as `out/<recipe>/plan.toml` keeps it. Equal plans
    /// print equally.
    pub fn print(&self) -> String {
        let mut page = Page { text: String::new(), origins: &self.origins };
        page.entry("", "recipe", quote(&self.recipe));
        page.entry("", "version", quote(&self.version));
        page.entry("", "architecture", quote(self.architecture.name()));
        page.entry("", "security-epoch", self.security_epoch.to_string());
        if !self.time_servers.is_empty() {
            page.entry("", "time-servers", list(&self.time_servers));
        }
        self.print_board(&mut page);
        self.print_kernel(&mut page);
        page.section("boot");
        let boot = &self.boot;
        page.entry("boot.", "component", quote(&boot.component));
        page.line(&format!("package = {}\nprogram = {}", quote(&boot.package), quote(&boot.bin)));
        page.section("binaries");
        self.binaries.iter().for_each(|binary| page.binary(binary));
        page.section("pods");
        self.pods.iter().for_each(|pod| page.pod(pod));
        page.section("pause");
        page.entry_from("image", quote(&self.pause.name), "pause.component");
        page.section("files");
        self.files.iter().for_each(|file| page.entry("files.", &file.path, root_file(file)));
        if !self.writable.is_empty() {
            page.section("writable");
            self.writable
                .iter()
                .for_each(|path| page.entry("writable.", &path.path, writable_path(path)));
        }
        self.print_kubernetes(&mut page);
        self.print_updates(&mut page);
        if let Some(installs) = &self.installs {
            page.section("installs");
            page.entry("installs.", "recipe", quote(&installs.recipe));
            page.entry("installs.", "settings", quote(&installs.settings));
        }
        page.wanted(&self.wanted);
        if let Some(key) = &self.signing {
            page.section("signing");
            page.entry("signing.", "key", quote(key));
        }
        page.text
    }

    fn print_board(&self, page: &mut Page<'_>) {
        let board = &self.board;
        page.section("board");
        page.entry("board.", "name", quote(&board.name));
        page.entry("board.", "sector-size", board.sector_size.to_string());
        page.entry("board.", "esp-size-mib", board.esp_size_mib.to_string());
        page.entry("board.", "slot-size-mib", board.slot_size_mib.to_string());
        page.entry("board.", "data-size-mib", board.data_size_mib.to_string());
        page.entry("board.", "min-ram-mib", board.min_ram_mib.to_string());
        page.entry("board.", "gate-hold-s", board.gate_hold_s.to_string());
        page.entry("board.", "gate-deadline-s", board.gate_deadline_s.to_string());
        page.entry("board.", "watchdog-s", board.watchdog_s.to_string());
        if let Some(qemu) = &board.qemu {
            page.section("board.qemu");
            page.entry("board.qemu.", "machine", quote(&qemu.machine));
            page.entry("board.qemu.", "cpu", quote(&qemu.cpu));
            page.entry("board.qemu.", "memory-mib", qemu.memory_mib.to_string());
            page.entry("board.qemu.", "cpus", qemu.cpus.to_string());
            page.entry("board.qemu.", "bus", quote(qemu.bus.name()));
        }
    }

    fn print_kernel(&self, page: &mut Page<'_>) {
        page.section("kernel");
        page.entry("kernel.", "package", quote(&self.kernel.package));
        page.line("command-line = [");
        for word in &self.kernel.command_line {
            page.with_origin(
                format!("    {},", quote(word)),
                &format!("kernel.command-line.{word}"),
            );
        }
        page.line("]");
        page.section("kernel.options");
        for (name, KernelOption { value, origin }) in &self.kernel.options {
            page.line(&format!("{name} = {}  # {origin}", option_value(value)));
        }
    }

    fn print_kubernetes(&self, page: &mut Page<'_>) {
        page.section("kubernetes");
        let minors: Vec<String> =
            self.kubernetes.api_servers.iter().map(|minor| quote(&minor.to_string())).collect();
        page.entry("kubernetes.", "api-servers", format!("[{}]", minors.join(", ")));
        if let Some(exception) = &self.kubernetes.exception {
            let value =
                format!("{{ reason = {}, until = {} }}", quote(&exception.reason), exception.until);
            page.entry("kubernetes.", "exception", value);
        }
    }

    fn print_updates(&self, page: &mut Page<'_>) {
        let Some(updates) = &self.updates else { return };
        page.section("updates");
        page.entry("updates.", "url", quote(&updates.url));
        page.entry("updates.", "channel", quote(updates.channel.name()));
        page.entry("updates.", "root", quote(&updates.root));
        page.entry("updates.", "interval-s", updates.interval_s.to_string());
    }
}

impl HostPrograms {
    /// The plan as `osbuild plan` shows it. Equal plans print equally.
    pub fn print(&self) -> String {
        let mut page = Page { text: String::new(), origins: &self.origins };
        page.entry("", "recipe", quote(&self.recipe));
        page.line(&format!("architecture = {}", quote(self.architecture.name())));
        page.section("programs");
        for program in &self.programs {
            let origin = format!("programs.{}.version", program.file);
            page.compiled(
                &program.file,
                &program.component,
                Some(&program.version),
                go(&program.build),
                &origin,
            );
        }
        page.wanted(&self.wanted);
        page.text
    }
}

/// Text that grows line by line.
struct Page<'p> {
    text: String,
    origins: &'p Origins,
}

impl Page<'_> {
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

    /// A value whose origin has the name of its section and key.
    fn entry(&mut self, section: &str, key: &str, value: String) {
        self.with_origin(format!("{} = {value}", key_text(key)), &format!("{section}{key}"));
    }

    /// A value whose origin has another name.
    fn entry_from(&mut self, key: &str, value: String, origin: &str) {
        self.with_origin(format!("{key} = {value}"), origin);
    }

    fn binary(&mut self, binary: &Binary) {
        let Binary { name, component, version, build } = binary;
        let origin = if version.is_some() { "version" } else { "component" };
        self.compiled(
            name.file_name(),
            component,
            version.as_deref(),
            compile(build),
            &format!("binaries.{name}.{origin}"),
        );
    }

    fn compiled(
        &mut self,
        file: &str,
        component: &str,
        version: Option<&str>,
        build: Vec<String>,
        origin: &str,
    ) {
        let version = version.map(|version| format!("version = {}", quote(version)));
        let parts: Vec<String> = [format!("component = {}", quote(component))]
            .into_iter()
            .chain(version)
            .chain(build)
            .collect();
        self.entry_from(file, format!("{{ {} }}", parts.join(", ")), origin);
    }

    fn wanted(&mut self, wanted: &Wanted) {
        self.section("wanted");
        self.line(&format!("digest = {}", quote(&wanted.digest())));
        if let Some(stub) = &wanted.stub {
            self.entry_from("stub", quote(&stub.package), "uki.stub");
        }
        self.entry_from("go", quote(&wanted.go_toolchain), "toolchains.go");
        if let Some(rust) = &wanted.rust_toolchain {
            self.line(&format!("rust = {}  # rust-toolchain.toml", quote(&rust.version)));
            self.line(&format!("rust-targets = {}", list(&rust.targets)));
        }
        for (name, wishes) in
            [("sandbox", &wanted.sandbox), ("cross", &wanted.cross), ("files", &wanted.files)]
        {
            let packages: Vec<String> = wishes.iter().map(|wish| wish.package.clone()).collect();
            self.line(&format!("{name} = {}", list(&packages)));
        }
        self.line(&format!("crates = {}  # Cargo.lock", wanted.crates.len()));
    }

    fn pod(&mut self, pod: &Pod) {
        let images: Vec<String> = pod.images.iter().map(image).collect();
        let once = if pod.runs_once { "runs = \"once\", " } else { "" };
        let value = format!(
            "{{ {once}containers = {}, images = [{}] }}",
            list(&pod.containers),
            images.join(", ")
        );
        self.entry("pods.", &pod.name, value);
    }
}

fn compile(build: &Compile) -> Vec<String> {
    match build {
        Compile::Go(build) => go(build),
        Compile::Cargo { package, bin } => {
            vec![format!("package = {}", quote(package)), format!("program = {}", quote(bin))]
        }
    }
}

fn go(GoBuild { module, tags, ldflags, cgo, .. }: &GoBuild) -> Vec<String> {
    let libraries = cgo.as_ref().map(|cgo| format!("libraries = {}", list(&cgo.debian)));
    let go = [
        format!("go = {}", quote(module)),
        format!("tags = {}", list(tags)),
        format!("ldflags = {}", list(ldflags)),
    ];
    go.into_iter().chain(libraries).collect()
}

fn image(image: &PodImage) -> String {
    let name = quote(&image.name);
    match &image.from {
        ImageFrom::Built { package, bin, payload } => {
            let payload = payload.as_ref().map(|payload| {
                let programs: Vec<String> = payload.build.packages.iter().map(|program| program.file.clone()).collect();
                let (go, version) = (quote(&payload.build.module), quote(payload.build.version.trim_start_matches('v')));
                let debian: Vec<String> = payload.debian.iter().map(debian_program).collect();
                let debian = debian.join(", ");
                format!(
                    ", payload = {{ go = {go}, version = {version}, programs = {}, debian = {{ {debian} }} }}",
                    list(&programs)
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

fn debian_program(program: &DebianProgram) -> String {
    let DebianProgram { name, package, path, libraries } = program;
    format!(
        "{} = {{ package = {}, path = {}, libraries = {} }}",
        key_text(name),
        quote(package),
        quote(path),
        list(libraries)
    )
}

fn root_file(file: &RootFile) -> String {
    let mode = format!("mode = {:#o}", file.mode);
    match &file.content {
        Content::File(source) => format!("{{ source = {}, {mode} }}", quote(source)),
        Content::Text(text) => format!("{{ text = {}, {mode} }}", quote(text)),
        Content::Symlink(target) => format!("{{ symlink = {} }}", quote(target)),
        Content::Directory => format!("{{ directory = true, {mode} }}"),
        Content::Debian { package, path } => {
            format!("{{ debian = {}, path = {}, {mode} }}", quote(package), quote(path))
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
pub(super) fn quote(text: &str) -> String {
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

fn key_text(key: &str) -> String {
    let bare = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if bare { key.to_owned() } else { quote(key) }
}

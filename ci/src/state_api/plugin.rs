//! A plugin in Python, the example of the documentation, does what its grant says and no more.

use super::remote::{Remote, claim};
use super::{PROTOS, Program};
use crate::check::Outcome;
use crate::child::tied;
use crate::site::{Ran, Site};
use osbuild::error::{Context, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The plugin and its grant, in the checkout.
const PLUGIN: &str = "components/pods/osd/tests/full_name.py";
const GRANT: &str = "components/pods/osd/tests/full_name.yaml";

/// The `.proto` files that it needs, in their folder.
const FILES: [&str; 4] = [
    "cosi/resource/resource.proto",
    "cosi/runtime/runtime.proto",
    "osbuild/v1/hostname.proto",
    "osbuild/v1/resolver.proto",
];

/// How long the plugin may take to react.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Settings whose full name changes.
const SETTINGS: &str = "{type: Hostname, id: name, spec: {hostname: edge-7}}\n---\n\
                        {type: Resolver, id: dns, spec: {search: example.org}}\n";

/// The plugin reacts to changes, and its grant is the end of its rights and its life.
pub fn does_what_its_grant_says(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let grant = remote.site.root.join(GRANT);
    let modules = generate(remote)?;
    let ran = apply(remote, "operator", &grant)?;
    claim(outcome, "an operator may not grant anything", &ran, Some(2));
    let ran = apply(remote, "admin", &grant)?;
    claim(outcome, "an admin grants a plugin its rights", &ran, Some(0));
    let printed = remote.finish(&["--node", "admin", "get", "plugingrants", "-o", "yaml"])?.output;
    let ran = apply(remote, "admin", &write(remote, "printed-grant.yaml", &printed)?)?;
    let is_same = ran.output.trim() == "unchanged PluginGrants.osbuild/full-name";
    outcome.check("`apply` reads the grant that `get` prints", is_same, || printed + &ran.output);
    let mut plugin = Plugin::start(remote, &modules)?;
    remote.finish(&["--node", "admin", "apply", "-f", &settings(remote)?])?;
    let get = ["--node", "reader", "get", "fullnames"];
    shows(remote, outcome, "a plugin reacts to a change", &get, "edge-7.example.org")?;
    let explain = ["--node", "reader", "explain", "fullnames"];
    shows(remote, outcome, "its type is explained by its columns", &explain, "{.fullName}")?;
    let statuses = ["--node", "reader", "get", "controllerstatuses"];
    shows(remote, outcome, "its controller has a status", &statuses, "full-name  true")?;
    let less = less(remote, &grant)?;
    claim(outcome, "a grant is changed", &apply(remote, "admin", &less)?, Some(0));
    outcome.check("a changed grant ends the plugin", plugin.ends(), || plugin.output());
    plugin = Plugin::start(remote, &modules)?;
    let is_refused = plugin.ends() && plugin.output().contains("the grant has no input");
    outcome.check("a plugin is refused what its grant lacks", is_refused, || plugin.output());
    claim(outcome, "the grant is as before", &apply(remote, "admin", &grant)?, Some(0));
    plugin = Plugin::start(remote, &modules)?;
    shows(remote, outcome, "a plugin registers again", &statuses, "full-name  true")?;
    remote.finish(&["--node", "admin", "delete", "plugingrant", "full-name"])?;
    outcome.check("the end of its grant ends a plugin", plugin.ends(), || plugin.output());
    shows(remote, outcome, "its type goes with it", &get, "has no type")?;
    let is_gone = !remote.plugins().join("full-name").exists();
    outcome.check("and its socket", is_gone, String::new);
    Ok(())
}

fn apply(remote: &Remote, role: &str, file: &Path) -> Result<Ran> {
    remote.run(&["--node", role, "apply", "-f", &file.display().to_string()])
}

/// osctl prints the text sooner or later.
fn shows(
    remote: &Remote,
    outcome: &mut Outcome,
    name: &str,
    words: &[&str],
    text: &str,
) -> Result<()> {
    let began = Instant::now();
    loop {
        let output = remote.run(words)?.output;
        let is_shown = output.contains(text);
        if is_shown || began.elapsed() > TIMEOUT {
            outcome.check(name, is_shown, || output);
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn settings(remote: &Remote) -> Result<String> {
    write(remote, "settings.yaml", SETTINGS).map(|path| path.display().to_string())
}

/// The grant without one of its inputs.
fn less(remote: &Remote, grant: &Path) -> Result<PathBuf> {
    let text =
        fs::read_to_string(grant).or_build(|| format!("cannot read `{}`", grant.display()))?;
    let lines = text.lines().filter(|line| !line.contains("Resolvers.osbuild"));
    write(remote, "less.yaml", &lines.collect::<Vec<_>>().join("\n"))
}

fn write(remote: &Remote, name: &str, text: &str) -> Result<PathBuf> {
    let path = remote.folder.join(name);
    fs::write(&path, text).or_build(|| format!("cannot write `{}`", path.display()))?;
    Ok(path)
}

fn generate(remote: &Remote) -> Result<PathBuf> {
    let folder = remote.folder.join("generated");
    fs::create_dir(&folder).or_build(|| format!("cannot make `{}`", folder.display()))?;
    python_definitions(remote.site, remote.modules, &folder)?;
    Ok(folder)
}

/// Makes Python modules of the `.proto` files that the plugin needs, as the documentation says.
/// `modules` are gRPC's.
pub fn python_definitions(site: &Site, modules: &Path, folder: &Path) -> Result<()> {
    let mut protoc = Command::new("python3");
    protoc.args(["-m", "grpc_tools.protoc", "--proto_path"]).arg(site.root.join(PROTOS));
    for option in ["--python_out", "--grpc_python_out"] {
        protoc.arg(option).arg(folder);
    }
    site.finish("state-api-python", protoc.args(FILES).env("PYTHONPATH", modules)).map(drop)
}

/// The running plugin.
struct Plugin {
    program: Program,
    output: PathBuf,
}

impl Plugin {
    fn start(remote: &Remote, generated: &Path) -> Result<Plugin> {
        let output = remote.folder.join("plugin.out");
        let file =
            File::create(&output).or_build(|| format!("cannot write `{}`", output.display()))?;
        let paths = std::env::join_paths([remote.modules, generated])
            .or_build(|| "cannot join the folders of modules".to_owned())?;
        let plugin = tied("python3")
            .arg(remote.site.root.join(PLUGIN))
            .arg(remote.plugins().join("full-name/socket"))
            .env("PYTHONPATH", paths)
            .stdin(Stdio::null())
            .stderr(file)
            .spawn();
        let program = Program(plugin.or_build(|| "cannot start `python3`".to_owned())?);
        Ok(Plugin { program, output })
    }

    /// Whether it ends by itself.
    fn ends(&mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < TIMEOUT {
            if !matches!(self.program.0.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }
}

//! `osd` serves clients that others wrote: one in Python, made from our `.proto` files with gRPC's
//! own tools, and grpcurl, which knows nothing but what the server's reflection says.

mod dashboard;
mod debug;
mod plugin;
pub mod pseudo_terminal;
mod remote;
mod suites;
mod talosctl;
mod tokens;
mod verbs;

pub use self::plugin::python_definitions;
use self::remote::Remote;
pub use self::suites::{suite_of_plugins_passes, suite_of_states_passes, suites_of_others_pass};
pub use self::talosctl::it_reads_a_node;
use crate::cargo;
use crate::check::Outcome;
use crate::child::tied;
use crate::go_module;
use crate::site::{Site, fill_once};
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Error, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// gRPC's modules for Python, each in one version. They are in a folder of their own, because other
/// tools need other versions of some.
const MODULES: [&str; 5] = [
    "grpcio==1.85.3",
    "grpcio-health-checking==1.85.1",
    "grpcio-reflection==1.85.1",
    "grpcio-tools==1.85.1",
    "protobuf==7.36.2",
];

/// The module of grpcurl, and its version.
const GRPCURL: (&str, &str) = ("github.com/fullstorydev/grpcurl/cmd/grpcurl", "v1.9.4");

/// The client in Python, in the checkout.
const CLIENT: &str = "components/pods/osd/tests/client.py";

/// The folder of the `.proto` files, in the checkout.
const PROTOS: &str = "components/shared/cosi/proto";

/// How long `osd` may take to make its socket.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A running server, such as `osd`, or a plugin of it. Dropping it ends the program.
pub struct Program(Child);

impl Program {
    /// Starts `osd`, which accepts resources of any type on this socket.
    pub fn start(osd: &Path, socket: &Path) -> Result<Program> {
        let mut command = tied(osd);
        command.args(["--accept-any-type", "--socket"]).arg(socket);
        // Its record would be among the lines of the checks.
        Self::spawn(command.stdout(Stdio::null()), socket)
    }

    /// Starts a server, a [`tied`] program, and returns when its socket is there.
    pub fn spawn(command: &mut Command, socket: &Path) -> Result<Program> {
        let name = command.get_args().nth(2).unwrap_or_default().display().to_string();
        let server = command.stdin(Stdio::null()).spawn();
        let server = Program(server.or_build(|| format!("cannot start `{name}`"))?);
        let began = Instant::now();
        while !socket.exists() {
            if began.elapsed() > TIMEOUT {
                return Err(Error::build(format!("`{name}` makes no socket")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Its process identifier.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// The memory that it has in use, in bytes (`VmRSS` of proc_pid_status(5)).
    pub fn resident(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.0.id());
        let text = fs::read_to_string(&path).or_build(|| format!("cannot read `{path}`"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.map(|kib| kib << 10).ok_or_else(|| Error::build(format!("`{path}` has no `VmRSS`")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Clients in Python and Go do everything that the API offers.
pub fn clients_of_others_use_it(site: &Site) -> Result<Outcome> {
    let (modules, grpcurl) = (python_modules(site)?, grpcurl(site)?);
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let socket = folder.path().join("osd.sock");
    let [program, osctl] = programs(site)?;
    let _osd = Program::start(&program, &socket)?;
    let mut client = Command::new("python3");
    client.arg(site.root.join(CLIENT)).arg(site.root.join(PROTOS)).arg(&socket);
    let ran = site.finish("state-api-python", client.env("PYTHONPATH", &modules))?;
    let in_python = ran.output.lines().count();
    let mut outcome = Outcome { passed: in_python, ..Outcome::default() };
    by_reflection(site, &grpcurl, &socket, &mut outcome)?;
    let in_go = outcome.passed - in_python;
    let folder = folder.path();
    let (osd, modules) = (&program, &modules);
    let remote = Remote { site, osd, osctl: &osctl, grpcurl: &grpcurl, modules, folder };
    remote::clients_may_do_what_their_role_permits(&remote, &mut outcome)?;
    outcome.summary = format!(
        "{in_python} claims in Python, {in_go} in Go, {} over TLS",
        outcome.passed - in_python - in_go
    );
    Ok(outcome)
}

/// `osd` as a node has it keeps each of 500 changes a second for a minute.
pub fn a_minute_of_changes_is_kept(site: &Site) -> Result<Outcome> {
    let program = osd_of_node(site)?;
    let mut test = site.cargo()?;
    test.args(["test", "--quiet", "--locked", "--package", "pod-osd", "--test", "state", "rates"]);
    test.env("OSD_TEST_PROGRAM", program).env("OSD_TEST_SECONDS", "60");
    Ok(cargo::outcome(&site.run("many-changes", &mut test)?))
}

/// grpcurl reads a definition without having our files.
fn by_reflection(site: &Site, grpcurl: &Path, socket: &Path, outcome: &mut Outcome) -> Result<()> {
    let run = |request: &[&str], words: &[&str]| {
        let mut command = Command::new(grpcurl);
        command.args(["-plaintext", "-unix"]).args(request).arg(socket).args(words);
        site.finish("state-api-grpcurl", &mut command).map(|ran| ran.output)
    };
    let services = run(&[], &["list"])?;
    outcome.check(
        "grpcurl lists the services",
        ["cosi.resource.State", "grpc.health.v1.Health"]
            .iter()
            .all(|service| services.lines().any(|line| line == *service)),
        || format!("it lists {services}"),
    );
    let request = r#"{"namespace":"meta","type":"Namespaces.meta.cosi.dev","id":"system"}"#;
    let output = run(&["-d", request], &["cosi.resource.State/Get"])?;
    let answer: Value = serde_json::from_str(&output)
        .map_err(|_| Error::build("grpcurl has printed no resource"))?;
    outcome.check(
        "grpcurl gets a resource",
        answer["resource"]["metadata"]["version"] == "1",
        || format!("it gets {output}"),
    );
    Ok(())
}

/// Compiles `osd` and `osctl`, and returns the programs. The tests of the whole workspace are
/// compiled with them: by themselves both need the same libraries with other features, which cargo
/// would compile once more for six minutes.
pub fn programs(site: &Site) -> Result<[PathBuf; 2]> {
    let built = compile(site, &["--workspace", "--all-targets"])?;
    Ok([program(&built, "osd")?, program(&built, "osctl")?])
}

/// Compiles `osd` as a node has it.
pub fn osd_of_node(site: &Site) -> Result<PathBuf> {
    program(&compile(site, &["--package", "pod-osd", "--profile", "node"])?, "osd")
}

/// Runs `cargo build` with these words, and returns the programs.
fn compile(site: &Site, words: &[&str]) -> Result<Vec<PathBuf>> {
    let mut cargo = site.cargo()?;
    cargo.args(["build", "--quiet", "--locked"]).args(words);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let output = site.finish("state-api-build", &mut cargo)?.output;
    let built = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(built.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).collect())
}

fn program(built: &[PathBuf], name: &str) -> Result<PathBuf> {
    let found = built.iter().find(|path| path.ends_with(name));
    found.cloned().ok_or_else(|| Error::build(format!("cargo has built no `{name}`")))
}

/// Installs the modules once, and returns their folder, which is another one for other versions.
pub fn python_modules(site: &Site) -> Result<PathBuf> {
    let name = format!("python-{}", &Digest::of(MODULES.join("\n").as_bytes()).hex()[..16]);
    fill_once(&site.tools().join(name), |folder| {
        let mut pip = Command::new("pip3");
        pip.args(["install", "--no-input", "--disable-pip-version-check", "--target"]);
        site.finish("state-api-pip", pip.arg(folder).args(MODULES)).map(drop)
    })
}

/// Compiles grpcurl once, and returns the program.
pub fn grpcurl(site: &Site) -> Result<PathBuf> {
    go_module::install(site, GRPCURL)
}

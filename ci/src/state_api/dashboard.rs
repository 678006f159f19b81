//! osctl's dashboard on a terminal, beside a real `osd` that dies and comes back.

use super::Program;
use super::pseudo_terminal::PseudoTerminal;
use super::remote::{Remote, TRUSTED};
use crate::check::Outcome;
use crate::child::tied;
use osbuild::error::{Context, Error, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The name of the node for `osctl`.
const NAME: &str = "screen";

/// The lines of a log. The second one would name the window and empty the screen.
const LINES: &str = "the first line\n\u{1b}]0;evil\u{7}\u{1b}[2J the second line\n";
const ESCAPED: &str = "\\u{1b}]0;evil\\u{7}\\u{1b}[2J the second line";

/// How long `osd` may take to listen.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How long a key may take to have its effect: less than a call to a node may take.
const MAX_DELAY: Duration = Duration::from_secs(3);

/// A node whose `osd` ends and starts again at the same port.
struct Node<'a> {
    remote: &'a Remote<'a>,
    folder: PathBuf,
    port: u16,
    _inspect: Program,
}

/// The screen shows what there is, also of a node that was lost, and is given back.
pub fn shows_a_node_until_it_is_left(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let node = Node::new(remote)?;
    let osd = node.start_osd()?;
    node.add()?;
    let ran = remote.run(&["-n", NAME, "dashboard"])?;
    let is_refused = ran.code == Some(2) && ran.output.contains("osctl top");
    outcome.check("the dashboard refuses a pipe, with a hint", is_refused, || ran.output);
    let mut terminal = node.dashboard()?;
    let shown = terminal.wait(|screen| {
        ["CPU", "gateway", "the first line", ESCAPED]
            .iter()
            .all(|text| screen.iter().any(|line| line.contains(text)))
    });
    outcome.claim("the dashboard shows the load, the network and the log", shown);
    drop(osd);
    let lost = terminal.wait(|screen| {
        let has = |text: &str| screen.iter().any(|line| line.contains(text));
        has("LOST for") && has("the first line") && has("CPU")
    });
    outcome.claim("a lost node is shown as lost, with its last values", lost);
    let osd = node.start_osd()?;
    node.log("the third line\n")?;
    let back = terminal.wait(|screen| {
        let has = |text: &str| screen.iter().any(|line| line.contains(text));
        !has("LOST for") && has("the third line")
    });
    outcome.claim("a node that is back is connected again", back);
    terminal.resize(40, 130)?;
    let large = terminal.wait(|screen| screen[39].contains("q quit"));
    outcome.claim("the dashboard fills a terminal that becomes larger", large);
    terminal.press("/third\r")?;
    let filtered = terminal.wait(|screen| {
        let has = |text: &str| screen.iter().any(|line| line.contains(text));
        has("with `third`: 1 found") && !has("the first line")
    });
    outcome.claim("the log is filtered", filtered);
    let output = terminal.output();
    let is_harmless = !output.contains("\u{1b}]0;evil");
    outcome.check("no sequence of a node reaches the terminal", is_harmless, || output);
    terminal.press("q")?;
    outcome.claim("`q` gives the terminal back", terminal.ends_with(0));
    a_node_that_hangs_delays_nothing(&node, &osd, outcome)?;
    drop(osd);
    remote.finish(&["node", "remove", NAME]).map(drop)
}

/// The keys and signals have their effect while `osd` is stopped.
fn a_node_that_hangs_delays_nothing(
    node: &Node,
    osd: &Program,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut terminal = node.dashboard()?;
    let shown = terminal.wait(|screen| screen.iter().any(|line| line.contains("the third line")));
    outcome.claim("the dashboard is there again", shown);
    let process = i32::try_from(osd.0.id()).ok().and_then(Pid::from_raw);
    let process = process.ok_or_else(|| Error::build("`osd` has no identifier"))?;
    kill_process(process, Signal::STOP).or_build(|| "cannot stop `osd`".to_owned())?;
    let began = Instant::now();
    terminal.press("3")?;
    let shown = terminal.wait(|screen| !screen.iter().any(|line| line.contains("log: all")));
    let is_fast = shown.is_ok() && began.elapsed() < MAX_DELAY;
    outcome.check("a node that hangs delays no key", is_fast, || format!("{shown:?}"));
    terminal.terminate()?;
    outcome.claim("SIGTERM gives the terminal back", terminal.ends_with(128 + 15));
    Ok(())
}

impl<'a> Node<'a> {
    /// Makes its folder, and starts what reads its logs.
    fn new(remote: &'a Remote<'a>) -> Result<Node<'a>> {
        let folder = remote.folder.join(NAME);
        for name in ["keep", "logs", "share/pods", "kubelet"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).or_build(|| format!("cannot make `{}`", path.display()))?;
        }
        let mut inspect = tied(remote.osd);
        inspect.arg("inspect").arg("--socket").arg(folder.join("inspect.sock"));
        inspect.arg("--logs").arg(folder.join("logs")).args(["--processes", "/proc"]);
        inspect.args(["--pod", "kube-system/osd", "--resolver", "/etc/resolv.conf"]);
        inspect.args(["--hosts", "/etc/hosts", "--authorities"]);
        inspect.arg("/etc/ssl/certs/ca-certificates.crt").arg("--share").arg(folder.join("share"));
        inspect.arg("--kubelet").arg(folder.join("kubelet"));
        inspect.args(["--os-release", "/etc/os-release"]).stdin(Stdio::null());
        let inspect = inspect.spawn().or_build(|| "cannot start `osd inspect`".to_owned())?;
        // `osd` has to listen at the same port again.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr());
        let port = port.or_build(|| "no port is free".to_owned())?.port();
        let node = Node { remote, folder, port, _inspect: Program(inspect) };
        node.log(LINES)?;
        Ok(node)
    }

    /// Starts `osd`, and waits until it listens.
    fn start_osd(&self) -> Result<Program> {
        let output = self.folder.join("osd.out");
        let file =
            File::create(&output).or_build(|| format!("cannot write `{}`", output.display()))?;
        let mut osd = tied(self.remote.osd);
        osd.arg("--observe").arg("--socket").arg(self.folder.join("osd.sock"));
        osd.arg("--keep").arg(self.folder.join("keep"));
        osd.arg("--inspect").arg(self.folder.join("inspect.sock"));
        osd.args(["--listen", &format!("127.0.0.1:{}", self.port), "--clients"]);
        osd.arg(self.remote.key(TRUSTED, "api.crt")).stdin(Stdio::null()).stdout(file);
        let osd = Program(osd.spawn().or_build(|| "cannot start `osd`".to_owned())?);
        let began = Instant::now();
        while self.fingerprint().is_none() {
            if began.elapsed() > TIMEOUT {
                return Err(Error::build("`osd` does not listen"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(osd)
    }

    /// The fingerprint in the line that `osd` prints when it listens.
    fn fingerprint(&self) -> Option<String> {
        let output = fs::read_to_string(self.folder.join("osd.out")).ok()?;
        let (line, _) = output.split_once('\n')?;
        line.split(' ').find(|word| word.starts_with("sha256:")).map(str::to_owned)
    }

    /// Adds it to the nodes that `osctl` knows.
    fn add(&self) -> Result<()> {
        let certificate = self.remote.key(TRUSTED, "admin.pem").display().to_string();
        let address = format!("127.0.0.1:{}", self.port);
        let fingerprint = self.fingerprint().unwrap_or_default();
        let words = ["node", "add", NAME, &address, "--certificate", &certificate];
        self.remote.finish(&[&words[..], &["--fingerprint", &fingerprint]].concat()).map(drop)
    }

    /// Adds lines to its log.
    fn log(&self, lines: &str) -> Result<()> {
        let path = self.folder.join("logs/kubelet.log");
        let mut options = File::options();
        let file = options.create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(lines.as_bytes()));
        written.or_build(|| format!("cannot write `{}`", path.display()))
    }

    fn dashboard(&self) -> Result<PseudoTerminal> {
        let words = format!("-n {NAME} dashboard");
        PseudoTerminal::start(self.folder.clone(), &self.remote.osctl(), &words)
    }
}

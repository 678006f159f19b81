//! `osctl debug`: a shell in a container on the node, of an image that the node has.

use super::busybox;
use super::node::Node;
use super::remote::Osctl;
use crate::check::Outcome;
use crate::site::Site;
use crate::state_api::pseudo_terminal::PseudoTerminal;
use crate::vm::node::NodeUnderTest;
use osbuild::error::{Context, Error, Result};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The words that name the image.
const DEBUG: [&str; 4] = ["debug", "--image", busybox::IMAGE, "--rights=node"];

/// The additions to the recipe of the other checks: rights, and a pod that has the image.
pub const API: &str = "debug = \"node\"\n";
const POD: &str = "tools";
const MANIFEST: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: tools
  annotations: { osbuild/runs: once }
spec:
  hostNetwork: true
  restartPolicy: OnFailure
  containers:
    - name: ends
      image: example.org/tools:1
      imagePullPolicy: Never
      command: [/bin/true]
";

/// How long the pod may stay after its command.
const GONE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a shell may take to begin and to answer, on an emulated processor.
const SHELL_TIMEOUT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(200);

/// The marks of a container on the console and in the list of processes.
const CONSOLE: &str = "init: debug: ";
const BEGINS: &str = "with the rights `node`, 90 s at most";
const PROCESS: &str = "kube-system/debug-";

/// The sections of the recipe with a pod that has the image.
pub fn tools(site: &Site, project: &Path) -> Result<String> {
    busybox::BUSYBOX.pod(site, project, POD, MANIFEST, &[])
}

/// A command runs without a terminal, and its exit code comes back.
pub fn runs_a_command(osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    // `init` may have children, too.
    let script = "cat /host/etc/os-release; ps | grep -q '[/]bin/init' && echo sees init; \
                  echo wrong >&2; exit 7";
    let ran = osctl.run(&[&DEBUG[..], &["--", "sh", "-c", script]].concat())?;
    let has_all = ["NAME=", "sees init", "wrong", "the node pulls"];
    let has_all = has_all.iter().all(|text| ran.output.contains(text));
    outcome.check("a command in a debug container sees the node", has_all, || ran.output.clone());
    outcome.check("its exit code comes back", ran.code == Some(7), || ran.output);
    is_gone(osctl, "the pod is gone soon", outcome)?;
    let script = "for place in run data var/lib/osd; do touch /host/$place/x; done";
    let ran = osctl.run(&[&DEBUG[..], &["--", "sh", "-c", script]].concat())?;
    let refused = ran.output.matches("Read-only file system").count();
    outcome.check("it writes to no file of the node", refused == 3, || ran.output);
    Ok(())
}

/// A person talks to a shell on a terminal.
pub fn talks_to_a_shell(osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let folder = osctl.project.join("out");
    let mut terminal = PseudoTerminal::start(folder, &osctl.command(&[]), &DEBUG.join(" "))?;
    let mut answers = |keys: &str, text: &str| -> Result<bool> {
        terminal.press(keys)?;
        Ok(terminal.shows(text, SHELL_TIMEOUT))
    };
    let begins = answers("", "# ")?;
    let computes = answers("echo $((6 * 7))\r", "42\r\n")?;
    let has_size = answers("stty size\r", "24 80")?;
    let is_interrupted = answers("sleep 1000\r", "sleep 1000\r\n")?
        && answers("\u{3}", "^C")?
        && answers("echo a$((1 + 1))b\r", "a2b\r\n")?;
    let ends = answers("exit 7\r", "code 7")?;
    let shown = terminal.output();
    for (claim, is_so) in [
        ("a shell in a debug container begins", begins),
        ("a person talks to it", computes),
        ("it has the size of the terminal", has_size),
        ("Ctrl-C interrupts what it runs", is_interrupted),
        ("its exit code comes back from a terminal, too", ends),
    ] {
        outcome.check(claim, is_so, || shown.clone());
    }
    is_gone(osctl, "its pod is gone soon", outcome)
}

/// A failure of the node comes with its reason.
pub fn says_what_fails(osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let ran = osctl.run(&["debug", "--image", busybox::IMAGE, "--", "true"])?;
    let is_said = ran.code == Some(2) && ran.output.contains("no network for pods");
    outcome.check("a node without a network for pods says what helps", is_said, || ran.output);
    is_gone(osctl, "the pod that cannot start is gone soon", outcome)?;
    let image = "127.0.0.1:1/none:1";
    let ran = osctl.run(&["debug", "--image", image, "--rights", "node", "--", "true"])?;
    let is_said = ran.code == Some(2) && ran.output.contains("the image cannot be pulled: ");
    outcome
        .check("an image that cannot be pulled is named with the reason", is_said, || ran.output);
    is_gone(osctl, "the pod without an image is gone soon", outcome)
}

/// `init` ends a container without `osd`, which is stopped.
pub fn ends_without_osd(
    node: &Node,
    osctl: &Osctl,
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<()> {
    let words = [&DEBUG[..], &["--timeout", "90s", "--", "sleep", "1000"]].concat();
    let _session = Session::start(osctl.command(&words))?;
    // The time distinguishes the line from those of earlier containers.
    running.wait_for_line(BEGINS, &[CONSOLE, busybox::IMAGE])?;
    let began = Instant::now();
    while !osctl.finish(&["ps"])?.contains("sleep 1000") {
        if began.elapsed() > SHELL_TIMEOUT {
            return Err(Error::build("the command does not begin"));
        }
        sleep(PAUSE);
    }
    node.signal("STOP")?;
    let ended = running.wait_for_line(CONSOLE, &["ends"]);
    sleep(GONE_TIMEOUT);
    node.signal("CONT")?;
    ended?;
    // At the first look: nothing has happened since.
    let shown = osctl.finish(&["ps"])?;
    let is_there = shown.contains(PROCESS);
    outcome.check("a container ends with its time while osd hangs", !is_there, || shown);
    Ok(())
}

/// Waits until the node has no process of a debug container.
fn is_gone(osctl: &Osctl, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let began = Instant::now();
    loop {
        let shown = osctl.finish(&["ps"])?;
        let is_there = shown.contains(PROCESS);
        if !is_there || began.elapsed() > GONE_TIMEOUT {
            outcome.check(claim, !is_there, || shown);
            return Ok(());
        }
        sleep(PAUSE);
    }
}

/// A running `osctl`, which ends with this.
struct Session(Child);

impl Session {
    fn start(mut command: Command) -> Result<Session> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Session).or_build(|| "cannot start `osctl`".to_owned())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

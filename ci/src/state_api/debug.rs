//! `osctl debug`, on a terminal and without, beside a real `osd` and the real program of a
//! container. The kubelet is missing: an `init` starts the program instead.

use super::Program;
use super::pseudo_terminal::PseudoTerminal;
use super::remote::{Remote, TRUSTED};
use crate::check::Outcome;
use crate::child::tied;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::osd::DEBUG_VARIABLE;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// The name of the node for `osctl`, and the image of its containers, which nobody pulls.
const NAME: &str = "debugged";
const DEBUG: [&str; 5] = ["-n", NAME, "debug", "--image", "localhost/tools:1"];

/// How long something may take that comes soon.
const TIMEOUT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);

/// How long a program may take to end its command.
const GRACE: Duration = Duration::from_secs(2);

/// Bytes that go through a command and back.
const BYTES: usize = 5 << 20;

/// The program in the container that there is.
type Container = Arc<Mutex<Option<Program>>>;

/// A command has the streams or the terminal of the user, and its exit code comes back.
pub fn connects_a_person_with_a_command(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let folder = remote.folder.join(NAME);
    fs::create_dir_all(&folder).or_build(|| "cannot make a folder".to_owned())?;
    let container = serve_as_init(remote.osd.to_owned(), &folder)?;
    let _osd = start(remote, &folder)?;
    streams_are_those_of_the_user(remote, outcome)?;
    a_terminal_is_given_back(remote, &folder, outcome)?;
    goes_with_osctl(remote, &container, outcome)?;
    let ran = remote.run(&[&DEBUG[..], &["--rights", "node", "--", "true"]].concat())?;
    let is_refused = ran.code == Some(2) && ran.output.contains("error: the image forbids it");
    outcome.check("what the recipe forbids is refused with a reason", is_refused, || ran.output);
    remote.finish(&["node", "remove", NAME]).map(drop)
}

fn streams_are_those_of_the_user(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
    let ran = pipe(remote, "cat; echo wrong >&2; exit 7", &bytes)?;
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    outcome.check("what goes through a command comes back whole", ran.stdout == bytes, || {
        format!("{} bytes; {errors}", ran.stdout.len())
    });
    outcome.check("the exit code is that of the command", ran.status.code() == Some(7), || {
        format!("{}: {errors}", ran.status)
    });
    let are_apart = errors.contains("note: debug-") && errors.ends_with("wrong\n");
    outcome.check("stderr comes apart from stdout", are_apart, || errors);
    Ok(())
}

/// Runs a script in a container, with input from a pipe.
fn pipe(remote: &Remote, script: &str, input: &[u8]) -> Result<Output> {
    let cannot = || "cannot run `osctl debug`".to_owned();
    let mut osctl = remote.osctl();
    osctl.args(DEBUG).args(["--", "sh", "-c", script]);
    osctl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut osctl = osctl.spawn().or_build(cannot)?;
    let stdin = osctl.stdin.take();
    let input = input.to_owned();
    let writer = spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let output = osctl.wait_with_output().or_build(cannot)?;
    drop(writer.join());
    Ok(output)
}

/// Keys reach the command as they are, and the settings of the terminal are those from before.
fn a_terminal_is_given_back(remote: &Remote, folder: &Path, outcome: &mut Outcome) -> Result<()> {
    let mut terminal = PseudoTerminal::start(folder.to_owned(), &remote.osctl(), &DEBUG.join(" "))?;
    let runs = shows(&mut terminal, "", "note: debug-")?;
    let computes = shows(&mut terminal, "echo $((6 * 7))\r", "42\r\n")?;
    let has_size = shows(&mut terminal, "stty size\r", "24 80\r\n")?;
    let resized = terminal.resize(40, 130);
    // The size takes the way of the keys, but may come after them.
    let is_resized = "until stty size | grep '40 130'; do sleep 1; done\r";
    let follows = resized.is_ok() && shows(&mut terminal, is_resized, "40 130\r\n")?;
    // A terminal forgets keys that nobody has read yet when it gets Ctrl-C.
    let interrupted = shows(&mut terminal, "sleep 1000\r", "sleep 1000\r\n")?
        && shows(&mut terminal, "\u{3}", "^C")?
        && shows(&mut terminal, "echo a$((1 + 1))b\r", "a2b\r\n")?;
    let ends = shows(&mut terminal, "exit 7\r", "code 7")?;
    sleep(PAUSE);
    let shown = terminal.output();
    let mut lines = shown.lines().map(str::trim_end);
    let is_same = lines.next().is_some_and(|settings| lines.next_back() == Some(settings));
    for (claim, is_so) in [
        ("`osctl debug` shows what the node does", runs),
        ("a person talks to a shell", computes),
        ("it has the size of the terminal", has_size),
        ("it follows the size of the terminal", follows),
        ("Ctrl-C interrupts a command, and the shell goes on", interrupted),
        ("its exit code is that of `osctl`", ends),
        ("the terminal is given back", is_same),
    ] {
        outcome.check(claim, is_so, || shown.clone());
    }
    let mut terminal = PseudoTerminal::start(folder.to_owned(), &remote.osctl(), &DEBUG.join(" "))?;
    let left = shows(&mut terminal, "echo $((6 * 7))\r", "42\r\n")?
        && shows(&mut terminal, "~.", "you have left")?;
    outcome.check("`~.` leaves", left, || terminal.output());
    Ok(())
}

/// Types, and waits until the terminal has got this text.
fn shows(terminal: &mut PseudoTerminal, keys: &str, text: &str) -> Result<bool> {
    // A program that has ended takes no keys: its output says why.
    if terminal.press(keys).is_err() {
        return Ok(false);
    }
    let began = Instant::now();
    while !terminal.output().contains(text) && began.elapsed() < TIMEOUT {
        sleep(PAUSE);
    }
    Ok(terminal.output().contains(text))
}

/// An `osctl` that is killed takes the container with it.
fn goes_with_osctl(remote: &Remote, container: &Container, outcome: &mut Outcome) -> Result<()> {
    let becomes = |is_there: bool| {
        let began = Instant::now();
        let has = || container.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        while has() != is_there && began.elapsed() < TIMEOUT {
            sleep(PAUSE);
        }
        has() == is_there
    };
    // That of the call before ends a moment after its command.
    let is_free = becomes(false);
    let mut osctl = remote.osctl();
    osctl.args(DEBUG).args(["--", "sleep", "1000"]);
    osctl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut osctl = osctl.spawn().or_build(|| "cannot start `osctl`".to_owned())?;
    let began = is_free && becomes(true);
    osctl.kill().and_then(|()| osctl.wait()).or_build(|| "cannot end `osctl`".to_owned())?;
    outcome.check("a container ends with `osctl`", began && becomes(false), String::new);
    Ok(())
}

/// Serves the requests of `osd` at the socket `admin` in the folder.
fn serve_as_init(program: PathBuf, folder: &Path) -> Result<Container> {
    let path = folder.join("admin");
    // That of an earlier run may be there.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).or_build(|| format!("cannot make {path:?}"))?;
    let (container, debug) = (Container::default(), folder.join("debug"));
    let shared = container.clone();
    spawn(move || {
        for stream in listener.incoming().map_while(std::io::Result::ok) {
            answer(&stream, &program, &debug, &shared);
        }
    });
    Ok(container)
}

fn answer(mut stream: &UnixStream, program: &Path, socket: &Path, container: &Container) {
    for line in BufReader::new(stream).lines().map_while(std::io::Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let mut there = container.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = match words[..] {
            ["debug", _, "node", ..] => "error: the image forbids it [code=8]\n",
            ["debug", id, ..] => {
                let mut attach = tied(program);
                attach.args(["attach", "--socket"]).arg(socket).env(DEBUG_VARIABLE, id);
                *there = attach.stdin(Stdio::null()).spawn().ok().map(Program);
                "ok\n"
            }
            _ => {
                there.take().iter().for_each(end);
                "ok\n"
            }
        };
        // `osd` may have gone.
        let _ = stream.write_all(reply.as_bytes());
    }
}

/// Ends the program as the kubelet does, so that its command ends first.
fn end(container: &Program) {
    let process = i32::try_from(container.0.id()).ok().and_then(Pid::from_raw);
    let ended = process.map(|process| kill_process(process, Signal::TERM));
    if ended.is_some_and(|ended| ended.is_ok()) {
        sleep(GRACE);
    }
}

/// Starts an `osd` with that `init`, and adds it to the nodes that `osctl` knows.
fn start(remote: &Remote, folder: &Path) -> Result<Program> {
    let output = folder.join("osd.out");
    let file = File::create(&output).or_build(|| format!("cannot write `{}`", output.display()))?;
    let mut osd = tied(remote.osd);
    for (flag, name) in [("--socket", "osd"), ("--admin", "admin"), ("--debug", "debug")] {
        osd.arg(flag).arg(folder.join(name));
    }
    osd.args(["--listen", "127.0.0.1:0", "--clients"]).arg(remote.key(TRUSTED, "api.crt"));
    osd.stdin(Stdio::null()).stdout(file);
    let osd = Program(osd.spawn().or_build(|| "cannot start `osd`".to_owned())?);
    let began = Instant::now();
    let line = loop {
        let printed = fs::read_to_string(&output).unwrap_or_default();
        if let Some((line, _)) = printed.split_once('\n') {
            break line.to_owned();
        }
        if began.elapsed() > TIMEOUT {
            return Err(Error::build("`osd` does not listen"));
        }
        sleep(PAUSE);
    };
    let words: Vec<&str> = line.split(' ').collect();
    let fingerprint = words.iter().find(|word| word.starts_with("sha256:"));
    let (Some(address), Some(fingerprint)) = (words.get(2), fingerprint) else {
        return Err(Error::build("`osd` does not say where it listens").cause(line.clone()));
    };
    let certificate = remote.key(TRUSTED, "admin.pem").display().to_string();
    let add = ["node", "add", NAME, address, "--certificate", &certificate];
    remote.finish(&[&add[..], &["--fingerprint", fingerprint]].concat())?;
    Ok(osd)
}

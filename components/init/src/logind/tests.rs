//! The bus with clients that we did not write.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Instant;

use osbuild_protocol::fd_passing;
use tempfile::TempDir;

use crate::sockets::closer::tests::{SOON, lingering};

const TIMEOUT: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(60);
const OBJECT: [&str; 2] = ["org.freedesktop.login1", "/org/freedesktop/login1"];
const INTERFACE: &str = "org.freedesktop.login1.Manager";
const PROPERTY: &str = "InhibitDelayMaxUSec";

/// A bus that a thread serves until this is dropped.
struct Served {
    folder: TempDir,
    announce: Sender<()>,
    changes: Receiver<Change>,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut logind = Logind::default();
        logind.set_grace(GRACE);
        logind.listen(&folder.path().join("bus")).unwrap();
        let ((announce, announced), (sender, changes)) = (channel(), channel());
        thread::spawn(move || {
            loop {
                for change in logind.poll() {
                    let _ = sender.send(change);
                }
                match announced.try_recv() {
                    Ok(()) => logind.announce(Duration::ZERO),
                    Err(TryRecvError::Empty) => thread::sleep(Duration::from_millis(1)),
                    Err(TryRecvError::Disconnected) => return,
                }
            }
        });
        Served { folder, announce, changes }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("bus")
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        let address = format!("unix:path={}", self.path().display());
        command.args(words).env("DBUS_SYSTEM_BUS_ADDRESS", address).env("LC_ALL", "C");
        command
    }

    /// The output of a program: stdout, then stderr.
    fn output(&self, program: &str, words: &[&str]) -> String {
        let output = self.command(program, words).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    fn change(&self) -> Change {
        self.changes.recv_timeout(TIMEOUT).unwrap()
    }

    /// Starts a program that holds a lock until its input ends.
    fn inhibit(&self) -> Child {
        let words = ["--what=shutdown", "--mode=delay", "--who=a \u{7} b", "cat"];
        self.command("systemd-inhibit", &words).stdin(Stdio::piped()).spawn().unwrap()
    }
}

#[test]
fn busctl_and_gdbus_read_how_long_a_shutdown_may_be_delayed() {
    let served = Served::new();
    let words = [&["get-property"], &OBJECT[..], &[INTERFACE, PROPERTY]].concat();
    assert_eq!(served.output("busctl", &words), "t 70000000\n");
    let [name, path] = OBJECT;
    let method = "org.freedesktop.DBus.Properties.Get";
    let words = ["call", "--system", "--dest", name, "--object-path", path, "--method", method];
    let words = [&words[..], &[INTERFACE, PROPERTY]].concat();
    assert_eq!(served.output("gdbus", &words), "(<uint64 70000000>,)\n");
}

#[test]
fn systemd_inhibit_holds_a_lock_until_it_exits() {
    let served = Served::new();
    let mut client = served.inhibit();
    let who = "a ? b".to_owned();
    assert_eq!(served.change(), Change::Taken(who.clone()));
    drop(client.stdin.take());
    assert_eq!(served.change(), Change::GivenUp(who));
    assert!(client.wait().unwrap().success());
}

#[test]
fn a_lock_is_refused_once_the_shutdown_was_announced() {
    let served = Served::new();
    served.announce.send(()).unwrap();
    let words = [&["call"], &OBJECT[..], &[INTERFACE, "Inhibit", "ssss"]].concat();
    let words = [&words[..], &["shutdown", "late", "why", "delay"]].concat();
    // The announcement may come after the first calls.
    let refused = "Call failed: the shutdown has begun\n";
    assert!((0..100).any(|_| served.output("busctl", &words) == refused));
}

#[test]
fn dbus_monitor_sees_the_announcement() {
    let served = Served::new();
    let rule = "type='signal',interface='org.freedesktop.login1.Manager'";
    let mut client = served.command("dbus-monitor", &["--system", rule]);
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // It adds its rule at some time, so the bus announces the shutdown again and again.
    let announce = served.announce.clone();
    thread::spawn(move || {
        (0..1000).all(|_| {
            thread::sleep(Duration::from_millis(20));
            announce.send(()).is_ok()
        })
    });
    let lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap).skip_while(|line| !line.contains("member=Prepare"));
    let signal = lines.next().unwrap();
    let value = lines.next().unwrap();
    client.kill().and_then(|()| client.wait()).unwrap();
    assert!(signal.contains("sender=:1.0 "), "{signal}");
    assert!(signal.contains("path=/org/freedesktop/login1; "), "{signal}");
    assert_eq!(value.trim(), "boolean true");
}

#[test]
fn dbus_send_gets_an_error_for_everything_else() {
    let served = Served::new();
    for (destination, path, method, error) in [
        ("org.freedesktop.systemd1", "/", "a.b.KillUnit", "Error.ServiceUnknown"),
        ("org.freedesktop.login1", "/", "a.b.C", "Error.UnknownObject"),
        (OBJECT[0], OBJECT[1], "a.b.C", "Error.UnknownInterface"),
        (OBJECT[0], OBJECT[1], "org.freedesktop.login1.Manager.PowerOff", "Error.UnknownMethod"),
        ("org.freedesktop.DBus", "/", "org.freedesktop.DBus.ListNames", "Error.UnknownMethod"),
    ] {
        let destination = format!("--dest={destination}");
        let words = ["--system", "--print-reply", &destination, path, method];
        let output = served.output("dbus-send", &words);
        assert!(output.starts_with(&format!("Error org.freedesktop.DBus.{error}: ")), "{output}");
    }
}

#[test]
fn a_client_that_sends_garbage_loses_its_own_connection_alone() {
    let served = Served::new();
    let mut holder = served.inhibit();
    assert!(matches!(served.change(), Change::Taken(_)));
    let mut client = UnixStream::connect(served.path()).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(BufReader::new(client).lines().count(), 0);
    let words = [&["get-property"], &OBJECT[..], &[INTERFACE, PROPERTY]].concat();
    assert_eq!(served.output("busctl", &words), "t 70000000\n");
    drop(holder.stdin.take());
    assert!(matches!(served.change(), Change::GivenUp(_)));
    holder.wait().unwrap();
}

#[test]
fn a_file_whose_close_hangs_does_not_hold_up_the_bus() {
    let folder = tempfile::tempdir().unwrap();
    let mut logind = Logind::default();
    logind.listen(&folder.path().join("bus")).unwrap();
    // The second connection is closed because of its garbage, before the other message is received.
    for text in ["\0", "garbage"] {
        let client = UnixStream::connect(folder.path().join("bus")).unwrap();
        let _peers = [text, "more"].map(|text| {
            let (file, peer) = lingering();
            fd_passing::send(&client, text, Some(file.as_fd())).unwrap();
            peer
        });
        let since = Instant::now();
        assert!(logind.poll().is_empty());
        assert!(since.elapsed() < SOON, "{text:?}");
    }
}

#[test]
fn clients_that_never_speak_do_not_keep_others_out() {
    let served = Served::new();
    let silent: Vec<UnixStream> =
        (0..2 * MAX_CLIENTS).map(|_| UnixStream::connect(served.path()).unwrap()).collect();
    let words = [&["get-property"], &OBJECT[..], &[INTERFACE, PROPERTY]].concat();
    assert_eq!(served.output("busctl", &words), "t 70000000\n");
    drop(silent);
}

#[test]
fn a_lock_delays_a_shutdown_until_it_is_given_up_or_the_time_is_over() {
    let mut logind = Logind::default();
    logind.set_grace(GRACE);
    let over = GRACE + MARGIN;
    assert!(logind.is_free(Duration::ZERO));
    let (inhibitor, given) = Inhibitor::new("kubelet".to_owned()).unwrap();
    logind.inhibitors.push(inhibitor);
    logind.announce(Duration::from_secs(1));
    logind.announce(Duration::from_secs(50));
    assert!(logind.poll().is_empty() && !logind.is_free(over));
    assert!(logind.is_free(over + Duration::from_secs(1)));
    rustix::io::write(&given, b"ignored").unwrap();
    assert!(logind.poll().is_empty());
    drop(given);
    assert_eq!(logind.poll(), [Change::GivenUp("kubelet".to_owned())]);
    assert!(logind.is_free(Duration::from_secs(1)));
}

//! A stand-in for `init`, whose slot is a file.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use osbuild_abi::slot::HEADER_SIZE;
use osbuild_protocol::{Reply, Request, Slots, Socket, UpdateReport, fd_passing};
use osbuild_slots::Header;
use sha2::{Digest, Sha256};

/// The stand-in.
pub struct Init {
    slot: PathBuf,
    state: Arc<Mutex<State>>,
}

/// The status to report, and what was requested.
struct State {
    status: String,
    verbs: Vec<String>,
    progress: Vec<UpdateReport>,
    refuses_progress: bool,
    boot_program_refusal: Option<&'static str>,
    asks_for_check: bool,
    boot_program: Vec<u8>,
}

impl Init {
    /// Listens on the socket. The slot has `size` bytes.
    pub fn start(socket: &Path, size: u64) -> Init {
        let slot = socket.with_file_name("slot");
        std::fs::write(&slot, vec![0; size as usize]).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let state = Arc::new(Mutex::new(State {
            status: version_0(
                "SLOT-A, version 1, sha256 000000000000: good",
                "SLOT-B, empty: not to be booted",
            ),
            verbs: Vec::new(),
            progress: Vec::new(),
            refuses_progress: false,
            boot_program_refusal: None,
            asks_for_check: false,
            boot_program: Vec::new(),
        }));
        let (path, shared) = (slot.clone(), Arc::clone(&state));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (path, shared) = (path.clone(), Arc::clone(&shared));
                thread::spawn(move || serve(&client, &path, size, &shared));
            }
        });
        Init { slot, state }
    }

    /// Sets the version in the running, good slot, as version 0 of the protocol reports it.
    pub fn runs(&self, version: u32) {
        let running = format!("SLOT-A, version {version}, sha256 000000000000: good");
        self.reports_version_0(&running, "SLOT-B, empty: not to be booted");
    }

    /// Sets the slots that an `init` with version 0 of the protocol reports.
    pub fn reports_version_0(&self, running: &str, other: &str) {
        self.state.lock().unwrap().status = version_0(running, other);
    }

    /// Sets the slots that this release's `init` reports.
    pub fn reports(&self, slots: Slots) {
        self.state.lock().unwrap().status = Reply::Slots(slots).encode();
    }

    /// Refuses reports from now on, as an `init` of an earlier release does.
    pub fn refuses_progress(&self) {
        self.state.lock().unwrap().refuses_progress = true;
    }

    /// Has a person ask for a check from now on.
    pub fn asks_for_check(&self) {
        self.state.lock().unwrap().asks_for_check = true;
    }

    /// Answers the request to replace the boot program with this from now on, if with anything.
    pub fn refuses_boot_programs(&self, refusal: Option<&'static str>) {
        self.state.lock().unwrap().boot_program_refusal = refusal;
    }

    /// The reports of the updater.
    pub fn progress(&self) -> Vec<UpdateReport> {
        self.state.lock().unwrap().progress.clone()
    }

    /// The verbs of all requests but `status`, `await-check` and `progress`, which change nothing.
    pub fn verbs(&self) -> Vec<String> {
        self.state.lock().unwrap().verbs.clone()
    }

    /// The boot program that it received.
    pub fn boot_program(&self) -> Vec<u8> {
        self.state.lock().unwrap().boot_program.clone()
    }

    /// All bytes of the slot.
    pub fn slot(&self) -> Vec<u8> {
        std::fs::read(&self.slot).unwrap()
    }
}

fn version_0(running: &str, other: &str) -> String {
    format!("slot SLOT-A\nslot-why good\nslot-running {running}\nslot-other {other}\nok\n")
}

fn serve(client: &UnixStream, slot: &Path, size: u64, state: &Mutex<State>) {
    while let Some((verb, descriptor)) = receive(client) {
        let mut state = state.lock().unwrap();
        match verb.as_str() {
            "status" => {
                send(client, &state.status, None);
                continue;
            }
            report if report.starts_with("progress ") => {
                let mut reply = "error: `progress` is not a verb of this socket [code=1]\n";
                if !state.refuses_progress {
                    let report = Request::decode(Socket::Update, report).unwrap();
                    let Request::Progress(report) = report else { panic!("{report}") };
                    state.progress.push(report);
                    reply = "ok\n";
                }
                send(client, reply, None);
                continue;
            }
            "await-check" if state.asks_for_check => {
                send(client, "ok\n", None);
                continue;
            }
            // Nobody asks for a check, so there is no reply until the client ends.
            "await-check" => continue,
            "slot" => {
                let file = OpenOptions::new().read(true).write(true).open(slot).unwrap();
                send(client, &format!("length {size}\nok\n"), Some(file.as_fd()));
            }
            "boot-program" if let Some(refusal) = state.boot_program_refusal => {
                send(client, refusal, None);
                continue;
            }
            "boot-program" => {
                File::from(descriptor.unwrap()).read_to_end(&mut state.boot_program).unwrap();
                send(client, "ok\n", None);
            }
            "try" if !is_whole(slot) => {
                send(client, "error: the slot does not hold what its header says\n", None)
            }
            "try" | "reboot" => send(client, "ok\n", None),
            _ => send(client, "error: `x` is no verb of this socket\n", None),
        }
        state.verbs.push(verb);
    }
}

/// Whether the slot matches its header. The real `init` reads it back too.
fn is_whole(slot: &Path) -> bool {
    let mut file = File::open(slot).unwrap();
    let mut first = vec![0; HEADER_SIZE as usize];
    file.read_exact(&mut first).unwrap();
    let Ok(header) = Header::parse(&first) else { return false };
    let (mut uki, mut hash, mut piece) =
        (file.take(header.length), Sha256::new(), vec![0; 1 << 20]);
    loop {
        match uki.read(&mut piece).unwrap() {
            0 => break,
            read => hash.update(&piece[..read]),
        }
    }
    hash.finalize()[..] == header.sha256
}

fn receive(client: &UnixStream) -> Option<(String, Option<OwnedFd>)> {
    let mut buffer = [0; 4096];
    // A client that was killed resets the connection.
    let (read, descriptors) = fd_passing::receive(client, &mut buffer).ok()?;
    let verb = String::from_utf8(buffer[..read].to_vec()).unwrap();
    verb.strip_suffix('\n').map(|verb| (verb.to_owned(), descriptors.into_iter().next()))
}

fn send(client: &UnixStream, text: &str, descriptor: Option<BorrowedFd>) {
    // A client that was killed does not wait for it.
    let _ = fd_passing::send(client, text, descriptor);
}

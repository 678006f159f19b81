//! An `init` with a slot that is a file.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use osbuild_abi::slot::HEADER_SIZE;
use osbuild_protocol::{Reply, Slots, fd_passing};
use osbuild_slots::Header;
use sha2::{Digest, Sha256};

/// The other side of the socket.
pub struct Init {
    slot: PathBuf,
    told: Arc<Mutex<Told>>,
}

/// What `init` knows, and what it was asked.
struct Told {
    status: String,
    verbs: Vec<String>,
    boot_program: Vec<u8>,
}

impl Init {
    /// Listens. The slot has so many bytes.
    pub fn start(socket: &Path, room: u64) -> Init {
        let slot = socket.with_file_name("slot");
        std::fs::write(&slot, vec![0; room as usize]).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let told = Arc::new(Mutex::new(Told {
            status: version_0(
                "SLOT-A, version 1, sha256 000000000000: good",
                "SLOT-B, empty: not to be booted",
            ),
            verbs: Vec::new(),
            boot_program: Vec::new(),
        }));
        let (path, shared) = (slot.clone(), Arc::clone(&told));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (path, shared) = (path.clone(), Arc::clone(&shared));
                thread::spawn(move || serve(&client, &path, room, &shared));
            }
        });
        Init { slot, told }
    }

    /// From now on the slots are these, as an `init` of version 0 reports them.
    pub fn says(&self, running: &str, other: &str) {
        self.told.lock().unwrap().status = version_0(running, other);
    }

    /// From now on the slots are these, as this release's `init` reports them.
    pub fn reports(&self, slots: Slots) {
        self.told.lock().unwrap().status = Reply::Slots(slots).encode();
    }

    /// What it was asked, without `status`.
    pub fn verbs(&self) -> Vec<String> {
        self.told.lock().unwrap().verbs.clone()
    }

    /// The boot program that it was given.
    pub fn boot_program(&self) -> Vec<u8> {
        self.told.lock().unwrap().boot_program.clone()
    }

    /// All bytes of the slot.
    pub fn slot(&self) -> Vec<u8> {
        std::fs::read(&self.slot).unwrap()
    }
}

fn version_0(running: &str, other: &str) -> String {
    format!("slot SLOT-A\nslot-why good\nslot-running {running}\nslot-other {other}\nok\n")
}

fn serve(client: &UnixStream, slot: &Path, room: u64, told: &Mutex<Told>) {
    while let Some((verb, given)) = receive(client) {
        let mut told = told.lock().unwrap();
        match verb.as_str() {
            "status" => {
                send(client, &told.status, None);
                continue;
            }
            "slot" => {
                let file = OpenOptions::new().read(true).write(true).open(slot).unwrap();
                send(client, &format!("length {room}\nok\n"), Some(file.as_fd()));
            }
            "boot-program" => {
                File::from(given.unwrap()).read_to_end(&mut told.boot_program).unwrap();
                send(client, "ok\n", None);
            }
            "try" if !is_whole(slot) => {
                send(client, "error: the slot does not hold what its header says\n", None)
            }
            "try" | "reboot" => send(client, "ok\n", None),
            _ => send(client, "error: `x` is no verb of this socket\n", None),
        }
        told.verbs.push(verb);
    }
}

/// Whether the slot holds what its header says, for which the real one reads it, too.
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
    let (read, given) = fd_passing::receive(client, &mut buffer).unwrap();
    let verb = String::from_utf8(buffer[..read].to_vec()).unwrap();
    verb.strip_suffix('\n').map(|verb| (verb.to_owned(), given))
}

fn send(client: &UnixStream, text: &str, given: Option<BorrowedFd>) {
    fd_passing::send(client, text, given).unwrap();
}

//! The nodes of a shared network, each with a socket in the network's folder.
//!
//! `sockets/NUMBER` receives the frames for a node; one frame is one datagram. `numbers/NAME` holds
//! the number of a node's name, so that a node has the same addresses each time.

use super::{MAX_NODES, Protocols, ipv4};
use crate::error::{Context, Error, Result};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// A node on a shared network. Dropping it leaves the network.
#[derive(Debug)]
pub struct Member {
    /// Its number, below [`MAX_NODES`].
    pub number: u8,
    /// Receives the frames for it.
    pub(super) socket: UnixDatagram,
    /// The folder of the sockets.
    pub(super) sockets: PathBuf,
    /// The other nodes that were on the network when this one joined: names and numbers.
    pub others: BTreeMap<String, u8>,
}

impl Member {
    /// Joins the network in `folder`, which is made if it is missing, as the node `name`.
    ///
    /// # Errors
    /// A node of this name is on the network, the nodes on it use other protocols, or all
    /// [`MAX_NODES`] numbers belong to other names.
    pub fn join(folder: &Path, name: &str, protocols: Protocols) -> Result<Self> {
        let cannot = || format!("cannot join the network in `{}`", folder.display());
        let _lock = lock(folder).or_build(cannot)?;
        let (numbers, sockets) = (folder.join(NUMBERS), folder.join(SOCKETS));
        let known = read_numbers(&numbers).or_build(cannot)?;
        let running = |number: u8| is_running(&sockets.join(number.to_string()));
        if known.get(name).is_some_and(|number| running(*number)) {
            return Err(Error::usage(format!("a node `{name}` is already on this network"))
                .hint("give this one another `--name`"));
        }
        let others: BTreeMap<String, u8> =
            known.clone().into_iter().filter(|(_, number)| running(*number)).collect();
        agree(&folder.join("protocols"), protocols, others.is_empty())?;
        let number = number_in(&numbers, &known, name)?;
        let path = sockets.join(number.to_string());
        // The last run may have been killed.
        let _ = fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).or_build(cannot)?;
        Ok(Member { number, socket, sockets, others })
    }

    /// The node's address and the other nodes, for people.
    pub fn describe(&self) -> String {
        let others: Vec<String> =
            self.others.iter().map(|(name, number)| format!("{name} {}", ipv4(*number))).collect();
        match others.len() {
            0 => "no other node is on it yet".to_owned(),
            _ => format!("with {}", others.join(", ")),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // If it stays, nothing answers at it, and the next node with this number replaces it.
        let _ = fs::remove_file(self.sockets.join(self.number.to_string()));
    }
}

/// The folders of the numbers and of the sockets in a network's.
const NUMBERS: &str = "numbers";
const SOCKETS: &str = "sockets";

/// The number of a name on the network in `folder`. The name keeps it from now on.
///
/// # Errors
/// All [`MAX_NODES`] numbers belong to other names.
pub fn number(folder: &Path, name: &str) -> Result<u8> {
    let cannot = || format!("cannot use the network in `{}`", folder.display());
    let _lock = lock(folder).or_build(cannot)?;
    let numbers = folder.join(NUMBERS);
    number_in(&numbers, &read_numbers(&numbers).or_build(cannot)?, name)
}

/// Makes the folders of a network if they are missing. No other process changes them until the
/// result is dropped.
fn lock(folder: &Path) -> std::io::Result<File> {
    for name in [NUMBERS, SOCKETS] {
        fs::create_dir_all(folder.join(name))?;
    }
    // Frames are only as secret as this folder.
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    let lock = File::create(folder.join("lock"))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Returns the number of a name, and writes one that is new.
fn number_in(numbers: &Path, known: &BTreeMap<String, u8>, name: &str) -> Result<u8> {
    if let Some(number) = known.get(name) {
        return Ok(*number);
    }
    let number = unused(known).ok_or_else(|| too_many(numbers))?;
    let file = numbers.join(name);
    fs::write(&file, number.to_string())
        .or_build(|| format!("cannot write `{}`", file.display()))?;
    Ok(number)
}

/// The numbers of all names that have ever been on the network. A file with anything else belongs
/// to no node.
fn read_numbers(folder: &Path) -> std::io::Result<BTreeMap<String, u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let number = fs::read_to_string(entry.path())?.parse().ok();
        if let (Ok(name), Some(number @ 0..MAX_NODES)) = (entry.file_name().into_string(), number) {
            found.insert(name, number);
        }
    }
    Ok(found)
}

fn unused(known: &BTreeMap<String, u8>) -> Option<u8> {
    (0..MAX_NODES).find(|number| known.values().all(|used| used != number))
}

/// Whether a process receives from the socket.
fn is_running(socket: &Path) -> bool {
    UnixDatagram::unbound().and_then(|probe| probe.connect(socket)).is_ok()
}

/// All nodes of a network use the same protocols; the first one chooses them.
fn agree(file: &Path, protocols: Protocols, is_first: bool) -> Result<()> {
    let cannot = || format!("cannot use `{}`", file.display());
    if is_first {
        return fs::write(file, protocols.to_string()).or_build(cannot);
    }
    let theirs = fs::read_to_string(file).or_build(cannot)?;
    if theirs == protocols.to_string() {
        return Ok(());
    }
    Err(Error::usage(format!("the nodes on this network use `{theirs}`, not `{protocols}`"))
        .hint("use the same `--network` for all of them"))
}

fn too_many(numbers: &Path) -> Error {
    let path = numbers.display();
    Error::usage(format!("the network has had {MAX_NODES} names, and each keeps its address"))
        .hint(format!("once none of its nodes runs, forget the names: rm -r {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_keeps_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let join = |name| Member::join(folder.path(), name, Protocols::Both).unwrap();
        let (a, b) = (join("a"), join("b"));
        assert_eq!((a.number, b.number), (0, 1));
        assert_eq!(a.describe(), "no other node is on it yet");
        assert_eq!(b.describe(), "with a 10.0.2.15");
        drop((a, b));
        assert_eq!((join("b").number, join("c").number, join("a").number), (1, 2, 0));
    }

    #[test]
    fn a_name_that_asks_for_its_number_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(number(folder.path(), "a").unwrap(), 0);
        assert_eq!(number(folder.path(), "b").unwrap(), 1);
        let join = |name| Member::join(folder.path(), name, Protocols::Both).unwrap();
        assert_eq!((join("c").number, join("b").number), (2, 1));
        assert_eq!(number(folder.path(), "c").unwrap(), 2);
    }

    #[test]
    fn a_name_is_on_a_network_only_once() {
        let folder = tempfile::tempdir().unwrap();
        let join = || Member::join(folder.path(), "a", Protocols::Both);
        let first = join().unwrap();
        let error = join().unwrap_err().to_string();
        assert!(error.contains("a node `a` is already on this network\nhint: "), "{error}");
        drop(first);
        join().unwrap();
    }

    #[test]
    fn the_first_node_chooses_the_protocols() {
        let folder = tempfile::tempdir().unwrap();
        let join = |name, protocols| Member::join(folder.path(), name, protocols);
        let first = join("a", Protocols::Ipv6).unwrap();
        let error = join("b", Protocols::Both).unwrap_err().to_string();
        assert!(error.contains("the nodes on this network use `ipv6`, not `both`"), "{error}");
        join("b", Protocols::Ipv6).unwrap();
        drop(first);
        join("b", Protocols::Both).unwrap();
    }

    #[test]
    fn a_killed_node_does_not_block_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let join = || Member::join(folder.path(), "a", Protocols::Both).unwrap();
        drop(join());
        // A killed process leaves the file of its socket.
        let path = folder.path().join("sockets/0");
        drop(UnixDatagram::bind(&path).unwrap());
        assert!(path.exists());
        assert_eq!(join().number, 0);
    }

    #[test]
    fn names_are_not_forgotten_for_the_one_too_many() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("numbers")).unwrap();
        for number in 0..MAX_NODES {
            let file = folder.path().join("numbers").join(format!("n{number}"));
            fs::write(file, number.to_string()).unwrap();
        }
        let error = Member::join(folder.path(), "a", Protocols::Both).unwrap_err().to_string();
        assert!(error.contains("has had 100 names") && error.contains("hint: "), "{error}");
        assert_eq!(Member::join(folder.path(), "n7", Protocols::Both).unwrap().number, 7);
    }

    #[test]
    fn only_the_user_can_enter_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let network = folder.path().join("lab");
        Member::join(&network, "a", Protocols::Both).unwrap();
        assert_eq!(fs::metadata(network).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

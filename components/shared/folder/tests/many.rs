//! Many entries in the way. The messages are of the whole process, so this is a program of its own.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use osbuild_folder::{Folder, MAX_KEPT, moved};

const ENTRIES: usize = 20_000;

/// A look through the folder for each of them takes minutes.
const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn entries_moved_aside_are_reported_and_many_in_time_with_few_messages() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().canonicalize().unwrap();
    let folder = Folder::open(&path, "aside").unwrap();
    symlink("nowhere", path.join("a link")).unwrap();
    folder.move_aside("a link").unwrap();
    let messages = moved();
    assert!(messages[0].contains("/a link is a symbolic link, and is moved aside to "));
    assert!(messages.len() == 1 && messages[0].ends_with("/aside/0-a link"), "{messages:?}");
    let names: Vec<String> = (0..ENTRIES).map(|number| format!("entry-{number}")).collect();
    names.iter().for_each(|name| fs::write(path.join(name), "").unwrap());
    let since = Instant::now();
    names.iter().for_each(|name| folder.move_aside(name).unwrap());
    assert!(since.elapsed() < TIMEOUT, "{:?}", since.elapsed());
    let messages = moved();
    assert!(messages.len() <= 65, "{}", messages.len());
    assert!(messages[0].ends_with("/aside/1-entry-0"), "{}", messages[0]);
    assert_eq!(messages.last().unwrap(), "19936 more in the way, moved aside as well");
    assert_eq!(moved(), [""; 0]);
    folder.tidy().unwrap();
    let left = |name: &str| fs::read_dir(path.join(name)).unwrap().count();
    assert_eq!((left("aside"), left("aside/discarded")), (MAX_KEPT + 1, 0));
}

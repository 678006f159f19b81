//! The last resort of a node that fails again and again by what it keeps of containers: to begin
//! without that.
//!
//! Both slots share DATA. What containerd cannot read there, or does not let go of, would otherwise
//! end the node in both, for ever.

use osbuild_abi::slot::UPDATE_TRIES;
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;

use crate::node::Node;
use crate::{data, tidy};

/// The name of the phase.
pub const NAME: &str = "last-resort";

/// What is kept of containers, by the names that the table of writable paths has: containerd's
/// folder, and that of CNI plugins. Those give an address back when containerd has them end a
/// sandbox that it knows.
const FOLDERS: [&str; 2] = ["containerd", "cni"];

/// How many boots have to fail, one more than an update has tries: a release whose containerd never
/// starts must not cost a node the images of its users.
const MOST: u8 = UPDATE_TRIES + 1;

/// The file on DATA that has the number of failures, in decimal digits.
const COUNT: &str = "containerd-failures";
/// Bytes of the longest count that is read.
const MAX_LENGTH: u64 = 16;

/// Counts a boot that has failed by containerd, or by what it keeps.
pub fn count(node: &mut Node) -> Outcome {
    let failures = count_on(&data::folder()?)?;
    let word = format_args!(
        "{failures} of {MOST} failures after which a boot begins without containers and images of before"
    );
    node.console.say(NAME, word);
    Ok(())
}

/// Begins without containers and images of before, if as many boots as that have failed.
pub fn take(node: &mut Node) -> Outcome {
    if take_on(&data::folder()?)? {
        let word = format_args!(
            "begins without containers and images of before, as {MOST} boots have failed; images are fetched again"
        );
        node.console.say(NAME, word);
    }
    // Also what an earlier boot has left.
    tidy::start(node)
}

/// Counts anew, as the node is ready.
pub fn reset(node: &Node) -> Outcome {
    node.writer.begin(|| reset_on(&data::folder()?))
}

/// The failures since the node was ready. What is no number is none.
fn failures(data: &Folder) -> u8 {
    data.read_text(COUNT, MAX_LENGTH)
        .ok()
        .flatten()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

fn count_on(data: &Folder) -> Outcome<u8> {
    let failures = failures(data).saturating_add(1);
    data.replace(COUNT, format!("{failures}\n").as_bytes(), 0o644)
        .explain(format_args!("write {COUNT} on DATA"))?;
    Ok(failures)
}

/// The folders are only moved here, which takes no time: [`crate::tidy`] removes them while the
/// boot goes on. A power cut before the end leaves the count, so that the next boot goes on.
fn take_on(data: &Folder) -> Outcome<bool> {
    if failures(data) < MOST {
        return Ok(false);
    }
    for folder in FOLDERS {
        data.discard(folder).explain(format_args!("remove {folder} from DATA"))?;
    }
    reset_on(data).map(|()| true)
}

fn reset_on(data: &Folder) -> Outcome {
    data.remove(COUNT).explain(format_args!("remove {COUNT} from DATA"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_abi::paths::CONTAINERD_BLOBS;
    use osbuild_abi::writable::{Backing, WRITABLE};
    use std::fs;
    use std::path::Path;

    /// DATA with a file in each folder, and whether these are there.
    struct Data(tempfile::TempDir, Folder);

    impl Data {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let folder = Folder::open(&place.path().canonicalize().unwrap(), "aside").unwrap();
            let data = Data(place, folder);
            for folder in FOLDERS.map(|name| data.path().join(name)) {
                fs::create_dir_all(folder.join("deeper")).unwrap();
                fs::write(folder.join("deeper/file"), "kept").unwrap();
            }
            data
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn is_whole(&self) -> bool {
            FOLDERS.iter().all(|name| self.path().join(name).join("deeper/file").exists())
        }
    }

    fn fail(data: &Data, times: u8) {
        for _ in 0..times {
            count_on(&data.1).unwrap();
        }
    }

    #[test]
    fn the_folders_are_those_of_the_table_of_writable_paths() {
        let path = |name| {
            WRITABLE
                .iter()
                .find(|row| matches!(row.backing, Backing::Data(from) if from == name))
                .unwrap()
                .path
        };
        assert!(Path::new(CONTAINERD_BLOBS).starts_with(path(FOLDERS[0])));
        assert_eq!(path(FOLDERS[1]), "/var/lib/cni");
        assert!(
            WRITABLE
                .iter()
                .all(|row| !matches!(row.backing, Backing::Data(COUNT) | Backing::DataFile(COUNT)))
        );
    }

    #[test]
    fn a_release_that_fails_as_often_as_it_has_tries_costs_nothing() {
        let data = Data::new();
        fail(&data, UPDATE_TRIES);
        assert!(!take_on(&data.1).unwrap() && data.is_whole());
    }

    #[test]
    fn one_failure_more_costs_all_once() {
        let data = Data::new();
        fail(&data, MOST);
        assert!(take_on(&data.1).unwrap());
        assert!(FOLDERS.iter().all(|name| !data.path().join(name).exists()));
        // A node that never had them has nothing to lose.
        fail(&data, MOST);
        assert!(take_on(&data.1).unwrap());
        assert!(!take_on(&data.1).unwrap());
    }

    #[test]
    fn a_node_that_was_ready_counts_anew() {
        let data = Data::new();
        reset_on(&data.1).unwrap();
        fail(&data, UPDATE_TRIES);
        reset_on(&data.1).unwrap();
        fail(&data, UPDATE_TRIES);
        assert!(!take_on(&data.1).unwrap() && data.is_whole());
    }

    #[test]
    fn what_is_given_up_is_out_of_the_way_at_once_and_removed_later() {
        let data = Data::new();
        fail(&data, MOST);
        let folder = data.path().join(FOLDERS[1]);
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "no folder").unwrap();
        assert!(take_on(&data.1).unwrap());
        assert!(FOLDERS.iter().all(|name| !data.path().join(name).exists()));
        assert!(data.1.is_untidy());
        data.1.tidy().unwrap();
        assert!(!data.1.is_untidy());
    }

    #[test]
    fn any_text_is_a_count() {
        let data = Data::new();
        for (text, expected) in
            [("3\n", 4), ("", 1), ("many", 1), ("-1", 1), ("255", 255), ("256", 1)]
        {
            fs::write(data.path().join(COUNT), text).unwrap();
            assert_eq!(count_on(&data.1).unwrap(), expected, "{text}");
        }
    }
}

//! Loads the pod images that came with the node into containerd. The work is done by a child, `init
//! images`.
//!
//! containerd keeps images on DATA, which whoever holds the disk can change. So nothing that it has
//! kept of the node's own images counts: it finds none of their blobs when it starts, and they are
//! loaded and unpacked anew from the root, which is signed, before the kubelet starts.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use osbuild_abi::paths::{CONTAINERD_BLOBS, IMAGES, INIT};
use osbuild_failure::{Explain, Outcome};

use crate::node::Node;
use crate::process::Life;

/// The name of the phase, the job and the subcommand.
pub const NAME: &str = "images";

/// Removes the blobs of the node's images from DATA. Once containerd runs it is too late: it reads
/// them when it starts, believes the names that they have, and keeps what it has read.
pub fn forget(_: &mut Node) -> Outcome {
    remove(&Path::new(IMAGES).join("blobs/sha256"), Path::new(CONTAINERD_BLOBS))
}

/// Removes from the folder `kept` whatever has the name of one of the blobs in `own`.
fn remove(own: &Path, kept: &Path) -> Outcome {
    for blob in fs::read_dir(own).explain(format_args!("list {}", own.display()))? {
        let path = kept.join(blob.explain(format_args!("list {}", own.display()))?.file_name());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).explain(format_args!("remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Starts the job. The kubelet waits for it: else it could run what somebody has put on DATA under
/// the name of one of our images.
pub fn start(node: &mut Node) -> Outcome {
    node.run(NAME, Life::Job, |_| [INIT, NAME].map(str::to_owned).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blobs_of_our_images_go_and_those_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let [own, kept] = ["own", "kept"].map(|name| folder.path().join(name));
        // A disk on which containerd has never run has nothing to be removed.
        fs::create_dir(&own).unwrap();
        fs::write(own.join("aa"), "signed").unwrap();
        remove(&own, &kept).unwrap();
        fs::create_dir(&kept).unwrap();
        ["aa", "bb"].iter().for_each(|name| fs::write(kept.join(name), "planted").unwrap());
        remove(&own, &kept).unwrap();
        assert_eq!((kept.join("aa").exists(), kept.join("bb").exists()), (false, true));
    }

    #[test]
    fn what_cannot_be_removed_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let [own, kept] = ["own", "kept"].map(|name| folder.path().join(name));
        fs::create_dir(&own).unwrap();
        fs::write(own.join("aa"), "signed").unwrap();
        fs::create_dir_all(kept.join("aa/in-the-way")).unwrap();
        assert!(remove(&own, &kept).is_err());
    }
}

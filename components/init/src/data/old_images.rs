//! Removes from DATA what containerd has of the images that come with the node.
//!
//! containerd keeps images on DATA, which anyone with access to the disk can change. So its copies
//! of the node's own images are removed before it starts, and the child `init images` loads them
//! again from the signed root before the kubelet starts.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use osbuild_abi::paths::{CONTAINERD_BLOBS, IMAGES};
use osbuild_failure::{Explain, Outcome};

/// Removes the blobs. This has to be done before containerd starts: it reads them then, trusts
/// their names, and keeps what it has read.
pub fn remove() -> Outcome {
    remove_from(&Path::new(IMAGES).join("blobs/sha256"), Path::new(CONTAINERD_BLOBS))
}

/// Removes from the folder `kept` every entry that has the name of one of the blobs in `own`.
fn remove_from(own: &Path, kept: &Path) -> Outcome {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_own_blobs_are_removed_and_all_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let [own, kept] = ["own", "kept"].map(|name| folder.path().join(name));
        // A disk on which containerd has never run has nothing to remove.
        fs::create_dir(&own).unwrap();
        fs::write(own.join("aa"), "signed").unwrap();
        remove_from(&own, &kept).unwrap();
        fs::create_dir(&kept).unwrap();
        ["aa", "bb"].iter().for_each(|name| fs::write(kept.join(name), "planted").unwrap());
        remove_from(&own, &kept).unwrap();
        assert_eq!((kept.join("aa").exists(), kept.join("bb").exists()), (false, true));
    }

    #[test]
    fn a_blob_that_cannot_be_removed_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let [own, kept] = ["own", "kept"].map(|name| folder.path().join(name));
        fs::create_dir(&own).unwrap();
        fs::write(own.join("aa"), "signed").unwrap();
        fs::create_dir_all(kept.join("aa/in-the-way")).unwrap();
        assert!(remove_from(&own, &kept).is_err());
    }
}

//! Gives the kernel the AppArmor profile of pods, which the image has compiled: the node has no
//! compiler, and containerd finds the profile loaded.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use osbuild_abi::paths::APPARMOR_PROFILE;
use osbuild_failure::{Explain, Failure, Outcome};

/// The kernel's file for profiles that are new or replace others.
const REPLACE: &str = "/sys/kernel/security/apparmor/.replace";

/// Loads the profile. An image without one has a kernel without AppArmor, and the command line can
/// turn AppArmor off.
///
/// # Errors
/// The kernel refuses the profile: containerd then makes no container with it.
pub fn load() -> Outcome {
    load_into(Path::new(REPLACE), Path::new(APPARMOR_PROFILE))
}

fn load_into(replace: &Path, profile: &Path) -> Outcome {
    let profile = match fs::read(profile) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.explain(format_args!("read {}", profile.display()))?,
    };
    let mut replace = match OpenOptions::new().write(true).open(replace) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.explain(format_args!("open {}", replace.display()))?,
    };
    // The kernel takes a profile in one write.
    let written = replace.write(&profile).explain("load the AppArmor profile of pods")?;
    match written == profile.len() {
        true => Ok(()),
        false => {
            Err(Failure::new("load the AppArmor profile of pods: the kernel took a part of it"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_the_profile_of_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let [replace, profile] = ["replace", "profile"].map(|name| folder.path().join(name));
        fs::write(&replace, "").unwrap();
        fs::write(&profile, b"compiled").unwrap();
        load_into(&replace, &profile).unwrap();
        assert_eq!(fs::read(&replace).unwrap(), b"compiled");
    }

    #[test]
    fn a_node_without_a_profile_or_without_apparmor_boots_without_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let [replace, profile] = ["replace", "profile"].map(|name| folder.path().join(name));
        load_into(&replace, &profile).unwrap();
        fs::write(&profile, b"compiled").unwrap();
        load_into(&replace, &profile).unwrap();
        assert!(!replace.exists());
    }

    #[test]
    fn a_profile_that_is_refused_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("profile");
        fs::write(&profile, b"compiled").unwrap();
        let failure = load_into(Path::new("/dev/full"), &profile).unwrap_err().to_string();
        assert!(failure.contains("load the AppArmor profile of pods"), "{failure}");
    }
}

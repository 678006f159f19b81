//! Reads and changes kernel parameters behind `init`'s back.

use std::fs;
use std::io;
use std::path::Path;

/// Takes `KEY` or `KEY VALUE`. Sets the parameter below the root `host` if there is a value, and
/// returns the one that it has.
pub fn request(host: &Path, request: &str) -> io::Result<String> {
    let (key, value) = request.trim().split_once(' ').unwrap_or((request.trim(), ""));
    let file = host.join("proc/sys").join(key.replace('.', "/"));
    if !value.is_empty() {
        fs::write(&file, value)?;
    }
    fs::read_to_string(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_read_and_set() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir_all(host.path().join("proc/sys/vm")).unwrap();
        fs::write(host.path().join("proc/sys/vm/swappiness"), "60\n").unwrap();
        assert_eq!(request(host.path(), "vm.swappiness\n").unwrap(), "60\n");
        assert_eq!(request(host.path(), "vm.swappiness 10").unwrap(), "10");
    }
}

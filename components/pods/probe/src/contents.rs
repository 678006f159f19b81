//! Reads and overwrites files of the host behind `init`'s back.

use std::fs;
use std::io;
use std::path::Path;

/// Takes `PATH` or `PATH TEXT`. Overwrites the file below the root `host` if there is a text, and
/// returns its contents.
pub fn request(host: &Path, request: &str) -> io::Result<String> {
    let (path, text) = request.trim().split_once(' ').unwrap_or((request.trim(), ""));
    let file = host.join(path.trim_start_matches('/'));
    if !text.is_empty() {
        fs::write(&file, text)?;
    }
    fs::read_to_string(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_overwritten() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir_all(host.path().join("proc/sys/vm")).unwrap();
        fs::write(host.path().join("proc/sys/vm/swappiness"), "60\n").unwrap();
        assert_eq!(request(host.path(), "/proc/sys/vm/swappiness\n").unwrap(), "60\n");
        assert_eq!(request(host.path(), "/proc/sys/vm/swappiness 1 0").unwrap(), "1 0");
    }
}

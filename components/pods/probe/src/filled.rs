//! A file on DATA that is not flushed: a test ends the node and checks how much of it remains.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The file's path below the root.
const PATH: &str = "data/filled";

/// Bytes of a line, which holds its number.
const LINE: u64 = 16;

/// Writes `mib` MiB below the root `host`.
pub fn write(host: &Path, mib: u64) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(host.join(PATH))?);
    for number in 0..(mib << 20) / LINE {
        writeln!(file, "{number:015}")?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_number() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("data")).unwrap();
        write(root.path(), 1).unwrap();
        let text = std::fs::read_to_string(root.path().join(PATH)).unwrap();
        assert_eq!((text.len(), text.lines().nth(7)), (1 << 20, Some("000000000000007")));
    }
}

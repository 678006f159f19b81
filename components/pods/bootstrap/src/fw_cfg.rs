//! QEMU's `fw_cfg`: files that the one who starts a virtual machine gives to it
//! (`-fw_cfg name=opt/io.osbuild/node.toml,file=FILE`). The kernel shows them in a folder.

use crate::Given;
use crate::instance::Instance;
use crate::user_data::MAX_DECODED;
use osbuild_failure::{Explain, Failure, Outcome};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// The document and the instance's identifier, below the kernel's folder.
const DOCUMENT: &str = "by_name/opt/io.osbuild/node.toml/raw";
const INSTANCE: &str = "by_name/opt/io.osbuild/instance-id/raw";
/// The instance of a machine that was given no identifier.
const UNNAMED: &str = "fw-cfg";

/// The document in the kernel's folder (`/sys/firmware/qemu_fw_cfg`), if the machine was given one.
///
/// # Errors
/// A file cannot be read, or is too large.
pub fn ask(folder: &Path) -> Outcome<Option<Given>> {
    let Some(bytes) = read(&folder.join(DOCUMENT))? else { return Ok(None) };
    let instance = match read(&folder.join(INSTANCE))? {
        Some(bytes) => Instance::parse(&String::from_utf8_lossy(&bytes))?,
        None => Instance::parse(UNNAMED)?,
    };
    Ok(Some(Given { instance, bytes }))
}

fn read(path: &Path) -> Outcome<Option<Vec<u8>>> {
    let what = || format!("read {}", path.display());
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.explain(what())?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_DECODED as u64 + 1).read_to_end(&mut bytes).explain(what())?;
    match bytes.len() > MAX_DECODED {
        true => Err(Failure::new(format!("{} has more than {MAX_DECODED} bytes", path.display()))),
        false => Ok(Some(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn give(folder: &Path, path: &str, bytes: &[u8]) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_machine_without_a_document_has_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(ask(folder.path()), Ok(None));
        give(folder.path(), INSTANCE, b"vm-1");
        assert_eq!(ask(folder.path()), Ok(None));
    }

    #[test]
    fn a_document_comes_with_the_identifier_that_the_machine_was_given() {
        let folder = tempfile::tempdir().unwrap();
        give(folder.path(), DOCUMENT, b"hostname = \"a\"\n");
        let given = ask(folder.path()).unwrap().unwrap();
        assert_eq!(
            (given.instance.as_str(), &given.bytes[..]),
            (UNNAMED, &b"hostname = \"a\"\n"[..])
        );
        give(folder.path(), INSTANCE, b"vm-1\n");
        assert_eq!(ask(folder.path()).unwrap().unwrap().instance.as_str(), "vm-1");
        give(folder.path(), INSTANCE, b"vm 1");
        assert!(ask(folder.path()).is_err());
    }

    #[test]
    fn a_large_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        give(folder.path(), DOCUMENT, &vec![b'#'; MAX_DECODED + 1]);
        assert!(ask(folder.path()).unwrap_err().to_string().contains("more than 65536 bytes"));
    }
}

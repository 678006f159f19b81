//! Several files as the bytes of one output: a tar file without owners and times.

use crate::error::{Context, Result};
use std::collections::BTreeMap;
use std::io::{self, Read};

/// Files by path.
type Files = BTreeMap<String, Vec<u8>>;

/// The tar file with these files. The same files give the same bytes.
///
/// # Errors
/// A path is too long or leads out of the tar file.
pub fn pack(files: &Files) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut add = |(path, bytes): (&String, &Vec<u8>)| {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, &bytes[..])
    };
    let packed = files.iter().try_for_each(&mut add);
    packed.and_then(|()| tar.into_inner()).or_build(|| "cannot pack files".into())
}

/// The files of a tar file that [`pack`] made.
///
/// # Errors
/// The bytes are not such a tar file.
pub fn unpack(bytes: &[u8]) -> Result<Files> {
    files(bytes).or_build(|| "a step has an output that is not a tar file".into())
}

fn files(bytes: &[u8]) -> io::Result<Files> {
    let mut files = Files::new();
    for entry in tar::Archive::new(bytes).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_str().map(str::to_owned);
        let name = name.ok_or_else(|| io::Error::other("a name in it is not UTF-8"))?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        files.insert(name, content);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_files_are_read_back(
            files in btree_map("[a-z]{1,9}(/[a-z]{1,150}){0,2}", any::<Vec<u8>>(), 0..5)
        ) {
            prop_assert_eq!(unpack(&pack(&files).unwrap()).unwrap(), files);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            garbage: Vec<u8>, at in 0usize..1536, byte: u8,
        ) {
            let _ = unpack(&garbage);
            let mut bytes = pack(&Files::from([("a".to_owned(), b"b".to_vec())])).unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = unpack(&bytes);
        }
    }
}

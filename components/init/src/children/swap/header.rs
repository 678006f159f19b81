//! The header of a swap area (`union swap_header` of the kernel's `linux/swap.h`). It fills the
//! first page.

/// The bytes at the start of the page, which are for the program that boots a machine.
const BOOT_BYTES: usize = 1024;
/// The last bytes of the page.
const MAGIC: &[u8; 10] = b"SWAPSPACE2";
const VERSION: u32 = 1;
/// The header can list pages that must not be used. Memory has none.
const BAD_PAGES: u32 = 0;

/// The first page of an area of this size, in bytes, without a label. Its numbers are in the byte
/// order of the machine.
pub fn bytes(size: u64, page_size: usize, identifier: [u8; 16]) -> Vec<u8> {
    let pages = u32::try_from(size / page_size as u64).unwrap_or(u32::MAX);
    let last_page = pages.saturating_sub(1);
    let mut page = vec![0; BOOT_BYTES];
    for number in [VERSION, last_page, BAD_PAGES] {
        page.extend(number.to_ne_bytes());
    }
    page.extend(identifier);
    page.resize(page_size - MAGIC.len(), 0);
    page.extend(MAGIC);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::path::Path;
    use std::process::Command;

    const SIZE: u64 = 8 << 20;
    const UUID: &str = "0bc6e4d2-7a3f-4d1e-9b58-3f2a1c0d9e8f";

    fn identifier() -> [u8; 16] {
        UUID.parse::<uuid::Uuid>().unwrap().into_bytes()
    }

    fn file(folder: &Path, name: &str) -> String {
        let path = folder.join(name);
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn output(program: &str, words: &[&str]) -> String {
        let output = Command::new(program).args(words).output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn mkswap_writes_the_same_header() {
        let folder = tempfile::tempdir().unwrap();
        for page_size in [4096usize, 16384, 65536] {
            let theirs = file(folder.path(), "theirs");
            let page = page_size.to_string();
            output("/sbin/mkswap", &["-q", "--pagesize", &page, "-U", UUID, &theirs]);
            let mut expected = vec![0; page_size];
            File::open(&theirs).unwrap().read_exact(&mut expected).unwrap();
            let found = bytes(SIZE, page_size, identifier());
            assert!(found == expected, "pages of {page_size} bytes");
        }
    }

    #[test]
    fn swaplabel_and_blkid_read_the_header() {
        let folder = tempfile::tempdir().unwrap();
        let ours = file(folder.path(), "ours");
        let page = bytes(SIZE, 4096, identifier());
        let mut area = std::fs::read(&ours).unwrap();
        area[..page.len()].copy_from_slice(&page);
        std::fs::write(&ours, area).unwrap();
        let label = output("/sbin/swaplabel", &[&ours]);
        assert!(label.contains(UUID), "{label}");
        let found = output("/sbin/blkid", &["--probe", "--output", "export", &ours]);
        assert!(found.contains("TYPE=swap\n") && found.contains(UUID), "{found}");
    }
}

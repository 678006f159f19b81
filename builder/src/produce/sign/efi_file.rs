//! A program for UEFI firmware in a file: a UKI may be larger than memory.

use super::Signable;
use crate::engine::digest::{CHUNK, Digest};
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Result};
use osbuild_formats::pe::{self, Attachment, Checksum, Headers};
use osbuild_signatures::authenticode;
use osbuild_signatures::certificate::Certificate;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The bytes that are read for the headers. Linkers put these into the first 4 KiB.
const BEGINNING: u64 = 64 << 10;

/// A file with a PE image for UEFI firmware. The image contains its signature.
#[derive(Debug)]
pub struct EfiFile {
    file: File,
    path: PathBuf,
    /// The digest that a signature covers. Signing does not change it.
    digest: OnceLock<authenticode::Digest>,
}

impl EfiFile {
    /// The image in a readable and writable file. `path` is for errors.
    pub fn new(file: File, path: &Path) -> Self {
        EfiFile { file, path: path.to_owned(), digest: OnceLock::new() }
    }

    /// The length of the image in bytes.
    pub fn length(&self) -> Result<u64> {
        Ok(self.file.metadata().at("read", &self.path)?.len())
    }

    /// The digest of all bytes, including the signature.
    pub fn digest(&self) -> Result<Digest> {
        Digest::of_reader(self.start()?).at("read", &self.path)
    }

    /// The file, to be read from its first byte.
    pub fn start(&self) -> Result<&File> {
        (&self.file).seek(SeekFrom::Start(0)).at("read", &self.path)?;
        Ok(&self.file)
    }

    fn headers(&self) -> Result<Headers> {
        let mut beginning = Vec::new();
        self.start()?.take(BEGINNING).read_to_end(&mut beginning).at("read", &self.path)?;
        Headers::parse(&beginning, self.length()?).or_build(cannot)
    }

    fn covered(&self) -> Result<authenticode::Digest> {
        if let Some(digest) = self.digest.get() {
            return Ok(*digest);
        }
        let digest = authenticode::digest_of(&self.headers()?, self.length()?, self.start()?)
            .or_build(cannot)?;
        Ok(*self.digest.get_or_init(|| digest))
    }

    fn attach(&self, attachment: &Attachment) -> Result<()> {
        let Attachment { at, bytes, directory: (place, directory), checksum } = attachment;
        let write =
            |bytes: &[u8], at: u64| self.file.write_all_at(bytes, at).at("write", &self.path);
        self.file.set_len(*at).at("write", &self.path)?;
        write(bytes, *at)?;
        write(directory, *place)?;
        write(&[0; 4], *checksum)?;
        let (mut sum, mut file, mut chunk) = (Checksum::default(), self.start()?, vec![0; CHUNK]);
        loop {
            match file.read(&mut chunk).at("read", &self.path)? {
                0 => return write(&sum.finish().to_le_bytes(), *checksum),
                read => sum.push(&chunk[..read]),
            }
        }
    }
}

impl Signable for EfiFile {
    fn to_be_signed(&self) -> Result<Digest> {
        Ok(Digest::of(&authenticode::to_be_signed(&self.covered()?)))
    }

    fn with(self, certificate: &Certificate, signature: &[u8]) -> Result<Self> {
        let signed =
            authenticode::signed_data(&self.covered()?, certificate, signature).or_build(cannot)?;
        self.attach(&pe::attachment(&self.headers()?, self.length()?, &signed).or_build(cannot)?)?;
        Ok(self)
    }
}

fn cannot() -> String {
    "cannot sign the program for UEFI".to_owned()
}

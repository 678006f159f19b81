//! A file of the output folder that is written beside its final name and renamed once it is whole.

use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::Result;
use crate::report::{Outcome, Report};
use std::fs::{self, File};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The size of the write buffer in bytes.
const BUFFER: usize = 256 << 10;

/// An unfinished file. Dropping it removes the file.
pub struct Draft {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
}

impl Draft {
    /// Creates the file that will be called `path`, also in errors.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn create(path: PathBuf) -> Result<Self> {
        let unfinished = path.with_extension("unfinished");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&unfinished)
            .at("write", &path)?;
        Ok(Draft { path, unfinished, file })
    }

    /// Writes the content as the step `name`.
    ///
    /// # Errors
    /// The error of `write`, or the disk is full.
    pub fn write(
        &mut self,
        report: &Report,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>, &Path) -> Result<()>,
    ) -> Result<()> {
        let step = report.step(name);
        let mut out = BufWriter::with_capacity(BUFFER, self.reopen()?);
        write(&mut out, &self.path)?;
        out.flush().at("write", &self.path)?;
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        step.done(&file, Some(self.length()?), Outcome::Ran);
        Ok(())
    }

    /// The file, to be read from its first byte.
    pub fn start(&mut self) -> Result<&File> {
        self.file.seek(SeekFrom::Start(0)).at("read", &self.path)?;
        Ok(&self.file)
    }

    /// The length of the content in bytes.
    pub fn length(&self) -> Result<u64> {
        Ok(self.file.metadata().at("read", &self.path)?.len())
    }

    /// The digest of the content.
    pub fn digest(&self) -> Result<Digest> {
        Digest::of_whole(&self.file).at("read", &self.path)
    }

    /// Another handle on the file, with the same position.
    pub fn reopen(&self) -> Result<File> {
        self.file.try_clone().at("open", &self.path)
    }

    /// The final path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file to its final path, and returns that.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn keep(self) -> Result<PathBuf> {
        fs::rename(&self.unfinished, &self.path).at("write", &self.path)?;
        Ok(self.path.clone())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After `keep` there is nothing to remove. If the removal fails, the next build overwrites
        // the file.
        let _ = fs::remove_file(&self.unfinished);
    }
}

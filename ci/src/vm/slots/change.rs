//! Changes of the image's UKI, which make a slot good or bad.

use crate::image::{RECIPE, image};
use crate::site::Site;
use crate::vm::echo_uki::STUB;
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Result};
use osbuild::produce::out::UKI;
use osbuild::produce::sign::{EfiProgram, Signed};
use osbuild::ship::keys::{Keys, Role};
use osbuild_abi::paths::LAYERS;
use osbuild_formats::cpio::{self, Entry};
use osbuild_formats::uki::{self, Parts};
use osbuild_slots::Header;
use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// A file that hides the image's own in the root.
pub enum Over<'a> {
    /// A file with this text.
    Text(&'a str),
    /// A link to this path.
    Link(&'a str),
}

/// The differences.
pub struct Change<'a> {
    /// The recipe of the UKI.
    pub recipe: &'a str,
    /// Words to append to the command line.
    pub words: &'a str,
    /// The version in the slot's header.
    pub version: &'a str,
    /// The security epoch.
    pub epoch: u32,
    /// Files of a layer on top of the root, by their paths.
    pub over: &'a [(&'a str, Over<'a>)],
}

impl Default for Change<'_> {
    /// The UKI of the image, with another version.
    fn default() -> Self {
        Change { recipe: RECIPE, words: "", version: "0.0.1", epoch: 1, over: &[] }
    }
}

impl Change<'_> {
    /// Makes the slot's header and the UKI, signed with the image's key.
    pub fn make(&self, site: &Site, keys: &Keys) -> Result<(Vec<u8>, Vec<u8>)> {
        let cannot = || "cannot make a UKI".to_owned();
        let stub = fs::read(STUB).or_build(cannot)?;
        if self.recipe != RECIPE {
            image(site, self.recipe)?;
        }
        let built =
            fs::read(site.project().join("out").join(self.recipe).join(UKI)).or_build(cannot)?;
        let parts = uki::read(&built).or_build(cannot)?;
        let line = format!("{} {}", parts.command_line, self.words);
        let initramfs = self.initramfs(site, parts.initramfs)?;
        let parts = Parts {
            command_line: line.trim_end(),
            security_epoch: self.epoch,
            initramfs: &initramfs,
            kernel: parts.kernel,
            ..parts
        };
        let uki = uki::build(&stub, &parts).or_build(cannot)?;
        let uki = Signed::by(&keys.signer(Role::Db)?, EfiProgram(uki))?.into_inner().0;
        let header = Header {
            length: uki.len() as u64,
            sha256: *Digest::of(&uki).hash(),
            version: self.version.to_owned(),
        };
        Ok((header.encode().or_build(cannot)?, uki))
    }

    /// The initramfs, followed by an archive with one more layer.
    fn initramfs<'i>(&self, site: &Site, initramfs: &'i [u8]) -> Result<Cow<'i, [u8]>> {
        if self.over.is_empty() {
            return Ok(Cow::Borrowed(initramfs));
        }
        let cannot = || "cannot make a layer".to_owned();
        let folder = tempfile::tempdir().or_build(cannot)?;
        let (root, layer) = (folder.path().join("root"), folder.path().join("layer"));
        for (path, over) in self.over {
            put(&root.join(path.trim_start_matches('/')), over).or_build(cannot)?;
        }
        site.finish(
            "slots-layer",
            Command::new("mkfs.erofs").arg("--quiet").arg("--all-root").args([&layer, &root]),
        )?;
        let folder = Entry::directory(LAYERS, 0o755);
        let layer = Entry::file(
            &format!("{LAYERS}/99-over.erofs"),
            0o444,
            fs::read(&layer).or_build(cannot)?,
        );
        let mut whole = initramfs.to_vec();
        whole.resize(whole.len().next_multiple_of(4), 0);
        Ok(Cow::Owned(cpio::write(&[folder, layer], whole).or_build(cannot)?))
    }
}

fn put(path: &Path, over: &Over) -> std::io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    match over {
        Over::Text(text) => fs::write(path, text),
        Over::Link(to) => symlink(to, path),
    }
}

//! `osbuild diff`: compares two images, UKIs, initramfs or releases by their bytes alone, as
//! `osbuild inspect` reads them.
//!
//! Files of different kinds are compared in what both kinds have, at least in the whole initramfs:
//! an image's partitions do not count against a UKI. The contents of DATA are ignored. If two files
//! of one kind do not differ in any of this, their remaining bytes are compared.

mod change;
mod release;
mod text;

pub use change::{Change, Words};
pub use release::{is_repository, last_release};

use super::inspect::{
    self, DiskLayout, File, Initramfs, Inspection, Partition, Signature, Slot, Uki,
};
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use crate::plan::Architecture;
use crate::produce::image::removable_path;
use change::changes;
use osbuild_abi::disk::DATA;
use release::Release;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The differences between two files, by category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Difference {
    /// The first file.
    pub a: Side,
    /// The second file.
    pub b: Side,
    /// Recipe, architecture, lock, epoch and signers.
    pub facts: Vec<Change<String>>,
    /// Versions of the kernel, of the binaries, and of prebuilt components.
    pub versions: Vec<Change<String>>,
    /// The enabled kernel options.
    pub kernel_options: Vec<Change<String>>,
    /// The words of the kernel's command line.
    pub command_line: Words,
    /// The static pods and the images that they run.
    pub pods: Vec<Change<Vec<String>>>,
    /// The entries of the SBOM with their versions, for two releases.
    pub packages: Vec<Change<String>>,
    /// The files of the root.
    pub files: Vec<Change<File>>,
    /// The parts of the files: slotboot, the sections of the UKI or the initramfs, the layers of
    /// the root.
    pub parts: Vec<Change<Part>>,
    /// The partitions.
    pub partitions: Vec<Change<Partition>>,
    /// The slots.
    pub slots: Vec<Change<Slot>>,
}

/// One of the two files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Side {
    /// The file.
    pub file: PathBuf,
    /// Its kind.
    pub kind: Kind,
    /// Its size in bytes; for a release, the size of its UKI.
    pub size: u64,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A whole disk.
    Image,
    /// A unified kernel image.
    Uki,
    /// The cpio archive that the kernel unpacks.
    Initramfs,
    /// A release in a TUF repository.
    Release,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Part {
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256 in hexadecimal.
    pub sha256: String,
}

/// The name of a difference outside all named parts.
const WHOLE: &str = "all bytes but those of DATA";

impl Part {
    fn of(path: &Path) -> Result<Self> {
        let size = path.metadata().at("read", path)?.len();
        Ok(Part { size, sha256: Digest::of_file(path)?.hex() })
    }
}

/// Compares two files.
///
/// # Errors
/// One of the files cannot be read. The exit code is never 1, which means that they differ.
pub fn diff(a: &Path, b: &Path) -> Result<Difference> {
    let (a, b) = (Input::read(a)?, Input::read(b)?);
    let without_data = |input: &Input| input.without_data().map_err(Error::of_usage);
    let whole = if a.side.kind == b.side.kind {
        Some((without_data(&a)?, without_data(&b)?))
    } else {
        None
    };
    let mut difference = Difference::between(a, b);
    if let Some((a, b)) = whole.filter(|(a, b)| difference.is_empty() && a != b) {
        difference.parts.push(Change { name: WHOLE.to_owned(), a: Some(a), b: Some(b) });
    }
    Ok(difference)
}

/// Inspects any file or release that [`diff`] accepts.
///
/// # Errors
/// As [`diff`].
pub fn inspect(path: &Path) -> Result<Inspection> {
    Ok(Input::read(path)?.found)
}

/// The contents of a file.
struct Input {
    side: Side,
    /// The file itself, or the UKI of a release.
    file: PathBuf,
    found: Inspection,
    /// slotboot, for an image or a release: its path on the EFI system partition, and the program.
    boot: Option<(String, Part)>,
    /// The packages of a release's SBOM.
    packages: Option<Named<String>>,
}

impl Input {
    fn read(path: &Path) -> Result<Self> {
        Input::open(path).map_err(|error| inspect::of_file(error, path))
    }

    fn open(path: &Path) -> Result<Self> {
        let release = Release::find(path)?;
        let file = release.as_ref().map_or(path, |release| &release.uki).to_owned();
        let found = inspect::inspect(&file)?;
        let kind = match found.kind {
            _ if release.is_some() => Kind::Release,
            inspect::Kind::Image => Kind::Image,
            inspect::Kind::Uki => Kind::Uki,
            inspect::Kind::Initramfs => Kind::Initramfs,
        };
        let boot = match (&release, &found.disk) {
            (Some(release), _) => {
                let part = Part::of(&release.boot)?;
                Architecture::named(&found.root.architecture)
                    .map(|its| (format!("/{}", removable_path(its)), part))
            }
            (None, Some(DiskLayout { boot, .. })) => {
                Some((boot.path.clone(), Part { size: boot.size, sha256: boot.sha256.clone() }))
            }
            (None, None) => None,
        };
        let packages = release.map(|release| release.packages()).transpose()?;
        Ok(Input {
            side: Side { file: path.to_owned(), kind, size: found.size },
            file,
            found,
            boot,
            packages,
        })
    }

    /// The bytes of the file without DATA.
    fn without_data(&self) -> Result<Part> {
        let partitions = self.found.disk.iter().flat_map(|disk| &disk.partitions);
        let data = partitions
            .filter(|partition| partition.name == DATA)
            .map(|data| data.start..data.start + data.size)
            .next();
        let data = data.unwrap_or(self.side.size..self.side.size);
        let open = || fs::File::open(&self.file).at("read", &self.file);
        let mut behind = open()?;
        behind.seek(SeekFrom::Start(data.end)).at("read", &self.file)?;
        let digest =
            Digest::of_reader(open()?.take(data.start).chain(behind)).at("read", &self.file)?;
        Ok(Part { size: self.side.size - (data.end - data.start), sha256: digest.hex() })
    }
}

impl Difference {
    fn between(a: Input, b: Input) -> Self {
        let packages =
            a.packages.zip(b.packages).map(|(one, other)| changes(one, other)).unwrap_or_default();
        let (one_boot, other_boot) = a.boot.zip(b.boot).unzip();
        let (left, right) = (a.found, b.found);
        let ukis = left.uki.as_ref().zip(right.uki.as_ref());
        let disks = left.disk.as_ref().zip(right.disk.as_ref());
        let line = |uki: &Uki| uki.command_line.clone();
        let of_ukis = ukis.map(|(one, other)| (options(one), options(other)));
        Difference {
            facts: changes(facts(&left, ukis.is_some()), facts(&right, ukis.is_some())),
            versions: changes(versions(&left), versions(&right)),
            kernel_options: of_ukis.map(|(one, other)| changes(one, other)).unwrap_or_default(),
            command_line: ukis.map_or(Words::compare("", ""), |(one, other)| {
                Words::compare(&line(one), &line(other))
            }),
            pods: changes(pods(&left), pods(&right)),
            parts: changes(
                parts(&left, ukis.is_some(), one_boot),
                parts(&right, ukis.is_some(), other_boot),
            ),
            partitions: disks
                .map(|(one, other)| changes(partitions(one), partitions(other)))
                .unwrap_or_default(),
            slots: disks.map(|(one, other)| changes(slots(one), slots(other))).unwrap_or_default(),
            packages,
            files: changes(files(left), files(right)),
            a: a.side,
            b: b.side,
        }
    }

    /// Whether the files differ only in their names.
    pub fn is_empty(&self) -> bool {
        let Difference { facts, versions, kernel_options, command_line, packages, pods, .. } = self;
        let Difference { files, parts, partitions, slots, .. } = self;
        [facts, versions, kernel_options, packages].into_iter().all(Vec::is_empty)
            && command_line.is_empty()
            && pods.is_empty()
            && files.is_empty()
            && parts.is_empty()
            && partitions.is_empty()
            && slots.is_empty()
    }
}

type Named<T> = BTreeMap<String, T>;

fn facts(found: &Inspection, with_uki: bool) -> Named<String> {
    let root = &found.root;
    let mut facts: Named<String> = [
        ("recipe", root.recipe.clone()),
        ("architecture", root.architecture.clone()),
        ("lock", format!("sha256:{}", root.lock)),
        ("epoch", root.epoch.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if let Some(uki) = found.uki.as_ref().filter(|_| with_uki) {
        facts.insert("UKI signed by".into(), signers(&uki.signatures));
    }
    facts
}

fn signers(signatures: &[Signature]) -> String {
    let signer = |signature: &Signature| match &signature.certificate {
        Some(sha256) => format!("{}, certificate sha256:{sha256}", signature.signer),
        None => signature.signer.clone(),
    };
    let signers: Vec<_> = signatures.iter().map(signer).collect();
    if signers.is_empty() { "nobody".into() } else { signers.join("; ") }
}

fn versions(found: &Inspection) -> Named<String> {
    let root = &found.root;
    let mut versions = root.prebuilt.clone();
    versions
        .extend(root.binaries.iter().map(|binary| (binary.name.clone(), binary.version.clone())));
    versions.insert("linux".into(), root.kernel.clone());
    versions
}

fn options(uki: &Uki) -> Named<String> {
    uki.kernel_options.clone().unwrap_or_default()
}

fn pods(found: &Inspection) -> Named<Vec<String>> {
    found.root.pods.iter().map(|pod| (pod.name.clone(), pod.images.clone())).collect()
}

fn files(found: Inspection) -> Named<File> {
    found.root.files.into_iter().map(|file| (file.path.clone(), file)).collect()
}

fn parts(found: &Inspection, with_uki: bool, boot: Option<(String, Part)>) -> Named<Part> {
    let layers = found.initramfs.layers.iter();
    let mut parts: Named<Part> = layers
        .map(|layer| {
            (
                format!("layer {}", layer.component()),
                Part { size: layer.size, sha256: layer.sha256.clone() },
            )
        })
        .collect();
    for section in found.uki.iter().filter(|_| with_uki).flat_map(|uki| &uki.sections) {
        parts.insert(
            format!("section {}", section.name),
            Part { size: section.size, sha256: section.sha256.clone() },
        );
    }
    // A UKI has it as a section.
    if !with_uki {
        let Initramfs { size, sha256, .. } = &found.initramfs;
        parts.insert("initramfs".into(), Part { size: *size, sha256: sha256.clone() });
    }
    parts.extend(boot);
    parts
}

fn partitions(disk: &DiskLayout) -> Named<Partition> {
    disk.partitions.iter().map(|partition| (partition.name.clone(), partition.clone())).collect()
}

fn slots(disk: &DiskLayout) -> Named<Slot> {
    disk.slots.iter().map(|slot| (slot.name.clone(), slot.clone())).collect()
}

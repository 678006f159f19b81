//! An inspection as text for people.

use super::{DiskLayout, Inspection, Kind, Signature, Uki};
use crate::printable::line;
use crate::report::bytes;
use std::cmp::Reverse;
use std::fmt::{self, Arguments, Display, Formatter};

/// How many of the largest files are shown.
const SHOWN_FILES: usize = 10;

impl Display for Inspection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Image => "image",
            Kind::Uki => "UKI",
            Kind::Initramfs => "initramfs",
        };
        let root = &self.root;
        line(
            f,
            format_args!(
                "{kind} of {} for {}, {}",
                root.recipe,
                root.architecture,
                bytes(self.size)
            ),
        )?;
        line(f, format_args!("lock sha256:{}, epoch {}", root.lock, root.epoch))?;
        self.disk.iter().try_for_each(|disk| show_disk(f, disk))?;
        self.uki.iter().try_for_each(|uki| show_uki(f, uki))?;
        title(f, format_args!("initramfs, {}", bytes(self.initramfs.size)))?;
        for layer in &self.initramfs.layers {
            line(f, format_args!("{}  {} files", row(&layer.name, layer.size), layer.files))?;
        }
        title(f, format_args!("binaries in /bin: {}", root.binaries.len()))?;
        for binary in &root.binaries {
            line(
                f,
                format_args!(
                    "  {:24} {:12} {:>9}  {}  {}",
                    binary.name,
                    binary.version,
                    bytes(binary.size),
                    binary.mode,
                    binary.component
                ),
            )?;
        }
        title(f, format_args!("kernel {}", root.kernel))?;
        title(f, format_args!("prebuilt"))?;
        for (name, version) in &root.prebuilt {
            line(f, format_args!("  {name:24} {version}"))?;
        }
        title(f, format_args!("static pods"))?;
        for pod in &root.pods {
            line(f, format_args!("  {:24} {}", pod.name, pod.images.join(" ")))?;
        }
        if !root.writable.is_empty() {
            title(f, format_args!("writable paths of the recipe"))?;
            root.writable.iter().try_for_each(|path| line(f, format_args!("  {path}")))?;
        }
        title(f, format_args!("biggest files"))?;
        let mut files: Vec<_> = root.files.iter().collect();
        // Files of one size stay in the order of their paths.
        files.sort_by_key(|file| Reverse(file.size));
        files
            .iter()
            .take(SHOWN_FILES)
            .try_for_each(|file| line(f, format_args!("  {:>9}  {}", bytes(file.size), file.path)))
    }
}

/// Writes the first line of a block, after an empty one.
fn title(f: &mut Formatter<'_>, text: Arguments<'_>) -> fmt::Result {
    f.write_str("\n")?;
    line(f, text)
}

/// A name and its size, in columns.
fn row(name: &str, size: u64) -> String {
    format!("  {name:32} {:>9}", bytes(size))
}

fn show_disk(f: &mut Formatter<'_>, disk: &DiskLayout) -> fmt::Result {
    title(f, format_args!("disk {}, sectors of {} bytes", disk.disk_guid, disk.sector_size))?;
    if let Some(fault) = &disk.table_fault {
        line(f, format_args!("  UNTRUSTED PARTITION TABLE: {fault}"))?;
    }
    for partition in &disk.partitions {
        let (number, name, purpose) = (partition.number, &partition.name, &partition.purpose);
        let (start, size) = (bytes(partition.start), bytes(partition.size));
        line(
            f,
            format_args!(
                "  {number} {name:8} {purpose:5} {size:>9} at {start:>9}  {}  {}",
                partition.guid, partition.attributes
            ),
        )?;
    }
    title(f, format_args!("{}, {}, starts a slot", disk.boot.path, bytes(disk.boot.size)))?;
    show_signatures(f, &disk.boot.signatures)?;
    disk.slots.iter().try_for_each(|slot| line(f, format_args!("  {slot}")))
}

fn show_uki(f: &mut Formatter<'_>, uki: &Uki) -> fmt::Result {
    title(
        f,
        format_args!(
            "UKI{}, {}",
            uki.slot.as_ref().map(|slot| format!(" of {slot}")).unwrap_or_default(),
            bytes(uki.size)
        ),
    )?;
    for section in &uki.sections {
        line(f, format_args!("{}", row(&section.name, section.size)))?;
    }
    uki.version.iter().try_for_each(|version| line(f, format_args!("  version: {version}")))?;
    line(f, format_args!("  security epoch: {}", uki.security_epoch))?;
    line(f, format_args!("  command line: {}", uki.command_line))?;
    show_signatures(f, &uki.signatures)
}

fn show_signatures(f: &mut Formatter<'_>, signatures: &[Signature]) -> fmt::Result {
    if signatures.is_empty() {
        return line(f, format_args!("  not signed"));
    }
    for Signature { signer, certificate, until, intact } in signatures {
        let certificate = certificate
            .as_ref()
            .map(|sha256| format!(", certificate sha256:{sha256}"))
            .unwrap_or_default();
        let until = until.as_ref().map(|until| format!(", until {until}")).unwrap_or_default();
        line(
            f,
            format_args!(
                "  signed by {signer}{certificate}{until}{}",
                if *intact { "" } else { ", FOR OTHER BYTES" }
            ),
        )?;
    }
    Ok(())
}

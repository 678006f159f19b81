//! An inspection as text for people.

use super::{DiskLayout, Inspection, Kind, Signature, Uki};
use crate::report::bytes;
use std::cmp::Reverse;
use std::fmt::{self, Display, Formatter};

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
        writeln!(f, "{kind} of {} for {}, {}", root.recipe, root.architecture, bytes(self.size))?;
        writeln!(f, "lock sha256:{}, epoch {}", root.lock, root.epoch)?;
        self.disk.iter().try_for_each(|disk| show_disk(f, disk))?;
        self.uki.iter().try_for_each(|uki| show_uki(f, uki))?;
        writeln!(f, "\ninitramfs, {}", bytes(self.initramfs.size))?;
        for layer in &self.initramfs.layers {
            row(f, &layer.name, layer.size)?;
            writeln!(f, "  {} files", layer.files)?;
        }
        writeln!(f, "\nbinaries in /bin: {}", root.binaries.len())?;
        for binary in &root.binaries {
            writeln!(
                f,
                "  {:24} {:12} {:>9}  {}  {}",
                binary.name,
                binary.version,
                bytes(binary.size),
                binary.mode,
                binary.component
            )?;
        }
        writeln!(f, "\nkernel {}", root.kernel)?;
        writeln!(f, "\nprebuilt")?;
        for (name, version) in &root.prebuilt {
            writeln!(f, "  {name:24} {version}")?;
        }
        writeln!(f, "\nstatic pods")?;
        for pod in &root.pods {
            writeln!(f, "  {:24} {}", pod.name, pod.images.join(" "))?;
        }
        if !root.writable.is_empty() {
            writeln!(f, "\nwritable paths of the recipe")?;
            root.writable.iter().try_for_each(|path| writeln!(f, "  {path}"))?;
        }
        write!(f, "\nbiggest files")?;
        let mut files: Vec<_> = root.files.iter().collect();
        // Files of one size stay in the order of their paths.
        files.sort_by_key(|file| Reverse(file.size));
        files
            .iter()
            .take(SHOWN_FILES)
            .try_for_each(|file| write!(f, "\n  {:>9}  {}", bytes(file.size), file.path))
    }
}

/// A name and its size, in columns.
fn row(f: &mut Formatter<'_>, name: &str, size: u64) -> fmt::Result {
    write!(f, "  {name:32} {:>9}", bytes(size))
}

fn show_disk(f: &mut Formatter<'_>, disk: &DiskLayout) -> fmt::Result {
    writeln!(f, "\ndisk {}, sectors of {} bytes", disk.disk_guid, disk.sector_size)?;
    if let Some(fault) = &disk.table_fault {
        writeln!(f, "  UNTRUSTED PARTITION TABLE: {fault}")?;
    }
    for partition in &disk.partitions {
        let (number, name, purpose) = (partition.number, &partition.name, &partition.purpose);
        let (start, size) = (bytes(partition.start), bytes(partition.size));
        writeln!(
            f,
            "  {number} {name:8} {purpose:5} {size:>9} at {start:>9}  {}  {}",
            partition.guid, partition.attributes
        )?;
    }
    writeln!(f, "\n{}, {}, starts a slot", disk.boot.path, bytes(disk.boot.size))?;
    show_signatures(f, &disk.boot.signatures)?;
    disk.slots.iter().try_for_each(|slot| writeln!(f, "  {slot}"))
}

fn show_uki(f: &mut Formatter<'_>, uki: &Uki) -> fmt::Result {
    writeln!(
        f,
        "\nUKI{}, {}",
        uki.slot.as_ref().map(|slot| format!(" of {slot}")).unwrap_or_default(),
        bytes(uki.size)
    )?;
    for section in &uki.sections {
        row(f, &section.name, section.size)?;
        writeln!(f)?;
    }
    uki.version.iter().try_for_each(|version| writeln!(f, "  version: {version}"))?;
    writeln!(f, "  security epoch: {}", uki.security_epoch)?;
    writeln!(f, "  command line: {}", uki.command_line)?;
    show_signatures(f, &uki.signatures)
}

fn show_signatures(f: &mut Formatter<'_>, signatures: &[Signature]) -> fmt::Result {
    if signatures.is_empty() {
        return writeln!(f, "  not signed");
    }
    for Signature { signer, certificate, until, intact } in signatures {
        let certificate = certificate
            .as_ref()
            .map(|sha256| format!(", certificate sha256:{sha256}"))
            .unwrap_or_default();
        let until = until.as_ref().map(|until| format!(", until {until}")).unwrap_or_default();
        writeln!(
            f,
            "  signed by {signer}{certificate}{until}{}",
            if *intact { "" } else { ", FOR OTHER BYTES" }
        )?;
    }
    Ok(())
}

//! The installation, from the choice of the disk to the reboot.
//!
//! All checks come before the first write. From then on the disk has no partition table until
//! everything else is on it and has been read back, so that after a power cut at any time the next
//! attempt starts over.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use osbuild_abi::console::{INSTALLER_DONE, INSTALLER_ERASES};
use osbuild_abi::disk::{DATA, ESP, SLOT_A, SLOT_B};
use osbuild_abi::install::SETTINGS;
use osbuild_disks::write::{self, length};
use osbuild_disks::{Device, Disk, Ends, Piece, size};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::gpt::{Geometry, Table};
use osbuild_protocol::{Client, Request};

use crate::carried::{BOOT_PROGRAM, Carried};
use crate::console::Console;
use crate::data::{self, Planned};
use crate::enroll::Keys;
use crate::firmware::Firmware;
use crate::rule;
use crate::settings::Settings;
use crate::stick::{self, Stick};

/// How long to wait for `init`.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Paths in the pod.
pub struct Paths {
    /// The image.
    pub image: PathBuf,
    /// The certificate of the image's signer.
    pub certificate: PathBuf,
    /// The settings for a machine without a stick.
    pub settings: PathBuf,
    /// The firmware's variables.
    pub firmware: PathBuf,
    /// `init`'s `admin` socket.
    pub admin: PathBuf,
    /// An empty folder to mount DATA on.
    pub data: PathBuf,
}

/// The files and keys to install besides the image.
struct Extras<'a> {
    files: Vec<Planned<'a>>,
    keys: Option<Keys>,
}

/// Installs the image, and reboots the machine into it.
///
/// # Errors
/// The installation stopped. No disk was changed, unless the error says so.
pub fn install(paths: &Paths, console: &mut Console) -> Outcome {
    let firmware = Firmware::new(&paths.firmware);
    let stick = firmware.booted().map(|booted| Stick::find(booted.disk)).transpose()?;
    let settings = settings(paths, stick.as_ref())?;
    console.print("verifies the image");
    let carried = Carried::open(&paths.image, &paths.certificate)?;
    let signer = match &carried.signer {
        Some(signer) => format!("is signed by {}", signer.name()),
        None => "is not signed".to_owned(),
    };
    console.print(format!("the image has version {} and {signer}", carried.version));
    let disk = choose(&settings, stick.as_ref(), &carried, console)?;
    let extras = Extras::of(&settings, stick.as_ref(), &carried, &firmware, console)?;
    if let Some(table) =
        stick::table(&disk).filter(|table| !settings.replace_node && is_node(table))
    {
        return match why_not_boot(&settings, &firmware, &table) {
            None => boot(paths, &firmware, &disk, &table, "already held a node", console),
            Some(why) => {
                Err(Failure::new(format!("{} already holds a node{why}", disk.device.display())))
            }
        };
    }
    console.line(&format!("{INSTALLER_ERASES}{}", rule::describe(&disk)));
    if !settings.unattended {
        console.confirm()?;
    }
    console.count_down(settings.countdown_s);
    let table = write_disk(&carried, &disk, &extras, paths, &firmware, console)?;
    boot(paths, &firmware, &disk, &table, &format!("holds version {}", carried.version), console)
}

/// The stick's settings; without a stick the image's.
fn settings(paths: &Paths, stick: Option<&Stick>) -> Outcome<Settings> {
    let name = SETTINGS.trim_start_matches('/');
    match stick {
        Some(stick) => Settings::read(name, stick.file(SETTINGS)?),
        None => {
            let bytes = std::fs::read(&paths.settings)
                .explain(format_args!("read {}", paths.settings.display()))?;
            Settings::read(name, &bytes)
        }
    }
}

/// The one disk that matches the settings. If there is not exactly one, the console lists all
/// disks.
fn choose(
    settings: &Settings,
    stick: Option<&Stick>,
    carried: &Carried,
    console: &mut Console,
) -> Outcome<Disk> {
    let (disks, stick) = (stick::settled(), stick.map(|stick| stick.name.as_str()));
    let Some(rule) = &settings.disk else {
        let lines = rule::list(&disks, carried.requirements(), stick);
        lines.iter().for_each(|line| console.print(line));
        return Err(Failure::new(format!(
            "`{}` has no section `[disk]`",
            SETTINGS.trim_start_matches('/')
        )));
    };
    match rule::choose(&disks, rule, carried.requirements(), stick) {
        Ok(disk) => Ok(disk.clone()),
        Err(lines) => {
            lines[1..].iter().for_each(|line| console.print(line));
            Err(Failure::new(lines[0].clone()))
        }
    }
}

impl<'a> Extras<'a> {
    fn of(
        settings: &Settings,
        stick: Option<&'a Stick>,
        carried: &Carried,
        firmware: &Firmware,
        console: &mut Console,
    ) -> Outcome<Self> {
        let stick_for = |what: &str| {
            stick.ok_or_else(|| {
                Failure::new(format!("the settings ask for {what}, but there is no stick"))
            })
        };
        let files = settings
            .files
            .iter()
            .map(|(path, file)| data::plan(path, stick_for("a stick's files")?.file(file)?));
        let files = files.collect::<Outcome<_>>()?;
        let keys = match (settings.enroll_keys, firmware.is_in_setup_mode()) {
            (true, true) => {
                Some(Keys::read(stick_for("a stick's keys")?, carried.signer.as_ref())?)
            }
            (true, false) => {
                console.print("the firmware is not in setup mode, so its keys stay");
                None
            }
            (false, _) => None,
        };
        Ok(Extras { files, keys })
    }
}

/// Removes the old partition table, writes the image, the stick's files and keys, and last the new
/// table. Returns that.
fn write_disk(
    carried: &Carried,
    disk: &Disk,
    extras: &Extras,
    paths: &Paths,
    firmware: &Firmware,
    console: &mut Console,
) -> Outcome<Table> {
    let what = || format!("write {}", disk.device.display());
    let geometry = Geometry::new(disk.sector_size.into(), disk.size).explain(what())?;
    let table = carried.image.table_for(geometry).explain(what())?;
    let ends = Ends::new(&table, geometry).explain(what())?;
    let pieces = carried.image.pieces().explain(what())?;
    let mut device = Device::open_found(disk).explain(what())?;
    write::remove_table(&ends, &mut device).explain(what())?;
    let unfinished = |failure| unfinished(&disk.device, &failure);
    let mut written =
        write_image(carried, disk, &pieces, device, console).explain(what()).map_err(unfinished)?;
    write_extras(extras, disk, &table, paths, firmware, console).map_err(unfinished)?;
    if !extras.files.is_empty() {
        let data = table.named(DATA).map_or(0..0, |data| {
            data.first * geometry.sector_size()..(data.last + 1) * geometry.sector_size()
        });
        written.retain(|piece| is_outside(piece, &data));
    }
    let mut device = Device::open_found(disk).explain(what()).map_err(unfinished)?;
    let compared = write::write_table(&ends, &mut device, |device| {
        compare("read back again", carried, &written, device, console)
    });
    compared.map_err(|(error, removed)| without_table(&disk.device, &error, removed))?;
    Ok(table)
}

/// Writes the stick's files to DATA, and its keys to the firmware.
fn write_extras(
    extras: &Extras,
    disk: &Disk,
    table: &Table,
    paths: &Paths,
    firmware: &Firmware,
    console: &mut Console,
) -> Outcome {
    if !extras.files.is_empty() {
        data::write_files(disk, table, &extras.files, &paths.data)?;
        console.print(format!("copied {} of the stick's files to {DATA}", extras.files.len()));
    }
    if let Some(keys) = &extras.keys {
        keys.enroll(firmware)?;
        console.print("enrolled the stick's keys in the firmware");
    }
    Ok(())
}

/// The failure of an installation that has removed the table of the disk.
fn unfinished(device: &Path, failure: &Failure) -> Failure {
    let device = device.display();
    Failure::new(format!(
        "{failure}; {device} has no partition table now, and can be installed again"
    ))
}

/// The failure of a disk that had its new table, which was then `removed`.
fn without_table(
    device: &Path,
    error: &osbuild_disks::Error,
    removed: osbuild_disks::Result<()>,
) -> Failure {
    let failure = Failure::new(format!("cannot write {}: {error}", device.display()));
    match removed {
        Ok(()) => unfinished(device, &failure),
        Err(failed) => Failure::new(format!(
            "{failure}; and its new partition table could not be removed: {failed}; to install \
             this disk again, set `replace-node = true`"
        )),
    }
}

/// Whether a piece has no byte in `range`.
fn is_outside(piece: &Piece, range: &Range<u64>) -> bool {
    piece.range.end <= range.start || piece.range.start >= range.end
}

/// Writes the image without its table, and reads that back. Returns the pieces to compare again
/// later. The disk must not be open elsewhere.
fn write_image(
    carried: &Carried,
    disk: &Disk,
    pieces: &[Piece],
    mut device: Device,
    console: &mut Console,
) -> osbuild_disks::Result<Vec<Piece>> {
    // The new partitions have the same device files.
    if device.shows_old_partitions() {
        return Err(osbuild_disks::Error::InUse(disk.device.clone()));
    }
    let mut progress =
        Progress::of("written", length(pieces.iter().filter(|piece| !piece.is_zero)));
    let to_compare =
        write::write(&carried.image, pieces, &mut device, |more| progress.advance(more, console))?;
    compare("read back", carried, &to_compare, &mut device, console)?;
    Ok(to_compare)
}

/// Reads pieces of the disk back, and compares them with the image.
fn compare(
    doing: &'static str,
    carried: &Carried,
    pieces: &[Piece],
    device: &mut Device,
    console: &mut Console,
) -> osbuild_disks::Result<()> {
    let mut progress = Progress::of(doing, length(pieces));
    write::compare(&carried.image, pieces, device, |more| progress.advance(more, console))
}

/// Prints a line of progress for each quarter.
struct Progress {
    doing: &'static str,
    total: u64,
    done: u64,
}

impl Progress {
    fn of(doing: &'static str, total: u64) -> Progress {
        Progress { doing, total, done: 0 }
    }

    fn advance(&mut self, more: u64, console: &mut Console) -> osbuild_disks::Result<()> {
        let quarter = |done: u64| done * 4 / self.total.max(1);
        let before = quarter(self.done);
        self.done += more;
        if quarter(self.done) > before {
            console.print(format!("{} of {} {}", size(self.done), size(self.total), self.doing));
        }
        Ok(())
    }
}

/// Why the node that the disk already holds is not booted; `None` if it is.
fn why_not_boot(settings: &Settings, firmware: &Firmware, table: &Table) -> Option<&'static str> {
    if !settings.unattended {
        return Some(": take the stick out, or set `replace-node = true`");
    }
    // Otherwise the machine would boot the stick in a loop.
    table.named(ESP).is_some_and(|esp| firmware.was_set_to_boot(esp)).then_some(
        ", and the firmware was set to boot it, but booted the stick: take the stick out, or put \
         the disk first in the firmware's boot menu",
    )
}

/// Sets the firmware to boot the disk, and reboots.
fn boot(
    paths: &Paths,
    firmware: &Firmware,
    disk: &Disk,
    table: &Table,
    what: &str,
    console: &mut Console,
) -> Outcome {
    let esp =
        table.named(ESP).ok_or_else(|| Failure::new(format!("the disk has no partition {ESP}")))?;
    let device = disk.device.display();
    let by_hand = |failure: Failure| {
        Failure::new(format!(
            "{device} {what}, but must be booted by hand, as the boot menu cannot be set: {failure}"
        ))
    };
    firmware.set_boot(esp, BOOT_PROGRAM).map_err(by_hand)?;
    console.line(&format!("{INSTALLER_DONE}{device} {what}, and the machine reboots into it"));
    let init = Client::connect(&paths.admin, TIMEOUT);
    init.and_then(|mut init| init.send(&Request::Reboot))
        .explain(format_args!("have init reboot the machine: {device} {what}; reset it by hand"))
}

/// Whether a disk with this table holds a complete node: the table is written last.
fn is_node(table: &Table) -> bool {
    [ESP, SLOT_A, SLOT_B, DATA].iter().all(|name| table.named(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_disk_without_a_table_is_reported_to_have_none() {
        let disk = Path::new("/dev/sdb");
        let error = || osbuild_disks::Error::InUse("/dev/sdb".into());
        let line = without_table(disk, &error(), Ok(())).to_string();
        assert!(line.ends_with("/dev/sdb has no partition table now, and can be installed again"));
        let line = without_table(disk, &error(), Err(error())).to_string();
        assert!(line.contains("could not be removed") && line.contains("`replace-node = true`"));
        assert!(!line.contains("has no partition table"), "{line}");
    }

    #[test]
    fn pieces_that_touch_the_data_partition_are_not_compared_again() {
        let piece = |range| Piece { range, is_zero: false };
        let outside = |range| is_outside(&piece(range), &(100..200));
        assert!(outside(0..100) && outside(200..300));
        assert!(!outside(0..101) && !outside(150..160) && !outside(199..300));
    }
}

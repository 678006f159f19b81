//! The installation, from the question which disk to the reboot.
//!
//! Everything that can be wrong is looked at before a byte is written. From then on the disk has no
//! partition table until all else is on it and was read back: whenever the power fails, the next
//! try begins anew.

use std::ops::Range;
use std::path::PathBuf;
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

/// How long `init` may take to reply.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Where things are in the pod.
pub struct Places {
    /// The image.
    pub image: PathBuf,
    /// Whose it is.
    pub certificate: PathBuf,
    /// What to do where no stick says it.
    pub settings: PathBuf,
    /// The firmware's variables.
    pub firmware: PathBuf,
    /// `init`'s `admin` socket.
    pub admin: PathBuf,
    /// An empty folder to mount DATA on.
    pub data: PathBuf,
}

/// What is to be done besides writing the image.
struct Wishes<'a> {
    files: Vec<Planned<'a>>,
    keys: Option<Keys>,
}

/// Installs, and has the machine reboot into what it has installed.
///
/// # Errors
/// Why nothing more is done. If it does not say otherwise, no disk was touched.
pub fn install(places: &Places, console: &mut Console) -> Outcome {
    let firmware = Firmware::new(&places.firmware);
    let stick = firmware.booted().map(|booted| Stick::find(booted.disk)).transpose()?;
    let settings = settings(places, stick.as_ref())?;
    console.say("looks at the image that it carries");
    let carried = Carried::open(&places.image, &places.certificate)?;
    let signer =
        carried.signer.as_ref().map_or_else(|| "nobody".to_owned(), |signer| signer.name());
    console.say(format!("carries version {}, signed by {signer}", carried.version));
    let disk = choose(&settings, stick.as_ref(), &carried, console)?;
    let wishes = Wishes::of(&settings, stick.as_ref(), &carried, &firmware, console)?;
    if let Some(table) =
        stick::table(&disk).filter(|table| !settings.replace_node && is_node(table))
    {
        return match found(&settings, &firmware, &table) {
            None => boot(places, &firmware, &disk, &table, "held a node already", console),
            Some(why) => {
                Err(Failure::new(format!("{} holds a node already{why}", disk.device.display())))
            }
        };
    }
    console.line(&format!("{INSTALLER_ERASES}{}", rule::shown(&disk)));
    if !settings.unattended {
        console.ask()?;
    }
    console.count_down(settings.countdown_s);
    let table = put(&carried, &disk, &wishes, places, &firmware, console).map_err(|failure| {
        Failure::new(format!(
            "{failure}; {} has no partition table now, and can be installed again",
            disk.device.display()
        ))
    })?;
    boot(places, &firmware, &disk, &table, &format!("holds version {}", carried.version), console)
}

/// What the stick says, or without one what the image says.
fn settings(places: &Places, stick: Option<&Stick>) -> Outcome<Settings> {
    let name = SETTINGS.trim_start_matches('/');
    match stick {
        Some(stick) => Settings::read(name, stick.file(SETTINGS)?),
        None => {
            let bytes = std::fs::read(&places.settings)
                .explain(format_args!("read {}", places.settings.display()))?;
            Settings::read(name, &bytes)
        }
    }
}

/// The disk that the settings mean. If it is not one, the console shows all there are.
fn choose(
    settings: &Settings,
    stick: Option<&Stick>,
    carried: &Carried,
    console: &mut Console,
) -> Outcome<Disk> {
    let disks = stick::settled();
    let Some(rule) = &settings.disk else {
        disks.iter().for_each(|disk| console.say(rule::shown(disk)));
        return Err(Failure::new(format!(
            "`{}` has no section `[disk]`",
            SETTINGS.trim_start_matches('/')
        )));
    };
    match rule::choose(&disks, rule, carried.need(), stick.map(|stick| stick.name.as_str())) {
        Ok(disk) => Ok(disk.clone()),
        Err(lines) => {
            lines[1..].iter().for_each(|line| console.say(line));
            Err(Failure::new(lines[0].clone()))
        }
    }
}

impl<'a> Wishes<'a> {
    fn of(
        settings: &Settings,
        stick: Option<&'a Stick>,
        carried: &Carried,
        firmware: &Firmware,
        console: &mut Console,
    ) -> Outcome<Self> {
        let stick_for = |what: &str| {
            stick.ok_or_else(|| Failure::new(format!("there is no stick that could have {what}")))
        };
        let files = settings
            .files
            .iter()
            .map(|(path, file)| data::plan(path, stick_for("files")?.file(file)?));
        let files = files.collect::<Outcome<_>>()?;
        let keys = match (settings.enroll_keys, firmware.is_in_setup_mode()) {
            (true, true) => Some(Keys::read(stick_for("keys")?, carried.signer.as_ref())?),
            (true, false) => {
                console.say("the firmware is not in setup mode, and keeps its keys");
                None
            }
            (false, _) => None,
        };
        Ok(Wishes { files, keys })
    }
}

/// Puts all of it onto the disk, and its partition table last. Gives the table.
fn put(
    carried: &Carried,
    disk: &Disk,
    wishes: &Wishes,
    places: &Places,
    firmware: &Firmware,
    console: &mut Console,
) -> Outcome<Table> {
    let what = || format!("write {}", disk.device.display());
    let geometry = Geometry::new(disk.sector_size.into(), disk.size).explain(what())?;
    let table = carried.image.table_for(geometry).explain(what())?;
    let ends = Ends::new(&table, geometry).explain(what())?;
    let pieces = carried.image.pieces().explain(what())?;
    let mut written = write(carried, disk, &pieces, &ends, console).explain(what())?;
    if !wishes.files.is_empty() {
        data::put(disk, &table, &wishes.files, &places.data)?;
        console.say(format!("its {DATA} has {} of the stick's files", wishes.files.len()));
        let data = table.named(DATA).map_or(0..0, |data| {
            data.first * geometry.sector_size()..(data.last + 1) * geometry.sector_size()
        });
        written.retain(|piece| is_outside(piece, &data));
    }
    if let Some(keys) = &wishes.keys {
        keys.enroll(firmware)?;
        console.say("the firmware has the keys of the stick");
    }
    let mut device = Device::open(&disk.device, true).explain(what())?;
    let compared = write::write_table(&ends, &mut device, |device| {
        compare("read back again", carried, &written, device, console)
    });
    match compared {
        Ok(()) => Ok(table),
        Err((error, Ok(()))) => Err(error).explain(what()),
        Err((error, Err(failed))) => Err(Failure::new(format!(
            "cannot {}: {error}; and its new partition table could not be removed: {failed}",
            what()
        ))),
    }
}

/// Whether a piece has no byte in `range`.
fn is_outside(piece: &Piece, range: &Range<u64>) -> bool {
    piece.range.end <= range.start || piece.range.start >= range.end
}

/// Removes the old partition table, writes the image without its own, and reads that back. Returns
/// the pieces to compare again later. The disk must not be open elsewhere.
fn write(
    carried: &Carried,
    disk: &Disk,
    pieces: &[Piece],
    ends: &Ends,
    console: &mut Console,
) -> osbuild_disks::Result<Vec<Piece>> {
    let mut device = Device::open(&disk.device, true)?;
    write::remove_table(ends, &mut device)?;
    // Their places are those of the new ones.
    if device.shows_old_partitions() {
        return Err(osbuild_disks::Error::InUse(disk.device.clone()));
    }
    let mut told = Told::of("written", length(pieces.iter().filter(|piece| !piece.is_zero)));
    let to_compare =
        write::write(&carried.image, pieces, &mut device, |more| told.tell(more, console))?;
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
    let mut told = Told::of(doing, length(pieces));
    write::compare(&carried.image, pieces, device, |more| told.tell(more, console))
}

/// How far it is, for whoever watches: a line for each quarter.
struct Told {
    doing: &'static str,
    total: u64,
    done: u64,
}

impl Told {
    fn of(doing: &'static str, total: u64) -> Told {
        Told { doing, total, done: 0 }
    }

    fn tell(&mut self, more: u64, console: &mut Console) -> osbuild_disks::Result<()> {
        let quarter = |done: u64| done * 4 / self.total.max(1);
        let before = quarter(self.done);
        self.done += more;
        if quarter(self.done) > before {
            console.say(format!("{} of {} {}", size(self.done), size(self.total), self.doing));
        }
        Ok(())
    }
}

/// Why a node that is there already is not booted, if there is a reason.
fn found(settings: &Settings, firmware: &Firmware, table: &Table) -> Option<&'static str> {
    if !settings.unattended {
        return Some(": take the stick out, or say `replace-node = true`");
    }
    // The machine would boot the stick again and again.
    table.named(ESP).is_some_and(|esp| firmware.was_told(esp)).then_some(
        ", and the firmware was set to boot it, but has booted the stick: take the stick out, or \
         put the disk before it in the firmware's menu",
    )
}

/// Has the machine boot a disk with a node.
fn boot(
    places: &Places,
    firmware: &Firmware,
    disk: &Disk,
    table: &Table,
    what: &str,
    console: &mut Console,
) -> Outcome {
    let esp =
        table.named(ESP).ok_or_else(|| Failure::new(format!("the disk has no partition {ESP}")))?;
    let by_hand = |failure: Failure| {
        let device = disk.device.display();
        Failure::new(format!(
            "{device} {what}, and has to be booted by hand, as the firmware is not told: {failure}"
        ))
    };
    firmware.boot(esp, BOOT_PROGRAM).map_err(by_hand)?;
    console.line(&format!(
        "{INSTALLER_DONE}{} {what}, and the machine reboots into it",
        disk.device.display()
    ));
    let init = Client::connect(&places.admin, TIMEOUT);
    init.and_then(|mut init| init.tell(&Request::Reboot)).explain("have init reboot the machine")
}

/// Whether a disk with this table holds a node, and all of it: the table is written last.
fn is_node(table: &Table) -> bool {
    [ESP, SLOT_A, SLOT_B, DATA].iter().all(|name| table.named(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_touch_the_data_partition_are_not_compared_again() {
        let piece = |range| Piece { range, is_zero: false };
        let outside = |range| is_outside(&piece(range), &(100..200));
        assert!(outside(0..100) && outside(200..300));
        assert!(!outside(0..101) && !outside(150..160) && !outside(199..300));
    }
}

//! A machine with a stick and two disks.

use super::keyboard::Keyboard;
use crate::disk_file;
use crate::image::image;
use crate::site::Site;
use crate::vm::data::Data;
use crate::vm::machine::Machine;
use crate::vm::node::NodeUnderTest;
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::Bus;
use osbuild::ship::keys::DEV;
use osbuild::ship::vm::machine::SecureBoot;
use osbuild_abi::disk::ALIGNMENT;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The serial numbers of the disk that the rule matches, and of a disk that must not change.
pub const TARGET: &str = "TARGET-1";
pub const OTHER: &str = "OTHER-2";

/// Size of both disks: larger than the image, so that its partition table has to be adjusted.
const DISK_SIZE: u64 = 1 << 30;

/// The boot order of the firmware.
#[derive(Clone, Copy)]
pub enum BootOrder {
    /// The order in the firmware's variables.
    Variables,
    /// The stick first. Debian's firmware then removes all other disks from its boot menu, also
    /// those that an operating system has added.
    Stick,
}

impl BootOrder {
    /// QEMU's arguments.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            BootOrder::Variables => &["-set", "device.booted.bootindex=-1"],
            BootOrder::Stick => &[],
        }
    }
}

/// The machine. Its disks and its firmware's variables are kept from boot to boot.
pub struct StickMachine<'a> {
    site: &'a Site<'a>,
    /// The stick's recipe.
    recipe: &'static str,
    folder: TempDir,
    keyboard: Keyboard,
}

impl<'a> StickMachine<'a> {
    /// A machine in setup mode, with a keyboard, a stick with the newly built image of `recipe`, an
    /// empty disk, and a disk with data.
    pub fn new(site: &'a Site<'a>, recipe: &'static str) -> Result<Self> {
        let image = image(site, recipe)?;
        let folder = tempfile::tempdir_in(site.root.join("out/ci"))
            .or_build(|| "cannot make a folder".to_owned())?;
        let machine = StickMachine { site, recipe, folder, keyboard: Keyboard::new()? };
        disk_file::copy(site, &image, &machine.stick())?;
        for (serial, seed) in [(TARGET, 0), (OTHER, 0x5A_u8)] {
            let file =
                File::create(machine.disk(serial)).or_build(|| "cannot make a disk".to_owned())?;
            let bytes: Vec<u8> =
                (0..4 << 20).map(|at: u32| seed.wrapping_mul((at >> 9) as u8 | 1)).collect();
            let written = file.set_len(DISK_SIZE).and_then(|()| file.write_all_at(&bytes, 0));
            written
                .and_then(|()| file.write_all_at(&bytes, DISK_SIZE - bytes.len() as u64))
                .or_build(|| "cannot fill a disk".to_owned())?;
        }
        Ok(machine)
    }

    /// `osbuild verify` accepts the stick as it was built.
    pub fn is_verified(&self) -> Result<()> {
        let stick = self.stick().display().to_string();
        let mut osbuild = self.site.osbuild()?;
        self.site
            .finish("installer-verify", osbuild.args(["verify", &stick, "--key", DEV]))
            .map(drop)
    }

    /// The keyboard.
    pub fn keyboard(&self) -> &Keyboard {
        &self.keyboard
    }

    /// A machine like this one that boots from the file `image` on `bus`.
    pub fn machine(&self, bus: Bus, image: PathBuf, log: &str) -> Result<Machine<'a>> {
        Ok(Machine::of_board(self.site, self.recipe, image, log)?.bus(bus))
    }

    fn stick(&self) -> PathBuf {
        self.folder.path().join("stick.raw")
    }

    /// The file of the disk with this serial number.
    pub fn disk(&self, serial: &str) -> PathBuf {
        self.folder.path().join(format!("{serial}.raw"))
    }

    /// Writes a file to the stick's system partition with mtools.
    pub fn put_onto_stick(&self, name: &str, text: &str) -> Result<()> {
        let file = self.folder.path().join("file");
        fs::write(&file, text).or_build(|| "cannot write a file".to_owned())?;
        let mut mcopy = Command::new("mcopy");
        mcopy
            .args(["-n", "-o", "-i", &format!("{}@@{ALIGNMENT}", self.stick().display())])
            .arg(&file)
            .arg(format!("::/{name}"));
        self.site.finish("installer-mcopy", &mut mcopy).map(drop)
    }

    /// Copies the public keys of the stick's signatures to it, as `osbuild keys enroll` writes
    /// them.
    pub fn put_keys_onto_stick(&self) -> Result<()> {
        self.site.finish("installer-keys", self.site.osbuild()?.args(["keys", "enroll", DEV]))?;
        let enroll = self.site.project().join("keys").join(DEV).join("enroll");
        let stick = format!("{}@@{ALIGNMENT}", self.stick().display());
        self.site.finish("installer-mmd", Command::new("mmd").args(["-i", &stick, "::/keys"]))?;
        let files = ["db", "KEK", "PK"].map(|name| enroll.join(format!("{name}.auth")));
        let mut mcopy = Command::new("mcopy");
        mcopy.args(["-n", "-o", "-i", &stick]).args(files).arg("::/keys");
        self.site.finish("installer-mcopy", &mut mcopy).map(drop)
    }

    /// Resets the firmware's variables: its keys and its boot menu.
    pub fn reset_firmware(&self) -> Result<()> {
        fs::remove_file(self.stick().with_extension("variables"))
            .or_build(|| "cannot remove the firmware's variables".to_owned())
    }

    /// Powers on with the stick plugged in. The console is written to the log `log`.
    pub fn start(&self, order: BootOrder, log: &str) -> Result<NodeUnderTest<'a>> {
        let disk = |(id, serial): (&str, &str)| {
            let file = self.disk(serial).display().to_string().replace(',', ",,");
            let drive = format!("if=none,id={id},format=raw,discard=unmap,file={file}");
            [
                "-drive".to_owned(),
                drive,
                "-device".to_owned(),
                format!("nvme,drive={id},serial={serial}"),
            ]
        };
        self.machine(Bus::Usb, self.stick(), log)?
            .keep(self.stick())
            .secure_boot(SecureBoot::Setup)
            .arguments(self.keyboard.arguments())
            .arguments([("target", TARGET), ("other", OTHER)].into_iter().flat_map(disk))
            .arguments(order.arguments().iter().copied())
            .timeout(super::TIMEOUT)
            .start()
    }

    /// Whether `cgpt` finds the stick's first slot to be a good one, which no boot costs a try.
    pub fn is_stick_good(&self) -> Result<bool> {
        let mut cgpt = Command::new("cgpt");
        cgpt.args(["show", "-i", "2", "-S"]).arg(self.stick());
        Ok(self.site.finish("installer-cgpt", &mut cgpt)?.output.trim() == "1")
    }

    /// The digests of the target and of the other disk.
    pub fn digests(&self) -> Result<Vec<String>> {
        [TARGET, OTHER]
            .into_iter()
            .map(|serial| Ok(Digest::of_file(&self.disk(serial))?.hex()))
            .collect()
    }

    /// Makes partitions like another operating system's with `sgdisk`, at other offsets than the
    /// image's.
    pub fn partition(&self, serial: &str) -> Result<()> {
        let mut sgdisk = Command::new("sgdisk");
        sgdisk
            .args(["--zap-all", "--new=1:0:+100M", "--new=2:0:+300M", "--new=4:0:+400M"])
            .arg(self.disk(serial));
        self.site.finish("installer-sgdisk", &mut sgdisk).map(drop)
    }

    /// Whether `sfdisk` finds a partition table on a disk.
    pub fn has_table(&self, serial: &str) -> Result<bool> {
        let ran = self.site.finish(
            "installer-sfdisk",
            Command::new("sfdisk").arg("--list").arg(self.disk(serial)),
        )?;
        Ok(ran.output.contains("Disklabel type"))
    }

    /// Checks with `sgdisk` that the target is sound and has no identifier of the stick.
    pub fn has_own_identifiers(&self) -> Result<()> {
        let verified = self
            .site
            .finish("installer-sgdisk", Command::new("sgdisk").arg("-v").arg(self.disk(TARGET)))?;
        if !verified.output.contains("No problems found") {
            return Err(verified.failure("`sgdisk` reports problems of the disk"));
        }
        let (ours, theirs) =
            (self.identifiers(&self.disk(TARGET))?, self.identifiers(&self.stick())?);
        match ours.iter().any(|guid| theirs.contains(guid)) || ours.len() != 5 {
            true => Err(Error::build("the disk has an identifier of the stick")
                .cause(format!("{ours:?} {theirs:?}"))),
            false => Ok(()),
        }
    }

    /// The GUIDs of a disk and of its four partitions.
    fn identifiers(&self, disk: &Path) -> Result<Vec<String>> {
        let mut words: Vec<Vec<String>> = vec![vec!["--print".to_owned()]];
        words.extend((1..=4).map(|number| vec![format!("--info={number}")]));
        let mut found = Vec::new();
        for words in words {
            let output = self
                .site
                .finish("installer-sgdisk", Command::new("sgdisk").args(words).arg(disk))?
                .output;
            let line = output.lines().find_map(|line| {
                line.strip_prefix("Disk identifier (GUID): ")
                    .or(line.strip_prefix("Partition unique GUID: "))
            });
            found.extend(line.map(str::to_owned));
        }
        Ok(found)
    }

    /// The text of a file on DATA of the target, or none if there is no such file.
    pub fn file_on_data(&self, path: &str) -> Result<Option<String>> {
        Data::of(self.site, &self.disk(TARGET))?.read(path)
    }
}

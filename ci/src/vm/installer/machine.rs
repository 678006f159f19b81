//! A machine with a stick and two disks.

use super::keyboard::Keyboard;
use crate::image::image;
use crate::site::Site;
use crate::vm::data::Data;
use crate::vm::machine::options_of;
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{Bus, Qemu};
use osbuild::ship::keys::DEV;
use osbuild::ship::vm::machine::SecureBoot;
use osbuild::ship::vm::node::Node;
use osbuild::ship::vm::run::{RunOptions, start};
use osbuild_abi::disk::ALIGNMENT;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The serial numbers of the disk that is meant, and of the one that nobody may touch.
pub const MEANT: &str = "MEANT-1";
pub const OTHER: &str = "OTHER-2";

/// Size of both disks: more than the image's, so that its table has to be fitted to them.
const DISK_SIZE: u64 = 1 << 30;

/// What firmware starts.
#[derive(Clone, Copy)]
pub enum Starts {
    /// What its boot menu says.
    Menu,
    /// What QEMU calls the first disk. Debian's firmware takes all other disks from its boot menu
    /// then, also those that a system has put there.
    FirstDisk,
}

impl Starts {
    /// What QEMU is told of it.
    pub fn arguments(self) -> Vec<String> {
        match self {
            Starts::Menu => ["-set", "device.booted.bootindex=-1"].map(str::to_owned).into(),
            Starts::FirstDisk => Vec::new(),
        }
    }
}

/// The machine: its disks and its firmware's variables stay from boot to boot.
pub struct Machine<'a> {
    site: &'a Site<'a>,
    /// The stick's recipe.
    recipe: &'static str,
    folder: TempDir,
    keyboard: Keyboard,
}

impl<'a> Machine<'a> {
    /// A machine in setup mode, with a keyboard, a stick that was just built from this recipe, an
    /// empty disk, and one with somebody's bytes on it.
    pub fn new(site: &'a Site<'a>, recipe: &'static str) -> Result<Self> {
        let image = image(site, recipe)?;
        let folder = tempfile::tempdir_in(site.root.join("out/ci"))
            .or_build(|| "cannot make a folder".to_owned())?;
        let machine = Machine { site, recipe, folder, keyboard: Keyboard::new()? };
        let mut copy = Command::new("cp");
        site.finish("installer-copy", copy.arg("--sparse=always").arg(image).arg(machine.stick()))?;
        for (serial, seed) in [(MEANT, 0), (OTHER, 0x5A_u8)] {
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

    /// `osbuild verify` finds no fault with the stick as it was built.
    pub fn is_verified(&self) -> Result<()> {
        let stick = self.stick().display().to_string();
        let mut osbuild = self.site.osbuild()?;
        self.site
            .finish("installer-verify", osbuild.args(["verify", &stick, "--key", DEV]))
            .map(drop)
    }

    /// What is typed on it.
    pub fn keyboard(&self) -> &Keyboard {
        &self.keyboard
    }

    /// Its architecture, its processor and so on, with its disk connected to `bus`.
    pub fn options(&self, bus: Bus, image: PathBuf, log: &str) -> Result<RunOptions> {
        let options = options_of(self.site, self.recipe, image, log)?;
        Ok(RunOptions { qemu: Qemu { bus, ..options.qemu }, ..options })
    }

    fn stick(&self) -> PathBuf {
        self.folder.path().join("stick.raw")
    }

    /// The file of the disk with this serial number.
    pub fn disk(&self, serial: &str) -> PathBuf {
        self.folder.path().join(format!("{serial}.raw"))
    }

    /// Has mtools put a file onto the stick's system partition.
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

    /// Puts the keys that signed the stick onto it, as `osbuild keys enroll` leaves them for a
    /// machine.
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

    /// Forgets all that its firmware knows: whom it trusts, and its boot menu.
    pub fn forget(&self) -> Result<()> {
        fs::remove_file(self.stick().with_extension("variables"))
            .or_build(|| "cannot remove the firmware's variables".to_owned())
    }

    /// Powers on with the stick in, on firmware that follows its boot menu or starts the stick
    /// whatever that says. The console goes to the log `log`.
    pub fn boot(&self, starts: Starts, log: &str) -> Result<Node<'a>> {
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
        let disks = [("meant", MEANT), ("other", OTHER)].into_iter().flat_map(disk);
        let machine = RunOptions {
            keep: Some(self.stick()),
            secure_boot: SecureBoot::Setup,
            arguments: self
                .keyboard
                .arguments()
                .into_iter()
                .chain(disks)
                .chain(starts.arguments())
                .collect(),
            ..self.options(Bus::Usb, self.stick(), log)?
        };
        start(self.site.report, &machine)
    }

    /// The digests of the disk that is meant, and of the other one.
    pub fn digests(&self) -> Result<Vec<String>> {
        [MEANT, OTHER]
            .into_iter()
            .map(|serial| Ok(Digest::of_file(&self.disk(serial))?.hex()))
            .collect()
    }

    /// Has `sgdisk` give a disk partitions as a system would have left them, in other places than
    /// the image's.
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
        Ok(ran.said.contains("Disklabel type"))
    }

    /// `sgdisk` finds the disk sound, and no identifier on it that is one of the stick's.
    pub fn has_own_identifiers(&self) -> Result<()> {
        let verified = self
            .site
            .finish("installer-sgdisk", Command::new("sgdisk").arg("-v").arg(self.disk(MEANT)))?;
        if !verified.said.contains("No problems found") {
            return Err(verified.failure("`sgdisk` finds fault with the disk"));
        }
        let (ours, theirs) =
            (self.identifiers(&self.disk(MEANT))?, self.identifiers(&self.stick())?);
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
            let said = self
                .site
                .finish("installer-sgdisk", Command::new("sgdisk").args(words).arg(disk))?
                .said;
            let line = said.lines().find_map(|line| {
                line.strip_prefix("Disk identifier (GUID): ")
                    .or(line.strip_prefix("Partition unique GUID: "))
            });
            found.extend(line.map(str::to_owned));
        }
        Ok(found)
    }

    /// The text of a file on DATA of the disk that is meant, or nothing where there is no file.
    pub fn file_on_data(&self, path: &str) -> Result<Option<String>> {
        Data::of(self.site, &self.disk(MEANT))?.read(path)
    }
}

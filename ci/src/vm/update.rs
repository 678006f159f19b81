//! A node that finds a release on a web server and installs it by itself, with Secure Boot enforced. `cgpt`, `sgdisk`, mtools and `fsck.fat` look at
//! the disk that it leaves.

mod repository;
mod server;

use super::slots::disk::{A, B, Disk};
use super::slots::hears;
use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{Architecture, Lock};
use osbuild::produce::image::removable_path;
use osbuild::produce::out::UKI;
use osbuild::produce::sign::{EfiProgram, Signed};
use osbuild::ship::keys::{DEV, Keys, Role};
use osbuild_abi::console::{SLOT, SLOT_GOOD, SLOTBOOT_STARTS};
use osbuild_abi::disk::ALIGNMENT;
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_slots::{Header, State};
use repository::Repository;
use server::Server;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The recipe of the node, in a copy of the checkout of that name.
const NAME: &str = "update";

/// What runs first, and what it is updated to.
const OLD: &str = "1.0.0";
const NEW: &str = "1.0.1";

/// How long the firmware, the kernel and the node may take for what is waited for.
const PATIENCE: Duration = Duration::from_secs(600);

/// What `init` says when the updater has got the slot, and when the slot is whole.
const OPENED: &str = "SLOT-B is opened for an update";
const NEXT: &str = "SLOT-B is booted next";

/// The node writes the release into its other slot, replaces slotboot, reboots into it by itself, and becomes a good one.
pub fn a_node_updates_itself(site: &Site) -> Result<Verdict> {
    let lab = Lab::new(site)?;
    let server = Server::start(lab.repository.folder())?;
    lab.build(OLD, server.port())?;
    let disk = Disk::of(site, &lab.project, NAME, NAME)?;
    let mut node = disk.boot()?;
    // The disk is a copy of the image by now.
    lab.build(NEW, server.port())?;
    let (uki, boot) = (lab.uki()?, lab.boot_program()?);
    hears(&mut node, SLOT_GOOD, &["SLOT-A"])?;
    lab.repository.publish(NEW, &uki, &boot)?;
    node.hear(OPENED, PATIENCE)?;
    let opened = Instant::now();
    node.hear(NEXT, PATIENCE)?;
    let took = opened.elapsed().as_secs_f64();
    hears(&mut node, SLOTBOOT_STARTS, &["SLOT-B", NEW, "on trial, tries left: 2"])?;
    hears(&mut node, SLOT, &["SLOT-B", NEW])?;
    hears(&mut node, SLOT_GOOD, &["SLOT-B"])?;
    node.power_off()?;
    lab.is_installed(&disk, &uki, &boot)?;
    let plain = lab.plain_copy(&uki)?;
    let said = format!("{:.1} MB in {took:.1} s, plain `dd` on this machine {plain:.1} s", uki.len() as f64 / 1e6);
    Ok(Verdict { passed: 5, said, ..Verdict::default() })
}

/// A copy of the checkout with a node that updates itself.
struct Lab<'a> {
    site: &'a Site<'a>,
    project: PathBuf,
    repository: Repository,
}

impl<'a> Lab<'a> {
    fn new(site: &'a Site<'a>) -> Result<Self> {
        let project = site.root.join("out/ci").join(NAME);
        site.copy_to(&project)?;
        let repository = Repository::new(&project.join("repository"))?;
        Ok(Lab { site, project, repository })
    }

    /// Builds the recipe as this version.
    fn build(&self, version: &str, port: u16) -> Result<()> {
        self.write_recipe(version, port).or_build(|| format!("cannot write recipe `{NAME}`"))?;
        for words in [["lock", NAME, "--offline"], ["build", NAME, "--yes"]] {
            let mut osbuild = self.site.osbuild()?;
            self.site.finish(&format!("{NAME}-{}", words[0]), osbuild.current_dir(&self.project).args(words))?;
        }
        Ok(())
    }

    /// The recipe, and a lock that pins what the recipe below it pins.
    fn write_recipe(&self, version: &str, port: u16) -> std::io::Result<()> {
        let recipes = self.project.join("recipes");
        fs::write(recipes.join("update.root.json"), self.repository.root())?;
        let recipe = format!(
            "inherit = \"{RECIPE}\"\nversion = \"{version}\"\n\n[pods]\nupdater = {{ component = \"updater\" }}\n\n[updates]\n\
             url = \"http://10.0.2.2:{port}\"\nroot = \"recipes/update.root.json\"\ninterval-s = 5\n"
        );
        fs::write(recipes.join(format!("{NAME}.toml")), recipe)?;
        let lock = fs::read_to_string(self.project.join(Lock::path(RECIPE)))?;
        let (was, is) = (format!("recipe = \"{RECIPE}\""), format!("recipe = \"{NAME}\""));
        fs::write(self.project.join(Lock::path(NAME)), lock.replacen(&was, &is, 1))
    }

    fn uki(&self) -> Result<Vec<u8>> {
        let path = self.project.join("out").join(NAME).join(UKI);
        fs::read(&path).or_build(|| format!("cannot read `{}`", path.display()))
    }

    /// slotboot as it stands on the image, with a second signature: so it is another file, which the firmware starts as well.
    fn boot_program(&self) -> Result<Vec<u8>> {
        let image = self.project.join("out").join(NAME).join("image.raw");
        let signer = Keys::named(&self.project, DEV)?.signer(Role::Db)?;
        Ok(Signed::by(&signer, EfiProgram(self.from_system(&image)?))?.into_inner().0)
    }

    /// What mtools find on the system partition, which is the first, as the program that firmware starts.
    fn from_system(&self, image: &Path) -> Result<Vec<u8>> {
        let copy = tempfile::NamedTempFile::new().or_build(|| "cannot make a file".to_owned())?;
        let partition = format!("{}@@{ALIGNMENT}", image.display());
        let mut mcopy = Command::new("mcopy");
        mcopy.args(["-n", "-o", "-i", &partition]).arg(format!("::/{}", removable_path(Architecture::Amd64))).arg(copy.path());
        self.site.finish("update-mcopy", &mut mcopy)?;
        fs::read(copy.path()).or_build(|| "cannot read what mcopy wrote".to_owned())
    }

    /// Others find on the disk what the release has, and both slots good, the new one first.
    fn is_installed(&self, disk: &Disk, uki: &[u8], boot: &[u8]) -> Result<()> {
        disk.is_sound()?;
        disk.is(A, State { priority: 1, tries: 0, successful: true })?;
        disk.is(B, State { priority: 2, tries: 0, successful: true })?;
        let slot = disk.read(disk.start(B)?, HEADER_SIZE + uki.len() as u64)?;
        let header = Header::parse(&slot).or_build(|| "SLOT-B has no header".to_owned())?;
        if header.version != NEW || slot[HEADER_SIZE as usize..] != *uki {
            return Err(Error::build("SLOT-B does not hold the release"));
        }
        if self.from_system(&disk.path())? != boot {
            return Err(Error::build("the system partition does not hold the release's slotboot"));
        }
        let system = tempfile::NamedTempFile::new().or_build(|| "cannot make a file".to_owned())?;
        let length = disk.start(A)? - ALIGNMENT;
        fs::write(system.path(), disk.read(ALIGNMENT, length)?).or_build(|| "cannot copy the system partition".to_owned())?;
        self.site.finish("update-fsck", Command::new("fsck.fat").arg("-n").arg(system.path())).map(drop)
    }

    /// How many seconds `dd` takes to put the same bytes onto this machine's disk.
    fn plain_copy(&self, uki: &[u8]) -> Result<f64> {
        let (from, to) = (self.project.join("out").join(NAME).join(UKI), self.project.join("out/plain-copy"));
        fs::write(&to, vec![0; uki.len()]).or_build(|| "cannot write a file".to_owned())?;
        let started = Instant::now();
        let mut dd = Command::new("dd");
        dd.arg(format!("if={}", from.display())).arg(format!("of={}", to.display()));
        self.site.finish("update-dd", dd.args(["bs=1M", "conv=notrunc,fsync", "status=none"]))?;
        let took = started.elapsed().as_secs_f64();
        fs::remove_file(&to).or_build(|| "cannot remove a file".to_owned())?;
        Ok(took)
    }
}

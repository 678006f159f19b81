//! A copy of the checkout with a recipe whose node updates itself, and the repository of its
//! releases.

use super::old_release;
use crate::image::{self, ARM64};
use crate::recipe;
use crate::site::Site;
use crate::vm::machine::HOST;
use crate::vm::probe;
use osbuild::error::{Context, Result};
use osbuild::plan::Architecture;
use osbuild::produce::image::removable_path;
use osbuild::produce::out::UKI;
use osbuild::produce::sign::{EfiProgram, Signed};
use osbuild::ship::keys::{Keys, Role};
use osbuild_abi::disk::ALIGNMENT;
use osbuild_abi::paths::UPDATE_SEEN;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The recipe, and the folder of the copy.
pub const NAME: &str = "update";

/// The keys. Development keys sign no release.
const KEYS: &str = "ours";

/// The recipe's file with the certificate of the web server's CA.
const AUTHORITY: &str = "recipes/web-ca.crt";

/// The same in the folder of the web server.
const CA: &str = "ca.crt";

/// A file of the copy that takes the place of one of the image.
const OTHER_FILE: &str = "recipes/other-file";

/// The board of the recipe with amd64, and its key for the time until a slot must be good.
const BOARD: &str = "boards/qemu-amd64.toml";
const GATE_DEADLINE: &str = "gate-deadline-s = ";

/// The folder of the copy in which images are built once more.
const AGAIN: &str = "update-again";

/// The web server's host name.
pub const SERVER: &str = "updates.example";

/// Where the node looks for releases.
#[derive(Clone, Copy)]
pub enum Releases {
    /// On [`SERVER`] at this port, by HTTPS.
    Web(u16),
    /// In a folder that an administrator's pod fills.
    Folder,
}

/// The copy.
pub struct Lab<'a> {
    site: &'a Site<'a>,
    project: PathBuf,
    /// The `osbuild` of another release, if the copy is of that release.
    osbuild: Option<PathBuf>,
    repository: PathBuf,
    architecture: Architecture,
    /// The kubelet is of the minor after the peg.
    has_next_kubelet: bool,
    /// The node has the pod `osd`.
    has_osd: bool,
    /// A line of the recipe's `[files]`.
    other_file: String,
}

impl<'a> Lab<'a> {
    /// The copy in the folder `name` that an earlier check made.
    pub fn existing(site: &'a Site<'a>, name: &str) -> Self {
        let project = site.root.join("out/ci").join(name);
        Lab {
            site,
            repository: project.join("repository"),
            project,
            osbuild: None,
            architecture: Architecture::Amd64,
            has_next_kubelet: false,
            has_osd: false,
            other_file: String::new(),
        }
    }

    /// A new copy with new keys.
    pub fn new(site: &'a Site<'a>, name: &str) -> Result<Self> {
        let lab = Lab::existing(site, name);
        site.copy_to(&lab.project)?;
        lab.with_new_keys()
    }

    /// A new checkout of an old release with new keys, in the folder `name`.
    pub fn of_old_release(site: &'a Site<'a>, name: &str) -> Result<Self> {
        let lab = Lab::existing(site, name);
        let osbuild = Some(old_release::check_out(site, &lab.project)?);
        Lab { osbuild, ..lab }.with_new_keys()
    }

    /// A new copy with the keys and the repository of another lab.
    pub fn beside(site: &'a Site<'a>, name: &str, other: &Lab) -> Result<Self> {
        let lab = Lab::existing(site, name);
        site.copy_to(&lab.project)?;
        let mut cp = Command::new("cp");
        cp.arg("-rp").arg(other.project.join("keys").join(KEYS)).arg(lab.project.join("keys"));
        site.finish("update-keys", &mut cp)?;
        Ok(Lab { repository: other.repository.clone(), ..lab })
    }

    /// A new copy of today's checkout with the keys of this lab and the CA of its web server: it
    /// builds the images that this lab would build today.
    pub fn again(&self) -> Result<Self> {
        let lab = Lab::beside(self.site, AGAIN, self)?;
        let [from, to] = [self, &lab].map(|lab| lab.web());
        fs::create_dir_all(&to)
            .and_then(|()| fs::copy(from.join(CA), to.join(CA)))
            .or_build(|| format!("cannot copy `{CA}`"))?;
        Ok(Lab { architecture: self.architecture, has_osd: self.has_osd, ..lab })
    }

    /// Removes the copy.
    pub fn remove(self) -> Result<()> {
        let removed = fs::remove_dir_all(&self.project);
        removed.or_build(|| format!("cannot remove `{}`", self.project.display()))
    }

    fn with_new_keys(self) -> Result<Self> {
        fs::create_dir(&self.repository).or_build(|| "cannot make a folder".to_owned())?;
        self.osbuild(&["keys", "new", KEYS])?;
        Ok(self)
    }

    /// Builds for nodes with this processor.
    pub fn with(self, architecture: Architecture) -> Self {
        Lab { architecture, ..self }
    }

    /// Builds from now on for nodes with the kubelet of the minor after the peg.
    pub fn with_next_kubelet(self) -> Self {
        Lab { has_next_kubelet: true, ..self }
    }

    /// Builds for nodes with the pod `osd`.
    pub fn with_osd(self) -> Self {
        Lab { has_osd: true, ..self }
    }

    /// Builds from now on images in which the file at this path has this text.
    pub fn with_file(self, path: &str, text: &str) -> Result<Self> {
        let written = fs::write(self.project.join(OTHER_FILE), text);
        written.or_build(|| format!("cannot write `{OTHER_FILE}`"))?;
        let other_file = format!("\"{path}\" = {{ source = \"{OTHER_FILE}\", mode = 0o644 }}\n");
        Ok(Lab { other_file, ..self })
    }

    /// Builds from now on images that have to be good within so many seconds after power-on.
    pub fn with_gate_deadline(self, seconds: u32) -> Result<Self> {
        let file = self.project.join(BOARD);
        let cannot = || format!("cannot change `{BOARD}`");
        let text = fs::read_to_string(&file).or_build(cannot)?;
        fs::write(&file, with_deadline(&text, seconds)).or_build(cannot)?;
        Ok(self)
    }

    /// The path of a check's file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.project.join("out").join(name)
    }

    /// The folder of the repository.
    pub fn repository(&self) -> &Path {
        &self.repository
    }

    /// The keys that sign image and release.
    pub fn keys(&self) -> Result<Keys> {
        Keys::named(&self.project, KEYS)
    }

    /// The folder of the last build.
    pub fn out(&self) -> PathBuf {
        self.project.join("out").join(NAME)
    }

    /// The image of the last build.
    pub fn image(&self) -> PathBuf {
        self.out().join("image.raw")
    }

    /// The UKI of the last build.
    pub fn uki(&self) -> Result<Vec<u8>> {
        fs::read(self.out().join(UKI)).or_build(|| "cannot read the UKI".to_owned())
    }

    /// The folder with the keys and certificates of the web server.
    pub fn web(&self) -> PathBuf {
        self.file("web")
    }

    /// Writes the recipe as this version.
    pub fn write_recipe(&self, version: &str, releases: Releases) -> Result<()> {
        let (base, probe) = match self.architecture {
            Architecture::Amd64 if self.has_next_kubelet => (probe::NEXT_RECIPE, ""),
            Architecture::Amd64 => (probe::RECIPE, ""),
            Architecture::Arm64 => (ARM64, "probe = { component = \"probe\" }\n"),
        };
        let (url, mut files) = match releases {
            Releases::Web(port) => (format!("https://{SERVER}:{port}"), self.trust_the_server()?),
            Releases::Folder => (format!("file://{UPDATE_SEEN}/repository"), String::new()),
        };
        files.push_str(&self.other_file);
        let heading = if files.is_empty() { "" } else { "\n[files]\n" };
        let osd = if self.has_osd { "osd = { component = \"osd\" }\n" } else { "" };
        let more = format!(
            "version = \"{version}\"\n\n[signing]\nkey = \"{KEYS}\"\n\n\
             [pods]\nupdater = {{ component = \"updater\" }}\n{osd}{probe}\n\
             [updates]\nurl = \"{url}\"\nroot = \"keys/{KEYS}/root.json\"\ninterval-s = 10\n\
             {heading}{files}"
        );
        recipe::inherit_with(self.site, self.command()?, &self.project, NAME, base, &more)
    }

    /// Copies the server's CA beside the recipe, and returns the recipe's lines that add it to the
    /// image's trusted CAs and let the probe resolve the server's name.
    fn trust_the_server(&self) -> Result<String> {
        fs::copy(self.web().join(CA), self.project.join(AUTHORITY))
            .or_build(|| format!("cannot write `{AUTHORITY}`"))?;
        let authority = format!("{{ source = \"{AUTHORITY}\", mode = 0o644 }}");
        let names = format!("{{ text = \"{SERVER} {HOST}\\n\", mode = 0o644 }}");
        Ok(format!(
            "\"/etc/ssl/certs/ours.crt\" = {authority}\n\
             \"/usr/share/osbuild/probe-names\" = {names}\n"
        ))
    }

    /// Builds the image. An old release may have locked packages that are gone from the archive.
    pub fn build(&self) -> Result<()> {
        let renew = |gone: &BTreeSet<String>| {
            let mut osbuild = self.command()?;
            osbuild.arg("update").args(gone).arg("--yes");
            self.site.finish("update-renew", &mut osbuild).map(drop)
        };
        image::build_with_renewals(self.site, NAME, || self.command(), renew)
    }

    /// Builds the image, and publishes it in the channel that the node follows.
    pub fn release(&self) -> Result<()> {
        self.publish(&[])
    }

    /// The same, for nodes that the rollout's file names.
    pub fn release_by(&self, rollout: &str) -> Result<()> {
        let file = self.file("rollout.toml");
        fs::write(&file, rollout).or_build(|| "cannot write the rollout".to_owned())?;
        self.publish(&["--rollout", &file.display().to_string()])
    }

    /// Lets all nodes have the release.
    pub fn release_to_all(&self) -> Result<()> {
        self.publish(&["--rollout", "all"])
    }

    fn publish(&self, flags: &[&str]) -> Result<()> {
        let folder = self.repository.display().to_string();
        let words = ["release", NAME, "--channel", "stable", "--to", &folder, "--yes"];
        self.osbuild(&[&words, flags].concat())
    }

    /// Keeps the image as the one that the node boots first.
    pub fn keep_old(&self) -> Result<()> {
        let old = self.old();
        fs::create_dir_all(&old).or_build(|| format!("cannot make `{}`", old.display()))?;
        crate::disk_file::copy(self.site, &self.image(), &old)
    }

    /// The folder of that image.
    pub fn old(&self) -> PathBuf {
        self.file("old")
    }

    /// Replaces the image's boot program with one that differs and is trusted as well: it is signed
    /// twice.
    pub fn replace_boot_program(&self) -> Result<()> {
        let program = EfiProgram(self.boot_program(&self.image())?);
        let twice = Signed::by(&self.keys()?.signer(Role::Db)?, program)?.into_inner().0;
        let file = self.file("boot.efi");
        fs::write(&file, twice).or_build(|| "cannot write the boot program".to_owned())?;
        let mut mcopy = self.mcopy(&self.image());
        self.site.finish("update-mcopy", mcopy.arg(&file).arg(self.on_system())).map(drop)
    }

    /// The boot program on the system partition of a disk, as mtools reads it.
    pub fn boot_program(&self, disk: &Path) -> Result<Vec<u8>> {
        let file = self.file("boot.efi");
        self.site.finish("update-mcopy", self.mcopy(disk).arg(self.on_system()).arg(&file))?;
        fs::read(&file).or_build(|| "cannot read the copy of the boot program".to_owned())
    }

    /// The seconds that `dd` takes to write the UKI to this host's disk.
    pub fn plain_copy(&self) -> Result<f64> {
        let (from, to) = (self.out().join(UKI), self.file("plain-copy"));
        let started = Instant::now();
        let mut dd = Command::new("dd");
        dd.arg(format!("if={}", from.display())).arg(format!("of={}", to.display()));
        self.site.finish("update-dd", dd.args(["bs=1M", "conv=fsync", "status=none"]))?;
        let took = started.elapsed().as_secs_f64();
        fs::remove_file(&to).or_build(|| "cannot remove a file".to_owned())?;
        Ok(took)
    }

    /// The boot program's path for mtools.
    fn on_system(&self) -> String {
        format!("::/{}", removable_path(self.architecture))
    }

    fn mcopy(&self, disk: &Path) -> Command {
        let mut mcopy = Command::new("mcopy");
        // The system partition is the first.
        mcopy.args(["-n", "-o", "-i", &format!("{}@@{ALIGNMENT}", disk.display())]);
        mcopy
    }

    fn osbuild(&self, words: &[&str]) -> Result<()> {
        let log = format!("{NAME}-{}", words[0]);
        self.site.finish(&log, self.command()?.args(words)).map(drop)
    }

    /// The program `osbuild` of the copy's release, in the copy.
    fn command(&self) -> Result<Command> {
        let mut osbuild = match &self.osbuild {
            Some(program) => Command::new(program),
            None => self.site.osbuild()?,
        };
        osbuild.current_dir(&self.project);
        Ok(osbuild)
    }
}

/// The text of a board with another time until a slot must be good.
fn with_deadline(board: &str, seconds: u32) -> String {
    let line = |line: &str| match line.starts_with(GATE_DEADLINE) {
        true => format!("{GATE_DEADLINE}{seconds}\n"),
        false => format!("{line}\n"),
    };
    board.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_board_of_the_lab_gets_another_deadline() {
        let board = include_str!("../../../../boards/qemu-amd64.toml");
        let changed = with_deadline(board, 17);
        let deadlines = |text: &str| {
            let lines = text.lines().filter(|line| line.starts_with(GATE_DEADLINE));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(deadlines(&changed), ["gate-deadline-s = 17"]);
        let others = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with(GATE_DEADLINE));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(others(&changed), others(board));
    }
}

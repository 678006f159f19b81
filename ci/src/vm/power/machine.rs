//! The machine whose writes are recorded, and those that boot from what a power cut left.

use super::SYNCED;
use crate::site::Site;
use crate::vm::inside::PROBE;
use crate::vm::machine;
use crate::vm::node::free_port;
use osbuild::error::{Context, Error, Result};
use osbuild::produce::digest::Digest;
use osbuild::ship::keys::{DEV, Keys};
use osbuild::ship::machine::Forward;
use osbuild::ship::run::{RunOptions, start};
use osbuild_abi::console::{SLOT, SLOT_GOOD};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where the probe takes the number of files to write.
const PORT: u16 = 7073;

/// Size of the disk in bytes: more than the image's, so that DATA grows.
const SIZE: u64 = 1 << 30;

/// How long a node may take to get good.
const PATIENCE: Duration = Duration::from_secs(300);

/// A node's first boot, recorded.
pub struct Session<'a> {
    site: &'a Site<'a>,
    image: PathBuf,
    folder: PathBuf,
}

impl<'a> Session<'a> {
    /// Boots the node with the probe from a new disk until its slot is a good one, and has the probe write its files. A recording of the
    /// same image for as many cuts is taken as it is.
    pub fn record(site: &'a Site<'a>, cuts: usize) -> Result<Self> {
        site.finish("power-build", site.osbuild()?.args(["build", PROBE, "--yes"]))?;
        let image = site.project().join("out").join(PROBE).join("image.raw");
        let digest = Digest::of_file(&image)?.to_string();
        let name = digest.rsplit(':').next().unwrap_or_default();
        let session = Session { site, image, folder: site.root.join("out/ci/power").join(format!("{cuts}-{name}")) };
        if !session.log().exists() {
            session.run()?;
        }
        Ok(session)
    }

    /// What the machine wrote.
    pub fn log(&self) -> PathBuf {
        self.folder.join("recording")
    }

    /// The numbers of the cuts that were found good.
    pub fn done(&self) -> PathBuf {
        self.folder.join("done")
    }

    /// The folder for all that is large.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Size of the disk before it was made larger, in bytes.
    pub fn size(&self) -> Result<u64> {
        Ok(fs::metadata(&self.image).or_build(|| format!("cannot read `{}`", self.image.display()))?.len())
    }

    /// Removes all of it.
    pub fn end(&self) -> Result<()> {
        fs::remove_dir_all(&self.folder).or_build(|| format!("cannot remove `{}`", self.folder.display()))
    }

    fn run(&self) -> Result<()> {
        fs::create_dir_all(&self.folder).or_build(|| format!("cannot make `{}`", self.folder.display()))?;
        let (disk, part) = (self.copy("recorded.raw")?, self.folder.join("part"));
        let port = free_port()?;
        let options = RunOptions {
            keep: Some(disk.clone()),
            record: Some(part.clone()),
            forwards: vec![Forward { host: port, node: PORT }],
            ..self.options(&disk, "power-recorded")?
        };
        let mut node = start(self.site.report, &options)?;
        node.ready(options.timeout)?;
        write_files(port)?;
        node.hear(SLOT_GOOD, PATIENCE)?;
        node.power_off()?;
        fs::remove_file(&disk).and_then(|()| fs::rename(part, self.log())).or_build(|| "cannot keep the recording".to_owned())
    }

    /// The disk as it was before the first boot.
    pub fn before(&self) -> Result<PathBuf> {
        self.copy("disk.raw")
    }

    /// Boots from the disk, which stays as it is: the node has to get ready, and its slot has to be a good one.
    pub fn boot(&self, disk: &Path) -> Result<()> {
        let options = self.options(disk, "power-booted")?;
        let mut node = start(self.site.report, &options)?;
        node.ready(options.timeout)?;
        let said = fs::read_to_string(&options.log).or_build(|| format!("cannot read `{}`", options.log.display()))?;
        if said.lines().any(|line| line.contains(SLOT) && line.contains("on trial")) {
            node.hear(SLOT_GOOD, PATIENCE)?;
        }
        node.power_off()
    }

    fn options(&self, image: &Path, log: &str) -> Result<RunOptions> {
        Ok(RunOptions {
            trust: Some(Keys::named(&self.site.project(), DEV)?.trust()?),
            timeout: Some(PATIENCE),
            ..machine::options(self.site, image.to_owned(), log)
        })
    }

    fn copy(&self, name: &str) -> Result<PathBuf> {
        let to = self.folder.join(name);
        let mut copy = Command::new("cp");
        copy.arg("--sparse=always").arg(&self.image).arg(&to);
        self.site.finish("power-copy", &mut copy)?;
        let grow = File::options().write(true).open(&to).and_then(|file| file.set_len(SIZE));
        grow.or_build(|| format!("cannot grow `{}`", to.display()))?;
        Ok(to)
    }
}

/// Has the probe write its files, and comes back when they are on the disk.
fn write_files(port: u16) -> Result<()> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "{SYNCED}")?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    match ask().or_build(|| "cannot ask the probe".to_owned())?.as_str() {
        "ok\n" => Ok(()),
        answer => Err(Error::build("the probe cannot write its files").cause(answer.trim())),
    }
}

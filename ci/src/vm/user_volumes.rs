//! A node gives its second disk and a folder of DATA to pods, and leaves its third disk as it is.

use super::data::Data;
use super::node::NodeUnderTest;
use super::probe;
use super::settings::Lab;
use super::settings::node::yaml;
use crate::check::Outcome;
use crate::disk_file;
use crate::site::Site;
use osbuild::error::{Context, Result};
use osbuild_abi::paths::ADMIN_SOCKET;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const VOLUMES: &str = "Volumes";
const STATUSES: &str = "VolumeStatuses";

/// The recipe's own lines: who writes settings, and the folder that a static pod may have.
const RECIPE: &str = "\n[pods]\nosd = { component = \"osd\" }\n\n[api]\nclients = \
     \"keys/dev/api.crt\"\nstatic-pods = [\"host-network\", \"host-path=/var/mnt/db\"]\n";

/// The size of the blank disk in bytes. It has more groups than one block of descriptors describes.
const SIZE: u64 = 20 << 30;

/// The specs of the volume, of one on a disk with something else, and of one without a disk.
const DB: &str = "{name: db, disk: {serial: volume-1}}";
const FOREIGN: &str = "{name: foreign, disk: {serial: foreign-1}}";
const MISSING: &str = "{name: missing, disk: {serial: volume-2}}";

/// The spec of a folder, a file there, and its mount.
const MODELS: &str = "{name: models, folder: true}";
const MODELS_FILE: &str = "/var/mnt/models/kept";
const MODELS_POINT: &str = " /var/mnt/models ext4 ";

/// The node document that asks for the same volume.
const DOCUMENT_FILE: &str = "osbuild/node.toml";
const DOCUMENT: &str = "[[volumes]]\nname = \"db\"\ndisk = { serial = \"volume-1\" }\n";

/// A pod that uses the volume.
const POD: &str = "{name: user, hostNetwork: true, terminationGracePeriodSeconds: 2, volumes: \
     [{name: db, hostPath: {path: /var/mnt/db}}], containers: [{name: ends, image: \
     localhost/probe:1, imagePullPolicy: Never, args: [ends], volumeMounts: [{name: db, mountPath: \
     /db}]}]}";

/// A file on the volume, and its text.
const FILE: &str = "/var/mnt/db/kept";
const TEXT: &str = "written before the reboot";

/// The mount of the volume in the table of PID 1, and the options that it has at least.
const MOUNTS: &str = "/proc/1/mounts";
const POINT: &str = " /var/mnt/db ext4 ";
const OPTIONS: &str = "rw,nosuid,nodev,noexec,noatime";

/// A resource has a blank disk formatted and mounted for pods. Its files outlast a reboot, and the
/// resource's end, after which a node document asks for it. A disk with another file system is
/// refused and not written to, and one that is missing is waited for. A volume in use is unmounted
/// once its pod has ended. A folder of DATA keeps its files as well.
pub fn a_blank_disk_becomes_a_volume_and_no_other(site: &Site) -> Result<Outcome> {
    let lab = Lab::with(site, "user-volumes", |_| Ok(RECIPE.to_owned()))?;
    let disks = Disks::new(&lab)?;
    let mut outcome = Outcome::default();

    let mut running = disks.boot(&lab, "first")?;
    is_formatted(&lab, &mut outcome)?;
    refuses_others(&lab, &mut outcome)?;
    is_a_folder_of_data(&lab, &mut outcome)?;
    probe::ask_init(lab.node.sockets, ADMIN_SOCKET, &"power-off")?;
    running.end()?;
    // Its disk is free now.
    drop(running);
    disks.is_sound(site, &mut outcome)?;
    let is_same = fs::read(&disks.foreign).or_build(|| "cannot read a disk".to_owned())?;
    outcome.check("a disk with a file system is not written to", is_same == disks.before, || {
        "it has changed".into()
    });

    let running = disks.boot(&lab, "again")?;
    outlasts_a_reboot(&lab, &mut outcome)?;
    a_folder_outlasts_its_resource(&lab, &mut outcome)?;
    waits_for_its_pod(&lab, &mut outcome)?;
    running.power_off()?;

    let data = Data::of(site, lab.disk.path())?;
    data.write(&[DOCUMENT_FILE], DOCUMENT)?;
    data.put_into(lab.disk.path())?;
    let running = disks.boot(&lab, "document")?;
    let holds = |yaml: &str| yaml.contains("phase: mounted") && yaml.contains("setBy: document");
    let status = lab.node.resource_with(STATUSES, "db", holds)?;
    outcome
        .check("the node document asks for a volume", holds(yaml(&status)), || status.to_string());
    has_file(&lab, "its data stay without its resource", &mut outcome)?;
    running.power_off()?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// The second and the third disk of the node.
struct Disks {
    blank: PathBuf,
    foreign: PathBuf,
    /// The bytes of the third one.
    before: Vec<u8>,
}

impl Disks {
    fn new(lab: &Lab) -> Result<Disks> {
        let folder = lab.project.join("out");
        fs::create_dir_all(&folder).or_build(|| "cannot make a folder".to_owned())?;
        let path = |name: &str| folder.join(name);
        let (blank, foreign) = (path("blank.raw"), path("foreign.raw"));
        disk_file::create(&blank, SIZE)?;
        disk_file::create(&foreign, 320 << 20)?;
        let mut make = Command::new("mkfs.xfs");
        lab.site.finish("user-volumes-xfs", make.args(["-q", "-L", "archive"]).arg(&foreign))?;
        let before = fs::read(&foreign).or_build(|| "cannot read a disk".to_owned())?;
        Ok(Disks { blank, foreign, before })
    }

    /// Boots the node with both, and waits for `osd`.
    fn boot<'a>(&self, lab: &Lab<'a>, boot: &str) -> Result<NodeUnderTest<'a>> {
        let disk = |id: &str, path: &PathBuf, serial: &str| {
            let drive = format!("if=none,id={id},format=raw,file={}", path.display());
            let device = format!("virtio-blk-pci,drive={id},serial={serial}");
            ["-drive".to_owned(), drive, "-device".to_owned(), device]
        };
        let machine = lab.machine(boot)?.arguments(disk("blank", &self.blank, "volume-1"));
        let running = machine.arguments(disk("foreign", &self.foreign, "foreign-1")).boot()?;
        lab.node.resource("HostnameStatuses", "node")?;
        Ok(running)
    }

    /// The file system that the node has made, and the shutdown has unmounted, is that of the whole
    /// disk.
    fn is_sound(&self, site: &Site, outcome: &mut Outcome) -> Result<()> {
        let mut e2fsck = Command::new("/sbin/e2fsck");
        let checked = site.run("user-volumes-fsck", e2fsck.args(["-f", "-n"]).arg(&self.blank))?;
        outcome.check("e2fsck finds nothing wrong", checked.code == Some(0), || checked.output);
        let mut dumpe2fs = Command::new("/sbin/dumpe2fs");
        let shown = site.finish("user-volumes-dump", dumpe2fs.arg("-h").arg(&self.blank))?.output;
        let blocks = format!("Block count:              {}", SIZE / 4096);
        outcome.check("the file system has grown to its disk", shown.contains(&blocks), || {
            shown.clone()
        });
        Ok(())
    }
}

fn is_formatted(lab: &Lab, outcome: &mut Outcome) -> Result<()> {
    let disk = lab.node.resource("DeviceInfos", "disk/vdb")?;
    let parts = ["serial: volume-1\n", &format!("bytes: {SIZE}\n"), "- virtio_blk\n"];
    let holds = parts.iter().all(|part| yaml(&disk).contains(part));
    outcome.check("a disk is shown with its serial number", holds, || disk.to_string());
    lab.node.create(VOLUMES, "db", DB)?;
    let expected = format!("path: /var/mnt/db\ndevice: vdb\nbytes: {SIZE}\nsetBy: api\n");
    let holds = |yaml: &str| yaml.contains("phase: mounted\n") && yaml.contains(&expected);
    has_status(lab, "db", holds, "a blank disk becomes a volume", outcome)?;
    let mounts = lab.node.read(MOUNTS)?;
    let mount = mounts.lines().find(|line| line.contains(POINT)).unwrap_or_default();
    outcome.check("it allows no devices and programs", mount.contains(OPTIONS), || mounts.clone());
    lab.node.write(FILE, TEXT)?;
    let beside = lab.node.write("/var/mnt/other", TEXT).err();
    let beside = beside.map_or("a file was written".to_owned(), |error| error.to_string());
    let is_refused = beside.contains("Read-only file system");
    outcome.check("nothing can be written beside it", is_refused, || beside);
    Ok(())
}

fn refuses_others(lab: &Lab, outcome: &mut Outcome) -> Result<()> {
    for (id, spec, parts, claim) in [
        ("foreign", FOREIGN, ["phase: refused", "has an xfs `archive` file system"], "is refused"),
        ("missing", MISSING, ["phase: waiting", "vdb has `volume-1`"], "is waited for"),
    ] {
        lab.node.create(VOLUMES, id, spec)?;
        let holds = |yaml: &str| parts.iter().all(|part| yaml.contains(part));
        has_status(lab, id, holds, &format!("a disk that is {id} {claim}"), outcome)?;
        lab.node.destroy(VOLUMES, id)?;
    }
    Ok(())
}

fn is_a_folder_of_data(lab: &Lab, outcome: &mut Outcome) -> Result<()> {
    lab.node.create(VOLUMES, "models", MODELS)?;
    let parts = ["phase: mounted\n", "path: /var/mnt/models\n", "setBy: api\n"];
    let holds = |yaml: &str| parts.iter().all(|part| yaml.contains(part));
    has_status(lab, "models", holds, "a folder of DATA becomes a volume", outcome)?;
    let mounts = lab.node.read(MOUNTS)?;
    let mount = mounts.lines().find(|line| line.contains(MODELS_POINT)).unwrap_or_default();
    let claim = "a folder allows no devices and programs";
    outcome.check(claim, mount.contains(OPTIONS), || mounts.clone());
    lab.node.write(MODELS_FILE, TEXT)
}

fn a_folder_outlasts_its_resource(lab: &Lab, outcome: &mut Outcome) -> Result<()> {
    let has_file = |claim: &str, outcome: &mut Outcome| -> Result<()> {
        let holds = |yaml: &str| yaml.contains("phase: mounted\n");
        has_status(lab, "models", holds, "a folder is mounted", outcome)?;
        let text = lab.node.read(MODELS_FILE)?;
        outcome.check(claim, text == TEXT, || text.clone());
        Ok(())
    };
    has_file("the files of a folder outlast a reboot", outcome)?;
    lab.node.destroy(VOLUMES, "models")?;
    let is_gone = lab.node.is_gone(STATUSES, "models")?;
    outcome.check("a folder goes with its resource", is_gone, || "it has a status".into());
    lab.node.create(VOLUMES, "models", MODELS)?;
    has_file("the files of a folder outlast its resource", outcome)
}

fn outlasts_a_reboot(lab: &Lab, outcome: &mut Outcome) -> Result<()> {
    let holds = |yaml: &str| yaml.contains("phase: mounted\n") && yaml.contains("setBy: api\n");
    has_status(lab, "db", holds, "a volume is mounted again after a reboot", outcome)?;
    has_file(lab, "its data outlast a reboot", outcome)
}

fn has_file(lab: &Lab, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let text = lab.node.read(FILE)?;
    outcome.check(claim, text == TEXT, || text.clone());
    Ok(())
}

fn waits_for_its_pod(lab: &Lab, outcome: &mut Outcome) -> Result<()> {
    lab.node.create("StaticPods", "user", POD)?;
    let runs = |yaml: &str| yaml.contains("running: true");
    let status = lab.node.resource_with("StaticPodStatuses", "user", runs)?;
    outcome.check("a pod has the volume", runs(yaml(&status)), || status.to_string());
    lab.node.destroy(VOLUMES, "db")?;
    let leaves = |yaml: &str| yaml.contains("phase: leaving") && yaml.contains("in use by the pod");
    has_status(lab, "db", leaves, "a volume in use stays until its pod has ended", outcome)?;
    lab.node.destroy("StaticPods", "user")?;
    let is_gone = lab.node.is_gone(STATUSES, "db")?;
    outcome.check("then it is unmounted", is_gone, || "it has a status".into());
    let mounts = lab.node.read(MOUNTS)?;
    outcome.check("it is no mount any more", !mounts.contains(POINT), || mounts.clone());
    Ok(())
}

fn has_status(
    lab: &Lab,
    id: &str,
    holds: impl Fn(&str) -> bool,
    claim: &str,
    outcome: &mut Outcome,
) -> Result<()> {
    let status = lab.node.resource_with(STATUSES, id, &holds)?;
    outcome.check(claim, holds(yaml(&status)), || status.to_string());
    Ok(())
}

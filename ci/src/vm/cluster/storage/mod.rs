//! A storage driver (CSI), deployed as any other, mounts the volumes of pods.

use super::control_plane::ControlPlane;
use super::images;
use super::joining::{Ports, join};
use super::kubectl::Kubectl;
use super::lab::{DISK_MIB, SINGLE};
use super::node_api::NodeApi;
use super::registry::Registry;
use super::wait::{Seen, wait};
use super::{Cluster, serving, text};
use crate::check::Outcome;
use crate::recipe;
use crate::site::Site;
use crate::vm::kept_disk::KeptDisk;
use crate::vm::machine::Machine;
use crate::vm::probe::{self, free_port};
use osbuild::error::Result;
use osbuild_abi::osd::PORT;
use std::io::Write;
use std::time::Duration;

/// The objects of this check.
const DRIVER: &str = include_str!("driver.yaml");
const INLINE: &str = include_str!("inline.yaml");
const CLAIM: &str = include_str!("claim.yaml");
const KEPT: &str = include_str!("kept.yaml");

/// The driver's name, which is also the source of the mounts of its ephemeral volumes.
const NAME: &str = "storage.example.org";

/// The package with the driver, and the name of its image.
const PACKAGE: &str = "storage-driver";
const IMAGE: &str = "example/storage-driver";

/// The recipe, and the lines that it adds to that with a bridge for pods.
const RECIPE: &str = "storage-driver";
const PODS: &str = "
[pods]
probe = { component = \"probe\" }
osd = { component = \"osd\" }

[api]
clients = \"keys/dev/api.crt\"
";

/// Parts of the paths of mounts on the node: of the ephemeral volume in its pod, of the persistent
/// one in a pod, and of the latter for all pods.
const INLINE_MOUNT: &str = "/volumes/kubernetes.io~csi/made/mount ";
const KEPT_MOUNT: &str = "/volumes/kubernetes.io~csi/kept/mount ";
const STAGED_MOUNT: &str = "/plugins/kubernetes.io/csi/storage.example.org/";

/// The file of the ephemeral volume, and what is in there.
const READ_INLINE: [&str; 5] = ["exec", "inline", "--", "cat", "/made/greeting"];
const GREETING: &str = "from the driver for default/inline";

/// A pod writes this to the persistent volume.
const WRITES: &str = "echo from the first pod > /kept/file";
const WRITTEN: &str = "from the first pod";

/// The log of the driver, and its line when the kubelet has registered it.
const LOG: [&str; 3] = ["logs", "--namespace=kube-system", "daemonset/storage-driver"];
const REGISTERED: &str = "registered\n";

/// How long a claim may take to hold.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Pods have volumes of a storage driver: an ephemeral one, and one that outlives them. The mounts
/// that the driver makes in its pod reach the node and the pods, stay while the driver is away, and
/// end with the pods. The node API shows the driver. After a reboot the kubelet finds it again.
pub fn a_storage_driver_mounts_the_volumes_of_pods(site: &Site) -> Result<Outcome> {
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, outcome: Outcome::default() };
    let registry = Registry::start(site, cluster.plane.authority())?;
    registry.push_all(site, &[images::of_package(site, PACKAGE, IMAGE)?])?;
    let project = site.root.join("out/ci").join(RECIPE);
    site.copy_to(&project)?;
    recipe::inherit(site, &project, RECIPE, SINGLE, PODS)?;
    let disk = KeptDisk::in_project(&project, RECIPE)?;
    let ports = Ports { place: free_port()?, socket: free_port()? };
    let [files, kubelet, api] = [free_port()?, free_port()?, free_port()?];
    let machine = |log: &str| -> Result<Machine> {
        Ok(Machine::of_recipe_in(site, &project, RECIPE, log)?
            .keep(disk.path())
            .disk_size(DISK_MIB)
            .forward(ports.place, probe::PLACE)
            .forward(ports.socket, probe::SOCKET)
            .forward(files, probe::FILE)
            .forward(kubelet, serving::PORT)
            .forward(api, PORT))
    };
    let mut running = machine("storage-driver-first")?.boot()?;
    cluster.plane.egress().route(serving::ADDRESS, kubelet);
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    join(&cluster.plane, registry.node_files(cluster.plane.authority())?, &ports)?;
    let first = cluster.ready_node(&mut running, None)?;
    let name = text(&first, "/metadata/name").to_owned();
    let approved = serving::approved(&kubectl, &name)?;
    cluster.outcome.claim("the logs of pods are readable", approved);
    let node_api = NodeApi::new(site, &project, kubectl.file("node-api"))?;
    node_api.add_node(api, &mut running)?;
    let node = Node { kubectl, node_api, name, files };
    let outcome = &mut cluster.outcome;
    node.registers_the_driver(outcome, "")?;
    node.mounts_an_ephemeral_volume(outcome)?;
    node.keeps_a_persistent_volume(outcome)?;
    node.outlives_its_driver(outcome)?;
    node.kubectl.apply(INLINE)?;
    node.reads_the_volumes(outcome, "")?;
    running.power_off()?;

    let mut running = machine("storage-driver-again")?.boot()?;
    cluster.ready_node(&mut running, Some(&first))?;
    let outcome = &mut cluster.outcome;
    node.has_registered_the_driver(outcome, " after a reboot")?;
    node.reads_the_volumes(outcome, " after a reboot")?;
    node.releases_the_volumes(outcome)?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(cluster.outcome)
}

/// A node with the driver.
struct Node<'a> {
    kubectl: Kubectl<'a>,
    node_api: NodeApi<'a>,
    /// Its name in the cluster.
    name: String,
    /// The port of the loopback that leads to [`probe::FILE`].
    files: u16,
}

impl Node<'_> {
    /// Deploys the driver.
    fn registers_the_driver(&self, outcome: &mut Outcome, when: &str) -> Result<()> {
        self.kubectl.apply(DRIVER)?;
        self.has_registered_the_driver(outcome, when)
    }

    fn has_registered_the_driver(&self, outcome: &mut Outcome, when: &str) -> Result<()> {
        let claim = format!("the kubelet registers the driver{when}");
        self.kubectl.claim(outcome, TIMEOUT, &claim, &LOG, REGISTERED)?;
        let claim = format!("the cluster lists the driver{when}");
        self.kubectl.claim(outcome, TIMEOUT, &claim, &self.listed(), &format!("<{NAME}>"))?;
        let listens = |driver: &str| {
            driver.contains("registrationListens: true")
                && driver.contains("endpointListens: true")
                && !driver.contains("no process listens")
        };
        let claim = format!("the node API shows that the driver answers{when}");
        self.shows_the_driver(outcome, &claim, listens)
    }

    fn mounts_an_ephemeral_volume(&self, outcome: &mut Outcome) -> Result<()> {
        self.kubectl.apply(INLINE)?;
        let claim = "a pod reads what the driver has put into its volume";
        self.kubectl.claim(outcome, TIMEOUT, claim, &READ_INLINE, GREETING)?;
        let is_there = |mounts: &str| {
            let found = mounts.lines().find(|line| line.contains(INLINE_MOUNT));
            found.is_some_and(|line| line.contains(&format!(" - tmpfs {NAME} ")))
        };
        let claim = "a mount of the driver reaches the node";
        self.has_mounts(outcome, claim, is_there)?;
        self.kubectl.output(&["delete", "pod", "inline"])?;
        let claim = "the mount ends with its pod";
        self.has_mounts(outcome, claim, |mounts| !mounts.contains(INLINE_MOUNT))
    }

    /// One pod writes, and another one reads after the first was deleted.
    fn keeps_a_persistent_volume(&self, outcome: &mut Outcome) -> Result<()> {
        self.kubectl.apply(CLAIM)?;
        self.kubectl.apply(&KEPT.replace("POD", "first"))?;
        let write = ["exec", "first", "--", "bash", "-c", WRITES];
        let claim = "a pod writes to a persistent volume";
        self.kubectl.claim(outcome, TIMEOUT, claim, &write, "")?;
        let claim = "a persistent volume is mounted for the node, and from there for the pod";
        let are_there = |mounts: &str| mounts.contains(KEPT_MOUNT) && mounts.contains(STAGED_MOUNT);
        self.has_mounts(outcome, claim, are_there)?;
        self.kubectl.output(&["delete", "pod", "first"])?;
        let claim = "both mounts end with the last pod";
        let are_gone =
            |mounts: &str| !mounts.contains(KEPT_MOUNT) && !mounts.contains(STAGED_MOUNT);
        self.has_mounts(outcome, claim, are_gone)?;
        self.kubectl.apply(&KEPT.replace("POD", "second"))?;
        let claim = "a persistent volume keeps its files when its pod is deleted";
        self.reads_the_persistent_volume(outcome, claim)
    }

    /// The driver goes away and comes back while pods have its volumes.
    fn outlives_its_driver(&self, outcome: &mut Outcome) -> Result<()> {
        self.kubectl.apply(INLINE)?;
        self.kubectl.claim(outcome, TIMEOUT, "another pod has a volume", &READ_INLINE, GREETING)?;
        let delete = ["delete", "daemonset/storage-driver", "--namespace=kube-system"];
        self.kubectl.output(&[&delete[..], &["--cascade=foreground"]].concat())?;
        let claim = "a driver that has gone is not on the cluster's list";
        self.kubectl.claim(outcome, TIMEOUT, claim, &self.listed(), "<>")?;
        let is_dead = |driver: &str| {
            driver.contains("endpointListens: false") && driver.contains("no process listens at")
        };
        let claim = "the node API shows that the driver has gone";
        self.shows_the_driver(outcome, claim, is_dead)?;
        self.reads_the_volumes(outcome, " while the driver is away")?;
        self.registers_the_driver(outcome, " again")?;
        self.kubectl.output(&["delete", "pod", "inline"])?;
        let claim = "the driver ends a mount that it made before it went";
        self.has_mounts(outcome, claim, |mounts| !mounts.contains(INLINE_MOUNT))
    }

    fn reads_the_volumes(&self, outcome: &mut Outcome, when: &str) -> Result<()> {
        let claim = format!("a pod reads its ephemeral volume{when}");
        self.kubectl.claim(outcome, TIMEOUT, &claim, &READ_INLINE, GREETING)?;
        let claim = format!("a pod reads its persistent volume{when}");
        self.reads_the_persistent_volume(outcome, &claim)
    }

    fn reads_the_persistent_volume(&self, outcome: &mut Outcome, claim: &str) -> Result<()> {
        let read = ["exec", "second", "--", "cat", "/kept/file"];
        self.kubectl.claim(outcome, TIMEOUT, claim, &read, WRITTEN)
    }

    /// All mounts end, those from before the reboot too.
    fn releases_the_volumes(&self, outcome: &mut Outcome) -> Result<()> {
        self.kubectl.output(&["delete", "pod", "inline", "second"])?;
        let are_gone = |mounts: &str| {
            [INLINE_MOUNT, KEPT_MOUNT, STAGED_MOUNT].iter().all(|path| !mounts.contains(path))
        };
        self.has_mounts(outcome, "no mount is left in the end", are_gone)
    }

    /// The words of `kubectl` that show the drivers of the node, in angle brackets.
    fn listed(&self) -> [&str; 5] {
        let names = "jsonpath=<{.spec.drivers[*].name}>";
        ["get", "csinode", &self.name, "-o", names]
    }

    /// Claims that the node API shows the driver as `is_so` says, sooner or later.
    fn shows_the_driver(
        &self,
        outcome: &mut Outcome,
        claim: &str,
        is_so: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let holds = wait(TIMEOUT, || {
            let ran = self.node_api.run(&["get", "storagedrivers", NAME, "-o", "yaml"])?;
            let is_so = ran.code == Some(0) && is_so(&ran.output);
            Ok(if is_so { Seen::Yes(()) } else { Seen::NotYet(ran.output) })
        })?;
        outcome.claim(claim, holds);
        Ok(())
    }

    /// Claims that the table of mounts of PID 1 is as `is_so` says, sooner or later.
    fn has_mounts(
        &self,
        outcome: &mut Outcome,
        claim: &str,
        is_so: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let holds = wait(TIMEOUT, || {
            let request = |stream: &mut std::net::TcpStream| stream.write_all(b"/proc/1/mountinfo");
            let mounts = probe::request(self.files, request)?;
            Ok(if is_so(&mounts) { Seen::Yes(()) } else { Seen::NotYet(mounts) })
        })?;
        outcome.claim(claim, holds);
        Ok(())
    }
}

//! A disk that is full.

use super::Faults;
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::cluster::lab::Lab;
use crate::vm::data::Data;
use osbuild::error::Result;
use std::time::Duration;

/// A pod without privileges that uses up all space.
const FILLER: &str = include_str!("filler.yaml");

/// Uses up all inodes, of which ext4 reserves none.
const USE_INODES: &str = "mkdir -p /data/kubelet/filler && cat /dev/zero | \
    split --bytes=1 --suffix-length=6 - /data/kubelet/filler/file; df -i /data";

/// The containers of the node's own pods.
const OWN: &str = "get pods -n kube-system -o \
    jsonpath={.items[*].status.containerStatuses[*].containerID}";

/// Whether the cluster shows that the disk is full.
const PRESSURE: &str =
    "get node NODE -o jsonpath={.status.conditions[?(@.type==\"DiskPressure\")].status}";

/// How long the node is watched while its disk is full.
const WATCHED: Duration = Duration::from_secs(60);

/// A pod uses up all space, and then another one all inodes. The node's own pods go on, and start
/// again after a power cut. Once files are deleted, pods run as before. DATA is undamaged.
pub fn a_node_survives_a_full_disk(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "full-disk")?;
    let mut faults = Faults::start(site, &lab, "full-disk")?;
    let groups = faults.kubectl.output(&["exec", "root", "--", "id", "-G"])?;
    let claim = "no container has the group of DATA's reserve";
    faults.cluster.outcome.check(claim, groups.trim() == "0", || groups);
    faults.kubectl.apply(FILLER)?;
    let is_evicted = "get pod reader -o jsonpath={.status.reason}";
    faults.hold("the kubelet evicts another pod to make room", is_evicted, "Evicted")?;
    let mut faults = faults.survives_without("space")?;
    faults.has_room_again()?;
    faults.as_root(USE_INODES)?;
    let faults = faults.survives_without("inodes")?;
    let outcome = faults.end()?;
    Data::of(site, lab.disk())?;
    Ok(outcome)
}

impl Faults<'_> {
    /// DATA has none of `what` left, in this boot and in the next one.
    fn survives_without(mut self, what: &str) -> Result<Self> {
        let own = self.own_containers()?;
        self.hold(&format!("the cluster shows that no {what} is left"), PRESSURE, "True")?;
        let line = format!("init: data: no {what} left");
        self.says(&format!("the console says that no {what} is left"), &line)?;
        self.stays_ready(&format!("a node stays Ready while no {what} is left"), WATCHED)?;
        let now = self.own_containers()?;
        let claim = format!("the node's own pods go on while no {what} is left");
        self.cluster.outcome.check(&claim, own == now, || format!("{own} became {now}"));

        let mut faults = self.restart(&format!("full-disk-no-{what}"), |machine| machine)?;
        faults.is_ready_again()?;
        Ok(faults)
    }

    /// Deletes the files. This takes a new container, for which there would be no inode.
    fn has_room_again(&mut self) -> Result<()> {
        let delete = "exec root -- rm -rf /data/kubelet/filler";
        self.hold("files can be deleted after a boot with no space left", delete, "")?;
        self.hold("the cluster shows that space is free", PRESSURE, "False")?;
        self.deployment_runs("a Deployment runs once space is free")
    }

    fn own_containers(&self) -> Result<String> {
        self.kubectl.output(&OWN.split(' ').collect::<Vec<_>>())
    }
}

//! A privileged pod that changes the settings of the node behind its back, with the programs of
//! busybox.

use super::busybox::BUSYBOX;
use super::node::{Node, TIMEOUT};
use super::{OF_NETWORK, was_repaired};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::probe;
use osbuild::error::Result;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// The port at which the pod executes scripts.
pub const PORT: u16 = 7099;

const POD: &str = "stranger";
const MANIFEST: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: stranger
spec:
  hostNetwork: true
  hostPID: true
  containers:
    - name: shell
      image: example.org/tools:1
      imagePullPolicy: Never
      command: [nc, -ll, -p, '7099', -e, /bin/sh]
      securityContext: { privileged: true }
";

/// A setting: the claim about it, a command that spoils it, and one that succeeds if it is as its
/// resource says.
type Case = (&'static str, &'static str, &'static str);

/// The settings, which earlier parts of the check have made.
const CASES: [Case; 14] = [
    (
        "an address that is removed is back",
        "ip addr del 192.0.2.7/24 dev eth0",
        "ip addr show dev eth0 | grep -q 192.0.2.7/24",
    ),
    (
        "a route that is removed is back",
        "ip route del 198.51.100.0/24 metric 77",
        "ip route | grep -q '198.51.100.0/24.*metric 77'",
    ),
    (
        "a route of a table that is removed is back",
        "ip route del 198.51.100.0/24 table 100",
        "ip route show table 100 | grep -q 198.51.100.0/24",
    ),
    (
        "a routing rule that is removed is back",
        "ip rule del from 203.0.113.7 table 100",
        "ip rule | grep -q ^2000:",
    ),
    (
        "the MTU of a link is put back",
        "ip link set storage mtu 1300",
        "ip link show storage | grep -q 'mtu 1400'",
    ),
    (
        "a link that is switched off is on again",
        "ip link set storage down",
        "ip link show storage | grep -q '[<,]UP[,>]'",
    ),
    (
        "a link that is removed is made again",
        "ip link del storage",
        "ip link show storage 2>/dev/null | grep -q 'mtu 1400'",
    ),
    (
        "a port that is taken out of its bridge is back",
        "ip link set bond0 nomaster",
        "test -e /sys/class/net/br0/brif/bond0",
    ),
    (
        "a bridge that is removed is made again, with its port",
        "ip link del br0",
        "test -e /sys/class/net/br0/brif/bond0",
    ),
    (
        "a bond that is removed is made again, with its mode and its bridge",
        "ip link del bond0",
        "grep -q 802.3ad /sys/class/net/bond0/bonding/mode 2>/dev/null \
         && test -e /sys/class/net/br0/brif/bond0",
    ),
    (
        "a link of WireGuard that is removed is made again",
        "ip link del wg1",
        "ip link show wg1 2>/dev/null | grep -q '[<,]UP[,>].*mtu 1420'",
    ),
    (
        "a folder that is shown elsewhere and unmounted is shown again",
        "nsenter -t 1 -m -- /bin/umount /run/mnt/shown",
        "grep -q ' /run/mnt/shown ' /proc/1/mountinfo",
    ),
    (
        "a volume in a folder of DATA that is unmounted is mounted again",
        "nsenter -t 1 -m -- /bin/umount /var/mnt/files",
        "grep -q ' /var/mnt/files ' /proc/1/mountinfo",
    ),
    (
        "a tmpfs that is unmounted is mounted again",
        "nsenter -t 1 -m -- /bin/umount /run/mnt/scratch",
        "grep -q ' /run/mnt/scratch ' /proc/1/mountinfo",
    ),
];

/// The section of a recipe with the pod.
pub fn pod(site: &Site, project: &Path) -> Result<String> {
    BUSYBOX.pod(site, project, POD, MANIFEST, &[])
}

/// Each setting is put back within a second. The times are the node's own.
pub fn is_undone(node: &Node, outcome: &mut Outcome) -> Result<()> {
    for (claim, spoil, holds) in CASES {
        let times = script(node, spoil, holds)?;
        match repaired(&times) {
            None => outcome.check(claim, false, || times),
            within => drop(was_repaired(claim, within, OF_NETWORK, outcome)),
        }
    }
    Ok(())
}

/// Spoils a setting, and prints when it did and when the setting was as before, in seconds since
/// boot. An error of the first command is the output.
fn script(node: &Node, spoil: &str, holds: &str) -> Result<String> {
    let script = format!(
        "now() {{ cut -d' ' -f1 /proc/uptime; }}\n\
         exec 2>&1; set -e; {holds}; began=$(now); {spoil}; tries=0\n\
         until {holds} || test $tries -gt 2000; do tries=$((tries + 1)); done\n\
         {holds} && echo $began $(now)\nexit\n"
    );
    probe::request(node.stranger, |stream| write!(stream, "{script}"))
}

fn repaired(times: &str) -> Option<Duration> {
    let (began, ended) = times.trim().split_once(' ')?;
    let (began, ended): (f64, f64) = (began.parse().ok()?, ended.parse().ok()?);
    Duration::try_from_secs_f64(ended - began).ok().filter(|took| *took < TIMEOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_stranger_is_no_time() {
        assert_eq!(repaired("71.20 71.45\n"), Some(Duration::from_millis(250)));
        for text in ["", "ip: RTNETLINK answers: No such process\n", "71.20"] {
            assert_eq!(repaired(text), None);
        }
    }
}

//! Links of kinds that the kernel of a build host often lacks. `cargo ci "vm: node's kernel"` runs
//! this on the kernel of the node.

use super::{LIMIT, LINKS, Machine, yaml};
use crate::kept::get_of;
use std::time::Instant;

/// Waits until the link is seen with all these parts.
async fn until_seen(machine: &mut Machine, link: &str, parts: &[&str]) {
    let began = Instant::now();
    loop {
        let found = get_of(&mut machine.client, LINKS, link).await;
        let seen = found.map(|found| yaml(&found)).unwrap_or_default();
        if parts.iter().all(|part| seen.contains(part)) {
            return;
        }
        assert!(began.elapsed() < 5 * LIMIT, "{link} with {parts:?}, but {seen}");
        tokio::time::sleep(LIMIT / 20).await;
    }
}

#[tokio::test]
async fn a_vlan_and_a_bond_are_seen_with_what_carries_them() {
    let mut machine = Machine::start().await;
    machine.ip("link add bond0 type bond mode active-backup miimon 50");
    for pair in [("lan0", "lan1"), ("lan2", "lan3")] {
        machine.ip(&format!("link add {} type veth peer name {}", pair.0, pair.1));
        machine.ip(&format!("link set {} up", pair.1));
        machine.ip(&format!("link set {} master bond0", pair.0));
    }
    machine.ip("link set bond0 up");
    machine.ip("link add storage link bond0 type vlan id 5");
    let parts = ["kind: bond", "bondMode: active-backup", "activePort: lan0"];
    until_seen(&mut machine, "bond0", &parts).await;
    until_seen(&mut machine, "lan0", &["master: bond0", "portState: active"]).await;
    until_seen(&mut machine, "lan2", &["master: bond0", "portState: backup"]).await;
    until_seen(&mut machine, "storage", &["kind: vlan", "parent: bond0", "vlanId: 5"]).await;
    machine.ip("link set lan1 down");
    until_seen(&mut machine, "bond0", &["activePort: lan2"]).await;
    until_seen(&mut machine, "lan0", &["portState: failed"]).await;
}

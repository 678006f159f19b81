//! Options of bridges that need VLANs in the kernel.

use crate::world::{World, run, until};

const BRIDGE: &str = "link br0 made bridge ports=eth0";

#[test]
fn a_bridge_has_the_options_of_its_setting() {
    let mut world = World::new();
    world.start_init();
    world.want(&[&format!("{BRIDGE} stp=on vlan-filtering=on")]);
    world.start_client();
    let has = |parts: [&str; 2]| {
        let shown = world.details("br0");
        parts.iter().all(|part| shown.contains(part)).then_some(())
    };
    until("the options", || has(["\"stp_state\":1", "\"vlan_filtering\":1"]));
    let index = |world: &World| world.ip("link show dev br0").split(':').next().map(str::to_owned);
    let before = index(&world);
    world.want(&[BRIDGE]);
    until("other options", || has(["\"stp_state\":0", "\"vlan_filtering\":0"]));
    run(&format!("ip -n {} link set br0 type bridge stp_state 1", world.client_side));
    until("the options again", || has(["\"stp_state\":0", "\"vlan_filtering\":0"]));
    assert_eq!(index(&world), before, "the link is the same");
}

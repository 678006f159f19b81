//! Links of kinds that a build host's kernel often lacks: VLANs, bonds, bridges that filter VLANs,
//! and WireGuard, compared with what `ip` and `wg` show. `cargo ci "vm: node's kernel"` compiles
//! these tests with the feature `node-kernel` and runs them on the kernel of the node.

mod bonds;
mod bridges;
mod vlans;
mod wireguard;
#[path = "../world/mod.rs"]
mod world;

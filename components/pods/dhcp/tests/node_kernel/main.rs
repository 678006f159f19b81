//! Links of kinds that a build host's kernel often lacks: VLANs, bonds, and bridges that filter
//! VLANs, compared with what `ip` shows. `cargo ci "vm: node's kernel"` compiles these tests with
//! the feature `node-kernel` and runs them on the kernel of the node.

mod bonds;
mod bridges;
mod vlans;
#[path = "../world/mod.rs"]
mod world;

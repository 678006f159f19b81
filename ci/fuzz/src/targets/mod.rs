//! The table of targets, and a module for each.

mod api_response;
mod cargo_lock;
mod cni;
mod console;
mod cpio;
mod deb;
mod devices;
mod dhcp_lease;
mod dhcp_message;
mod dhcp_names;
mod dhcp_router;
mod dhcpv6;
mod documents;
mod erofs;
mod ext4;
mod fat;
mod gpt;
mod inspect;
mod kept;
mod kubeconfig;
mod lock;
mod logind;
mod mount;
mod nftables;
mod node_document;
mod node_text;
mod oci;
mod package;
mod packet_filter;
mod pe;
mod recipe;
mod release;
mod replies;
mod requests;
mod resources;
mod sbom_items;
mod signature;
mod slot;
mod sources;
mod specs;
mod time_answer;
mod tokens;
mod tuf;
mod variables;
mod volume;
mod wireguard;

use crate::target::Target;

/// All targets: those of the formats, of the node, and of the builder.
pub const TARGETS: &[Target] = &[
    gpt::TARGET,
    fat::TARGET,
    volume::TARGET,
    cpio::TARGET,
    erofs::TARGET,
    ext4::TARGET,
    pe::TARGET,
    slot::TARGET,
    signature::TARGET,
    variables::TARGET,
    requests::TARGET,
    replies::TARGET,
    logind::TARGET,
    resources::TARGET,
    specs::TARGET,
    documents::TARGET,
    kept::TARGET,
    tokens::TARGET,
    node_text::TARGET,
    api_response::TARGET,
    node_document::TARGET,
    kubeconfig::TARGET,
    time_answer::TARGET,
    cni::TARGET,
    devices::TARGET,
    sbom_items::TARGET,
    dhcp_message::TARGET,
    dhcp_names::TARGET,
    dhcp_router::TARGET,
    dhcp_lease::TARGET,
    dhcpv6::TARGET,
    nftables::TARGET,
    wireguard::TARGET,
    packet_filter::TARGET,
    mount::TARGET,
    deb::TARGET,
    package::TARGET,
    oci::TARGET,
    sources::TARGET,
    cargo_lock::TARGET,
    lock::TARGET,
    recipe::TARGET,
    release::TARGET,
    tuf::TARGET,
    console::TARGET,
    inspect::TARGET,
];

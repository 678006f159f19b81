//! The real program, through a client over its socket.

mod apply;
mod calls;
mod capture;
mod generations;
mod inspect;
mod kept;
mod kubelet_configs;
mod limits;
mod mount_settings;
mod network;
mod network_settings;
mod node_labels;
mod observed;
mod osd;
mod plugins;
mod proxies;
mod reach;
mod reflection;
mod registry_mirrors;
mod remote;
mod revocations;
mod roles;
mod talos;
mod trusted_roots;
mod watch;
mod world;

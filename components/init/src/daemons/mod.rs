//! The two daemons: how they are started, under which name the kubelet knows the node, which static
//! pods it has, and whether they answer.

pub mod containerd;
pub mod credentials;
mod daemon;
pub mod debug_pod;
pub mod health;
pub mod kubelet;
pub mod kubelet_config;
pub mod kubelet_policies;
pub mod kubelet_start;
pub mod node_name;
pub mod setting_manifest;
pub mod static_pods;

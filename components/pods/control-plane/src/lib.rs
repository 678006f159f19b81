//! The `control-plane` pod: makes its node the first one of a cluster, or one more of its control
//! plane, with kubeadm, and changes it when settings have another configuration.
//!
//! kubeadm expects a host with systemd and a shell, and a kubelet that it may configure and start.
//! Here it runs phase by phase: it writes files below `/etc/kubernetes`, `init` passes the static
//! pods among them to the kubelet, and this program turns the kubelet's configuration into a
//! drop-in of the node's own. [`follow::follow`] is the sequence.

#![forbid(unsafe_code)]

pub mod attempt;
pub mod change;
pub mod configuration;
pub mod follow;
pub mod kubeadm;
pub mod kubelet_settings;
pub mod make;
pub mod replace;
pub mod role;
pub mod routes;
pub mod setting;
pub mod version;

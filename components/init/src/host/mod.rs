//! The settings that `init` applies to the host: the host name and its line in `/etc/hosts`, name
//! servers, time servers, the kernel's settings and parameters, control groups, links, mounts,
//! volumes, swap, kept images, mirrors and credential providers of registries, the cluster, fields
//! of the kubelet's configuration, labels and taints, and the clock. Each has one file with the
//! verbs `apply`, which sets it, and `observe`, which reads its value. Where several sources give a
//! value, [`settings`] ranks them.

pub mod addresses;
pub mod cgroups;
pub mod clock;
pub mod cluster_join;
pub mod console_address;
mod control_plane;
pub mod credential_providers;
pub mod environment;
pub mod host_name;
pub mod hosts;
pub mod kernel_modules;
pub mod kernel_parameters;
pub mod kubelet_fields;
pub mod link;
pub mod motd;
pub mod mount_settings;
pub mod mounts;
pub mod network;
pub mod network_client;
pub mod node_plugins;
pub mod pod_resolvers;
pub mod pod_settings;
pub mod registration;
pub mod registries;
pub mod resolver;
pub mod run_files;
pub mod seccomp_profiles;
pub mod settings;
pub mod swap_settings;
pub mod sysctl;
pub mod system_images;
pub mod time_servers;
pub mod volume_settings;
pub mod watch;

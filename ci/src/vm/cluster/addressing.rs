//! The addresses of a cluster, and of this host for its nodes.

use crate::vm::machine::{HOST, HOST6};
use std::net::{IpAddr, SocketAddr};

/// The addresses of a cluster.
#[derive(Clone, Copy)]
pub struct Addressing {
    /// This host, for QEMU's guests.
    host: IpAddr,
    /// The addresses of Services.
    pub services: &'static str,
    /// The Service of the cluster's name server, where kubeadm puts it.
    pub name_server: &'static str,
    /// The addresses of pods, of which each node gets a part.
    pub pods: &'static str,
}

impl Addressing {
    /// IPv4 alone.
    pub const IPV4: Self = Addressing {
        host: IpAddr::V4(HOST),
        services: "10.96.0.0/16",
        name_server: "10.96.0.10",
        pods: "10.244.0.0/16",
    };

    /// IPv6, and IPv4 beside it.
    pub const DUAL: Self = Addressing {
        host: IpAddr::V6(HOST6),
        services: "fd00:10:96::/112,10.96.0.0/16",
        name_server: "fd00:10:96::a",
        pods: "fd00:10:244::/56,10.244.0.0/16",
    };

    /// The first Services of both, which are the API server.
    pub const API_SERVERS: [&str; 2] = ["10.96.0.1", "fd00:10:96::1"];

    /// The address of this host, for QEMU's guests.
    pub fn host(self) -> IpAddr {
        self.host
    }

    /// This host's port `port`, as in a URL, for QEMU's guests.
    pub fn at_host(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.host, port)
    }
}

//! The usual causes of network errors.

use super::steps::Failed;
use rustix::io::Errno;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The failure of a connection to this address.
pub fn connect(error: &io::Error, address: SocketAddr) -> Failed {
    let (ip, port) = (address.ip(), address.port());
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => Failed::new(
            "connection refused",
            format!("{ip} answers, but nothing listens at port {port}"),
        ),
        Some(Errno::CONNRESET) => Failed::new(
            "connection reset",
            format!("a firewall, or a program at port {port} that does not want the node"),
        ),
        _ => reach(error, ip),
    }
}

/// The failure of a packet to this address.
pub fn reach(error: &io::Error, address: IpAddr) -> Failed {
    match Errno::from_io_error(error) {
        Some(Errno::NETUNREACH) => Failed::new(
            "network unreachable",
            format!("neither the node nor a router on the way has a route to {address}"),
        ),
        Some(Errno::HOSTUNREACH) => Failed::new(
            "host unreachable",
            format!("no machine in the last network answers for {address}, or a firewall says so"),
        ),
        Some(Errno::TIMEDOUT) => {
            Failed::new("no answer", "a firewall drops the packets, or no machine has the address")
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            Failed::new("not permitted", "a rule of the node's firewall forbids it")
        }
        Some(Errno::ADDRNOTAVAIL) => {
            Failed::new("no local address", format!("the node has no address to reach {address}"))
        }
        _ => Failed::new(error.to_string(), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_it_usually_means() {
        let address: SocketAddr = "10.0.2.2:6443".parse().unwrap();
        for (errno, error, meaning) in [
            (Errno::CONNREFUSED, "connection refused", "10.0.2.2 answers, but nothing listens"),
            (Errno::NETUNREACH, "network unreachable", "has a route to 10.0.2.2"),
            (Errno::HOSTUNREACH, "host unreachable", "no machine"),
            (Errno::PERM, "not permitted", "firewall"),
            (Errno::TIMEDOUT, "no answer", "a firewall drops the packets"),
        ] {
            let failed = connect(&errno.into(), address);
            assert_eq!(failed.error, error);
            assert!(failed.meaning.contains(meaning), "{failed:?}");
        }
    }
}

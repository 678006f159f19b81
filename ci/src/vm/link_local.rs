//! A second network of a machine, with addresses at which clouds serve the metadata of theirs.

/// The address of the metadata, and one beside it.
pub const METADATA: &str = "169.254.169.254";
pub const BESIDE: &str = "169.254.169.253";

/// The network without servers. It has no IPv6, which the machine's first network has.
const NETWORK: &str =
    "user,id=metadata,ipv6=off,net=169.254.169.0/24,host=169.254.169.2,dns=169.254.169.3";

/// The arguments of QEMU for the network. A connection to port 80 of each address starts a command
/// on this host, and is its input and output.
pub fn network(servers: &[(&str, &str)]) -> [String; 4] {
    let forwards = servers
        .iter()
        .map(|(address, command)| format!(",guestfwd=tcp:{address}:80-cmd:{command}"))
        .collect::<String>();
    [
        "-netdev".to_owned(),
        format!("{NETWORK}{forwards}"),
        "-device".to_owned(),
        "virtio-net-pci,netdev=metadata".to_owned(),
    ]
}

//! Names of links that the node makes.

use super::super::LinkName;
use crate::Refusal;

/// The prefixes of the names of links that network plugins, containerd and the kernel make. A link
/// of the node with such a name would conflict with theirs.
const TAKEN: [&str; 24] = [
    "antrea",
    "cali",
    "cbr",
    "cilium",
    "cni",
    "docker",
    "dummy",
    "erspan",
    "flannel",
    "gre",
    "ip6",
    "ip_vti",
    "kube",
    "lxc",
    "nodelocaldns",
    "ovn",
    "ovs",
    "sit",
    "tunl",
    "veth",
    "virbr",
    "vxlan",
    "weave",
    "wireguard.cali",
];

/// A file in the folder of all links, once the kernel has bonds.
const FILE: &str = "bonding_masters";

/// Refuses the name of a link that others make.
///
/// # Errors
/// It is such a name.
pub fn check(name: &LinkName) -> Result<(), Refusal> {
    let word = name.as_str();
    let taken = TAKEN.into_iter().find(|taken| word.starts_with(taken));
    match taken.or((word == FILE).then_some(FILE)) {
        None => Ok(()),
        Some(taken) => Err(Refusal::malformed(format!(
            "`{name}` cannot be made: names that begin with `{taken}` are those of other programs"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_another_program_is_not_made() {
        for name in ["cni0", "flannel.1", "veth1a2b", "bonding_masters"] {
            assert!(check(&LinkName::parse(name).unwrap()).is_err(), "{name}");
        }
        for name in ["eth0.5", "bond0", "br0", "storage"] {
            assert_eq!(check(&LinkName::parse(name).unwrap()), Ok(()), "{name}");
        }
    }
}

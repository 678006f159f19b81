// The fields of `osbuild.v1` that are secret, in one list: the build leaves them out of `Debug`,
// and `osd` out of all that it shows. `build.rs` includes the file, too, so it has no other items.

/// The fields that are secret: the spec that has it, its path there in YAML, and the message and
/// the name of the field.
pub const SECRETS: [(&str, &str, &str, &str); 5] = [
    ("ClusterJoinSpec", "token", "ClusterJoinSpec", "token"),
    ("LinkSpec", "wireguard.privateKey", "WireguardLink", "private_key"),
    ("LinkSpec", "wireguard.peers.presharedKey", "WireguardPeer", "preshared_key"),
    ("RegistryCredentialSpec", "password", "RegistryCredentialSpec", "password"),
    ("RegistryCredentialSpec", "token", "RegistryCredentialSpec", "token"),
];

//! The kernel's description of a link of WireGuard, of which its peers choose their endpoints.

use osbuild_protocol::{PublicKey, SecretKey};
use osbuild_rtnetlink::answers;
use pod_dhcp::static_network::wireguard::message::{
    Device, DeviceChange, Peer, PeerChange, change_request,
};

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target = Target { name: "wireguard", seeds, run, memory: Memory::per_byte(1024) };

/// Bytes before the attributes of a message (`genlmsghdr`), and before those after the link.
const FIXED: usize = 4;

fn run(input: &[u8]) -> Outcome {
    let mut device = Device::default();
    device.take(input);
    if device == Device::default() {
        return Outcome::Refused;
    }
    // An attribute has at most 64 KiB, and two peers in a row with one key are one.
    if input.len() <= 8192 {
        let mut again = Device { public_key: device.public_key, ..Device::default() };
        for answer in answers(&written(&device)) {
            again.take(answer.payload);
        }
        for peer in &mut device.peers {
            peer.last_handshake = None;
        }
        assert_eq!(again, device);
    }
    Outcome::Accepted
}

/// The request that gives a link all that this one has.
fn written(device: &Device) -> Vec<u8> {
    let put = |peer: &Peer| PeerChange::Put { peer: peer.clone(), is_there: true };
    let change = DeviceChange {
        private_key: device.private_key.clone(),
        listen_port: Some(device.listen_port),
        fwmark: Some(device.fwmark),
        peers: device.peers.iter().map(put).collect(),
    };
    change_request(1, 0, 7, &change).finish(1)
}

fn seeds() -> Vec<Vec<u8>> {
    let peer = |number: u8, endpoint: &str| Peer {
        public_key: PublicKey::new([number; 32]),
        preshared_key: Some(SecretKey::new([number; 32])),
        endpoint: endpoint.parse().ok(),
        keepalive: 25,
        last_handshake: None,
        allowed_ips: vec![([10, 7, number, 0].into(), 24), ([0; 16].into(), 0)],
    };
    let device = Device {
        private_key: Some(SecretKey::new([9; 32])),
        public_key: None,
        listen_port: 51820,
        fwmark: 1,
        peers: vec![peer(1, "192.0.2.1:9"), peer(2, "[2001:db8::1]:9")],
    };
    let message = written(&device);
    vec![message[16..].to_vec(), message[16..16 + FIXED].to_vec()]
}

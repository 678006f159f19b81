//! Compared with the requests of `wg` 1.0.20210914, recorded between it and the kernel.

use super::*;
use osbuild_rtnetlink::answers;
use proptest::prelude::*;

const PRIVATE: &str = "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=";
const PRESHARED: &str = "fLmJ9BhXlT775w7OqmDU8dZ59elGcl03roySZp5gvs4=";
const ONE: &str = "I2VYQH8unqEV3+Q4DFptm46PcT4LJqU+7euvnbk9pl4=";
const OTHER: &str = "lhDEwrWVBtIhCuAXH12bvf7hxyC7MyJEwCQ+K0n/shY=";

/// The bytes behind the name of the link in the request of `wg set wg0 private-key … listen-port
/// 51820 fwmark 0x100` with the peers of [`device`].
const SET: &str = concat!(
    "24000300f82e6e3c8f8bc2d0f4012adc03c3b7ba7c1dc1b1f8a21d34f8542cfb43e1a36f060006006cca00000800",
    "0700000100002c0108806400008024000100236558407f2e9ea115dfe4380c5a6d9b8e8f713e0b26a53eedebaf9d",
    "b93da65e1400040002000009c000020100000000000000000800030002000000200009801c000080060001000200",
    "0000080002000a0700020500030020000000c4000080240001009610c4c2b59506d2210ae0171f5d9bbdfee1c720",
    "bb332244c0243e2b49ffb216240002007cb989f41857953efbe70eceaa60d4f1d679f5e946725d37ae8c92669e60",
    "bece200004000a00ca6c0000000020010db800000000000000000000000100000000060005001900000008000300",
    "02000000480009801c00008006000100020000000800020000000000050003000000000028000080060001000a00",
    "000014000200fd0000000000000000000000000000000500030040000000",
);

/// The same of `wg set wg0 peer … remove`.
const REMOVE: &str = concat!(
    "340008803000008024000100236558407f2e9ea115dfe4380c5a6d9b8e8f713e0b26a53eedebaf9db93da65e0800",
    "030001000000",
);

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

fn secret(word: &str) -> Option<SecretKey> {
    SecretKey::parse("key", word).ok()
}

fn device() -> Device {
    let one = Peer {
        public_key: PublicKey::parse(ONE).unwrap(),
        preshared_key: None,
        endpoint: Some("192.0.2.1:9".parse().unwrap()),
        keepalive: 0,
        last_handshake: None,
        allowed_ips: vec![("10.7.0.2".parse().unwrap(), 32)],
    };
    let other = Peer {
        public_key: PublicKey::parse(OTHER).unwrap(),
        preshared_key: secret(PRESHARED),
        endpoint: Some("[2001:db8::1]:51820".parse().unwrap()),
        keepalive: 25,
        last_handshake: None,
        allowed_ips: vec![("0.0.0.0".parse().unwrap(), 0), ("fd00::".parse().unwrap(), 64)],
    };
    Device {
        private_key: secret(PRIVATE),
        public_key: None,
        listen_port: 51820,
        fwmark: 0x100,
        peers: vec![one, other],
    }
}

fn whole(device: &Device) -> DeviceChange {
    let put = |peer: &Peer| PeerChange::Put { peer: peer.clone(), is_there: false };
    DeviceChange {
        private_key: device.private_key.clone(),
        listen_port: Some(device.listen_port),
        fwmark: Some(device.fwmark),
        peers: device.peers.iter().map(put).collect(),
    }
}

/// The bytes behind the link in a request.
fn sent(change: &DeviceChange) -> Vec<u8> {
    change_request(0x25, 5, 7, change).finish(1)[28..].to_vec()
}

#[test]
fn a_new_link_is_what_wg_asks_for() {
    assert_eq!(sent(&whole(&device())), bytes(SET));
}

#[test]
fn a_peer_that_goes_is_what_wg_asks_for() {
    let change = PeerChange::Remove(PublicKey::parse(ONE).unwrap());
    let change = DeviceChange { peers: vec![change], ..DeviceChange::default() };
    assert_eq!(sent(&change), bytes(REMOVE));
}

#[test]
fn a_link_of_wg_is_read() {
    let mut read = Device::default();
    read.take(&[&[0; FIXED][..], &bytes(SET)].concat());
    assert_eq!(read, device());
}

#[test]
fn a_peer_that_is_there_loses_what_the_setting_has_not() {
    let peer = device().peers[0].clone();
    let peer = Peer { endpoint: None, allowed_ips: vec![], ..peer };
    let change = PeerChange::Put { peer, is_there: true };
    let change = DeviceChange { peers: vec![change], ..DeviceChange::default() };
    let message = sent(&change);
    let (_, list) = attributes(&message).next().unwrap();
    let (_, value) = attributes(list).next().unwrap();
    let of = |wanted| attributes(value).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    assert_eq!(of(peer::PRESHARED_KEY), Some(&[0; KEY][..]));
    assert_eq!(of(peer::KEEPALIVE), Some(&[0, 0][..]));
    assert_eq!(of(peer::ENDPOINT), None);
    assert_eq!(of(peer::FLAGS).and_then(|flags| u32_at(flags, 0)), Some(REPLACE_NETWORKS | UPDATE));
}

#[test]
fn a_peer_whose_networks_are_in_two_messages_is_one() {
    let all = device();
    let mut read = Device::default();
    for part in 0..2 {
        let mut half = all.clone();
        half.peers.drain(..1);
        half.peers[0].allowed_ips = vec![all.peers[1].allowed_ips[part]];
        if part == 0 {
            half.peers.insert(0, all.peers[0].clone());
        }
        let message = sent(&whole(&half));
        read.take(&[&[0; FIXED][..], &message].concat());
    }
    assert_eq!(read, all);
}

#[test]
fn a_time_and_a_public_key_are_read_and_zeros_are_none() {
    let time = [9_i64.to_ne_bytes(), 5_i64.to_ne_bytes()].concat();
    let value = |time: &[u8]| {
        let key = bytes(&"07".repeat(KEY));
        nested(&[(peer::PUBLIC_KEY, &key), (peer::LAST_HANDSHAKE, time)])
    };
    let read = |time: &[u8]| read_peer(&value(time)).unwrap().last_handshake;
    assert_eq!((read(&time), read(&[0; 16]), read(&[0xff; 16])), (Some(9), None, None));
    let mut none = Device::default();
    let keys = [(device::PRIVATE_KEY, &[0; KEY][..]), (device::PUBLIC_KEY, &[1; KEY])];
    none.take(&[&[0; FIXED][..], &nested(&keys)].concat());
    assert_eq!((none.private_key, none.public_key), (None, Some(PublicKey::new([1; KEY]))));
}

#[test]
fn the_number_of_the_family_is_read() {
    let request = Request::new(CONTROL, 0, &[1, 1, 0, 0]).with(FAMILY_ID, &37_u16.to_ne_bytes());
    let message = request.with(FAMILY_NAME, FAMILY).finish(1);
    assert_eq!(read_family(&answers(&message).next().unwrap()), Some(37));
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(
        cut in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut message = [&[0; FIXED][..], &bytes(SET)].concat();
        let at = at.index(message.len());
        message[at] = byte;
        Device::default().take(&message);
        Device::default().take(&message[..cut.index(message.len())]);
    }
}

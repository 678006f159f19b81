use super::*;
use crate::Setting;

/// Keys of `wg genkey` and `wg pubkey`.
const KEY_A: &str = "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=";
const PEER_A: &str = "I2VYQH8unqEV3+Q4DFptm46PcT4LJqU+7euvnbk9pl4=";
const PEER_B: &str = "lhDEwrWVBtIhCuAXH12bvf7hxyC7MyJEwCQ+K0n/shY=";

#[test]
fn every_link_of_wireguard_is_one_line_and_shows_no_secret() {
    for (words, shown) in [
        (format!("private-key={KEY_A}"), "private-key=(hidden)".to_owned()),
        ("private-key=own".to_owned(), "private-key=own".to_owned()),
        (
            format!(
                "private-key={KEY_A} listen-port=51820 fwmark=0x100 \
                 peers={PEER_A},preshared-key={KEY_A},endpoint=[2001:db8::1]:51820,keepalive=25,\
                 allowed=0.0.0.0/0,allowed=fd00::/64;{PEER_B},allowed=10.7.0.2/32"
            ),
            format!(
                "private-key=(hidden) listen-port=51820 fwmark=0x100 \
                 peers={PEER_A},preshared-key=(hidden),endpoint=[2001:db8::1]:51820,keepalive=25,\
                 allowed=0.0.0.0/0,allowed=fd00::/64;{PEER_B},allowed=10.7.0.2/32"
            ),
        ),
    ] {
        let line = format!("link wg0 made wireguard {words}");
        let setting = Setting::parse(&line).unwrap();
        assert_eq!(setting.line(), line);
        assert_eq!(setting.to_string(), format!("link wg0 made wireguard {shown}"));
        assert_eq!(setting.shown(), format!("wireguard {shown}"));
        assert!(!format!("{setting:?}").contains(&KEY_A[..8]));
        assert!(!format!("{setting:?}").contains("248, 46, 110"), "{setting:?}");
    }
}

#[test]
fn a_link_that_cannot_be_is_refused_without_its_secrets() {
    let key = format!("private-key={KEY_A}");
    for (words, reason) in [
        (String::new(), "`private-key` of a link is missing"),
        ("private-key=".to_owned(), "cannot have the option"),
        (format!("private-key={}", &KEY_A[..40]), "32 bytes in base64"),
        (format!("private-key={}=", "A".repeat(43)), "32 bytes in base64"),
        (format!("private-key={}B=", &KEY_A[..42]), "32 bytes in base64"),
        (format!("{key} listen-port=0"), "1 to 65535"),
        (format!("{key} listen-port=65536"), "1 to 65535"),
        (format!("{key} fwmark=0"), "not the mark"),
        (format!("{key} fwmark=1/1"), "not the mark"),
        (format!("{key} peers=a"), "`a` is not a public key"),
        (format!("{key} peers={PEER_A},psk={KEY_A}"), "the field `psk`"),
        (format!("{key} peers={PEER_A},preshared-key={}", &KEY_A[..9]), "32 bytes in base64"),
        (format!("{key} peers={PEER_A},endpoint=vpn.example:51820"), "not the endpoint"),
        (format!("{key} peers={PEER_A},endpoint=192.0.2.1:0"), "not the endpoint"),
        (format!("{key} peers={PEER_A},allowed=10.0.0.1/8"), "`10.0.0.0/8`?"),
        (format!("{key} peers={PEER_A},keepalive=65536"), "0 to 65535"),
        (format!("{key} peers={PEER_A};{PEER_A}"), "is there twice"),
        (
            format!("{key} peers={PEER_A},allowed=::/0;{PEER_B},allowed=::/0"),
            "`::/0` leads to two peers",
        ),
        (format!("{key} mtu=1"), "cannot have the option `mtu`"),
    ] {
        let refusal = Setting::parse(&format!("link wg0 made wireguard {words}")).unwrap_err();
        assert!(refusal.reason.contains(reason), "{words}: {}", refusal.reason);
        assert!(!refusal.reason.contains(&KEY_A[..9]), "{}", refusal.reason);
    }
    let name = format!("link wireguard.cali made wireguard {key}");
    assert!(Setting::parse(&name).is_err());
}

#[test]
fn a_link_whose_words_do_not_fit_a_line_is_refused() {
    let peer = |number: u8| {
        WireGuardPeer::new(PeerOptions {
            public_key: &PublicKey::new([number; KEY]).to_string(),
            preshared_key: Some(KEY_A),
            endpoint: "[2001:db8:1111:2222:3333:4444:5555:6666]:51820",
            allowed_ips: &[format!("10.7.{number}.0/24"), format!("fd00:{number}::/64")],
            keepalive: 25,
        })
        .unwrap()
    };
    let options = WireGuardOptions { private_key: Some(KEY_A), listen_port: 0, fwmark: "" };
    let link = |count: u8| WireGuard::new(options, (1..=count).map(peer).collect());
    assert_eq!(link(16).unwrap().peers().len(), 16);
    assert!(link(20).unwrap_err().reason.contains("bytes of a line"));
    let bare = |number| {
        let public_key = &PublicKey::new([number; KEY]).to_string();
        WireGuardPeer::new(PeerOptions { public_key, ..PeerOptions::default() }).unwrap()
    };
    assert!(WireGuard::new(options, (1..=32).map(bare).collect()).is_ok());
    assert!(WireGuard::new(options, (1..=33).map(bare).collect()).is_err());
}

#[test]
fn a_private_key_has_the_bits_that_the_kernel_gives_it() {
    let clamped = SecretKey::new([0xff; KEY]).clamped();
    let bytes = clamped.reveal();
    assert_eq!((bytes[0], bytes[1], bytes[31]), (0xf8, 0xff, 0x7f));
    let generated = SecretKey::parse("a", KEY_A).unwrap();
    assert!(generated == generated.clamped(), "`wg genkey` has them already");
}

#[test]
fn a_state_is_read_as_it_was_written() {
    for line in [
        format!("wg0 public-key={PEER_A} listen-port=51820"),
        format!(
            "wg0 public-key={PEER_A} listen-port=1 peers={PEER_A},endpoint=192.0.2.1:9;{PEER_B},\
             endpoint=[2001:db8::1]:9,handshake=1790000000"
        ),
    ] {
        assert_eq!(WireGuardState::parse(&line).unwrap().to_string(), line);
    }
    for line in [
        "wg0".to_owned(),
        format!("lo public-key={PEER_A} listen-port=1"),
        format!("wg0 public-key={PEER_A} listen-port=1 peers={PEER_A},handshake=x"),
        format!("wg0 public-key={PEER_A} listen-port=1 private-key={KEY_A}"),
    ] {
        assert!(WireGuardState::parse(&line).is_err(), "{line}");
    }
}

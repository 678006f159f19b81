//! Tunnels of WireGuard in specs of links. Their keys are kept apart from both forms of a spec.

use crate::settings::time;
use osbuild_cosi::v1::{
    LinkSpec, WireguardLink, WireguardPeer, WireguardPeerStatus, WireguardStatus,
};
use osbuild_protocol::{
    MadeLink, NetworkSetting, PeerOptions, PeerState, REDACTED, Refusal, Setting, WireGuard,
    WireGuardOptions, WireGuardPeer, WireGuardState,
};
use osbuild_resources::Secrets;

/// The name of the secret private key.
const PRIVATE_KEY: &str = "wireguard.privateKey";

/// The name of the secret key of a peer.
fn preshared_key(public_key: &str) -> String {
    format!("wireguard.peers.{public_key}.presharedKey")
}

/// The link that a spec describes.
pub fn made(link: &WireguardLink) -> Result<MadeLink, Refusal> {
    let WireguardLink { private_key, listen_port, fwmark, peers } = link;
    let peer = |peer: &WireguardPeer| {
        let key = Some(peer.preshared_key.as_str()).filter(|key| !key.is_empty());
        WireGuardPeer::new(PeerOptions {
            public_key: &peer.public_key,
            preshared_key: key,
            endpoint: &peer.endpoint,
            allowed_ips: &peer.allowed_ips,
            keepalive: peer.persistent_keepalive,
        })
    };
    let peers = peers.iter().map(peer).collect::<Result<_, _>>()?;
    let private_key = Some(private_key.as_str()).filter(|key| !key.is_empty());
    let options = WireGuardOptions { private_key, listen_port: *listen_port, fwmark };
    WireGuard::new(options, peers).map(MadeLink::WireGuard)
}

/// The spec of a link, with [`REDACTED`] in the place of its keys.
pub fn spec_of(link: &WireGuard) -> WireguardLink {
    let peer = |peer: &WireGuardPeer| WireguardPeer {
        public_key: peer.public_key().to_string(),
        preshared_key: peer.preshared_key().map(ToString::to_string).unwrap_or_default(),
        endpoint: peer.endpoint().map(|endpoint| endpoint.to_string()).unwrap_or_default(),
        allowed_ips: peer
            .allowed_ips()
            .iter()
            .map(|(address, length)| format!("{address}/{length}"))
            .collect(),
        persistent_keepalive: peer.keepalive().into(),
    };
    WireguardLink {
        private_key: link.private_key().map(ToString::to_string).unwrap_or_default(),
        listen_port: link.listen_port().unwrap_or_default().into(),
        fwmark: link.fwmark().map(|mark| format!("{mark:#x}")).unwrap_or_default(),
        peers: link.peers().iter().map(peer).collect(),
    }
}

/// The keys of the link among settings.
pub fn secrets(settings: &[Setting]) -> Secrets {
    let mut secrets = Secrets::default();
    for setting in settings {
        let Setting::Network(NetworkSetting::Made(_, MadeLink::WireGuard(link))) = setting else {
            continue;
        };
        if let Some(key) = link.private_key() {
            secrets.insert(PRIVATE_KEY, key.reveal_base64().as_str());
        }
        for peer in link.peers() {
            if let Some(key) = peer.preshared_key() {
                let name = preshared_key(&peer.public_key().to_string());
                secrets.insert(name, key.reveal_base64().as_str());
            }
        }
    }
    secrets
}

/// Puts the keys in the places where a spec hides them.
pub fn reveal(spec: &mut LinkSpec, secrets: &Secrets) {
    let Some(link) = &mut spec.wireguard else { return };
    let reveal = |field: &mut String, name: &str| {
        if field == REDACTED
            && let Some(key) = secrets.reveal(name)
        {
            key.clone_into(field);
        }
    };
    reveal(&mut link.private_key, PRIVATE_KEY);
    for peer in &mut link.peers {
        reveal(&mut peer.preshared_key, &preshared_key(&peer.public_key));
    }
}

/// The status of a link.
pub fn status(state: &WireGuardState) -> WireguardStatus {
    let peer = |peer: &PeerState| WireguardPeerStatus {
        public_key: peer.public_key.to_string(),
        endpoint: peer.endpoint.map(|endpoint| endpoint.to_string()).unwrap_or_default(),
        last_handshake: peer.last_handshake.map(time).unwrap_or_default(),
    };
    WireguardStatus {
        public_key: state.public_key.to_string(),
        listen_port: state.listen_port.into(),
        peers: state.peers.iter().map(peer).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::TYPE;
    use crate::settings::Report;
    use osbuild_protocol::{Observed, Setting, WireGuardState};
    use osbuild_ranks::Source;
    use osbuild_resources::Spec;
    use std::collections::BTreeMap;

    const KEY: &str = "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=";
    const PRESHARED: &str = "fLmJ9BhXlT775w7OqmDU8dZ59elGcl03roySZp5gvs4=";
    const PEER: &str = "I2VYQH8unqEV3+Q4DFptm46PcT4LJqU+7euvnbk9pl4=";

    fn yaml(private_key: &str, preshared_key: &str) -> Spec {
        let peer =
            format!("{{publicKey: {PEER}, presharedKey: {preshared_key}, allowedIps: '::/0'}}");
        let wireguard = format!("{{privateKey: {private_key}, peers: [{peer}]}}");
        Spec { yaml: format!("{{link: wg0, wireguard: {wireguard}}}"), ..Spec::default() }
    }

    #[test]
    fn keys_are_apart_from_both_forms_and_hidden_ones_stay() {
        let settings = (TYPE.read)(&yaml(KEY, PRESHARED)).unwrap();
        let written = (TYPE.write)(&settings);
        let proto = String::from_utf8_lossy(&written.proto);
        for key in [KEY, PRESHARED] {
            assert!(!written.yaml.contains(key) && !proto.contains(key), "{}", written.yaml);
        }
        let hidden = Spec { secrets: written.secrets.clone(), ..yaml("(hidden)", "(hidden)") };
        assert_eq!((TYPE.read)(&hidden), Ok(settings));
        let reason = (TYPE.read)(&yaml("(hidden)", PRESHARED)).unwrap_err();
        assert!(reason.contains("private key") && !reason.contains(PRESHARED), "{reason}");
    }

    #[test]
    fn links_of_the_document_have_a_status_with_their_name() {
        let state = format!("wg0 public-key={PEER} listen-port=9 peers={PEER},handshake=60");
        let state = WireGuardState::parse(&state).unwrap();
        let setting =
            Setting::parse(&format!("link wg0 made wireguard private-key={KEY}")).unwrap();
        let observed = [Observed {
            name: setting.name(),
            wanted: None,
            source: Some(Source::Document),
            current: setting.shown(),
            error: String::new(),
        }];
        let (wireguard, errors) = (&[state], &BTreeMap::new());
        let report = Report {
            wanted: &[],
            observed: &observed,
            errors,
            pods: &[],
            wireguard,
            cluster: None,
        };
        let statuses = TYPE.statuses(&report);
        assert_eq!(
            statuses["wg0"].yaml,
            format!(
                "link: wg0\nset: true\nversion: \"\"\nwireguard:\n  publicKey: {PEER}\n  \
                 listenPort: 9\n  peers:\n  - publicKey: {PEER}\n    \
                 lastHandshake: \"1970-01-01T00:01:00Z\"\nsetBy: document\n"
            )
        );
    }
}

//! Plans the changes with which a link of WireGuard gets its setting. It is pure.

use osbuild_protocol::{PublicKey, SecretKey, WireGuard, WireGuardPeer};

use super::message::{Device, DeviceChange, Peer, PeerChange};

/// The change with which a link has what a setting asks for, and this private key; none if it has
/// it. `moved` are the peers whose endpoints the setting has changed: that of another one is where
/// its last packet came from, and stays.
pub fn change(
    wanted: &WireGuard,
    key: &SecretKey,
    found: &Device,
    moved: &[PublicKey],
) -> Option<DeviceChange> {
    let key = key.clamped();
    let is_other_key = found.private_key.as_ref() != Some(&key);
    let fwmark = wanted.fwmark().unwrap_or_default();
    let change = DeviceChange {
        private_key: is_other_key.then_some(key),
        // Without one in the setting, that of the kernel's choice is as good as another.
        listen_port: wanted.listen_port().filter(|port| *port != found.listen_port),
        fwmark: Some(fwmark).filter(|mark| *mark != found.fwmark),
        peers: peers(wanted, found, moved),
    };
    (change != DeviceChange::default()).then_some(change)
}

/// The changes of peers. Removals come first: a network has one peer.
fn peers(wanted: &WireGuard, found: &Device, moved: &[PublicKey]) -> Vec<PeerChange> {
    let is_wanted = |peer: &&Peer| {
        let mut wanted = wanted.peers().iter();
        wanted.any(|one| one.public_key() == peer.public_key)
    };
    let unwanted = found.peers.iter().filter(|peer| !is_wanted(peer));
    let removals = unwanted.map(|peer| PeerChange::Remove(peer.public_key));
    let puts = wanted.peers().iter().filter_map(|wanted| {
        let found = found.peers.iter().find(|peer| peer.public_key == wanted.public_key());
        let is_where_it_says = found
            .is_some_and(|found| found.endpoint.is_some() && !moved.contains(&found.public_key));
        let endpoint = wanted.endpoint().filter(|_| !is_where_it_says);
        let is_right = found.is_some_and(|found| {
            has(found, wanted) && (endpoint.is_none() || found.endpoint == endpoint)
        });
        (!is_right).then(|| PeerChange::Put {
            peer: Peer { endpoint, ..Peer::from(wanted) },
            is_there: found.is_some(),
        })
    });
    removals.chain(puts).collect()
}

/// Whether a peer has all but the endpoint of the setting.
fn has(found: &Peer, wanted: &WireGuardPeer) -> bool {
    let mut networks = found.allowed_ips.clone();
    networks.sort();
    found.preshared_key.as_ref() == wanted.preshared_key()
        && found.keepalive == wanted.keepalive()
        && networks == wanted.allowed_ips()
}

/// The peers that another setting has at another place.
pub fn moved(before: Option<&WireGuard>, wanted: &WireGuard) -> Vec<PublicKey> {
    let Some(before) = before else {
        return wanted.peers().iter().map(WireGuardPeer::public_key).collect();
    };
    let endpoint = |key: PublicKey| {
        let peer = before.peers().iter().find(|peer| peer.public_key() == key)?;
        Some(peer.endpoint())
    };
    let peers = wanted.peers().iter();
    let moved = peers.filter(|peer| endpoint(peer.public_key()) != Some(peer.endpoint()));
    moved.map(WireGuardPeer::public_key).collect()
}

impl From<&WireGuardPeer> for Peer {
    fn from(peer: &WireGuardPeer) -> Self {
        Self {
            public_key: peer.public_key(),
            preshared_key: peer.preshared_key().cloned(),
            endpoint: peer.endpoint(),
            keepalive: peer.keepalive(),
            last_handshake: None,
            allowed_ips: peer.allowed_ips().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_protocol::{MadeLink, NetworkSetting, Setting};

    const KEY: &str = "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=";
    const ONE: &str = "lhDEwrWVBtIhCuAXH12bvf7hxyC7MyJEwCQ+K0n/shY=";
    const OTHER: &str = "I2VYQH8unqEV3+Q4DFptm46PcT4LJqU+7euvnbk9pl4=";

    fn link(options: &str) -> WireGuard {
        let line = format!("link wg0 made wireguard private-key={KEY} {options}");
        match Setting::parse(line.trim_end()) {
            Ok(Setting::Network(NetworkSetting::Made(_, MadeLink::WireGuard(link)))) => link,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// The change with the key of the link's own setting.
    fn own_change(wanted: &WireGuard, found: &Device, moved: &[PublicKey]) -> Option<DeviceChange> {
        change(wanted, wanted.private_key().unwrap(), found, moved)
    }

    /// The link as the kernel has it after the change for a new one.
    fn device(wanted: &WireGuard) -> Device {
        Device {
            private_key: wanted.private_key().cloned(),
            public_key: None,
            listen_port: wanted.listen_port().unwrap_or(40000),
            fwmark: wanted.fwmark().unwrap_or_default(),
            peers: wanted.peers().iter().map(Peer::from).collect(),
        }
    }

    #[test]
    fn a_new_link_gets_all_and_one_that_has_it_nothing() {
        let wanted = link(&format!("listen-port=51820 peers={ONE},allowed=10.7.0.0/24"));
        let change = own_change(&wanted, &Device::default(), &[]).unwrap();
        assert_eq!(change.private_key.as_ref(), wanted.private_key());
        assert_eq!((change.listen_port, change.fwmark), (Some(51820), None));
        let [PeerChange::Put { peer, is_there: false }] = change.peers.as_slice() else {
            panic!("{change:?}")
        };
        assert_eq!(peer.allowed_ips.len(), 1);
        assert_eq!(own_change(&wanted, &device(&wanted), &[]), None);
        let any_port = link("");
        assert_eq!(own_change(&any_port, &device(&any_port), &[]), None);
    }

    #[test]
    fn a_peer_that_differs_is_put_right_and_one_that_is_not_wanted_goes() {
        let wanted = link(&format!("peers={ONE},keepalive=25,allowed=10.7.0.0/24"));
        let mut found = device(&wanted);
        found.peers[0].keepalive = 0;
        found.peers.push(Peer {
            public_key: PublicKey::parse(OTHER).unwrap(),
            ..Peer::from(&wanted.peers()[0])
        });
        let changed = own_change(&wanted, &found, &[]).unwrap();
        assert_eq!((changed.private_key, changed.listen_port, changed.fwmark), (None, None, None));
        let [PeerChange::Remove(gone), PeerChange::Put { peer, is_there: true }] =
            changed.peers.as_slice()
        else {
            panic!("{:?}", changed.peers)
        };
        assert_eq!((gone.to_string().as_str(), peer.keepalive), (OTHER, 25));
    }

    #[test]
    fn a_peer_that_has_moved_stays_where_it_is_until_the_setting_changes() {
        let wanted = link(&format!("peers={ONE},endpoint=192.0.2.1:9"));
        let mut found = device(&wanted);
        found.peers[0].endpoint = Some("192.0.2.66:7".parse().unwrap());
        assert_eq!(own_change(&wanted, &found, &[]), None, "it has come from there");
        let other = link(&format!("peers={ONE},endpoint=192.0.2.2:9"));
        let has_moved = moved(Some(&wanted), &other);
        let changed = own_change(&other, &found, &has_moved).unwrap();
        let [PeerChange::Put { peer, .. }] = changed.peers.as_slice() else { panic!() };
        assert_eq!(peer.endpoint, Some("192.0.2.2:9".parse().unwrap()));
        assert_eq!(moved(Some(&other), &other), []);
        let mut without = device(&wanted);
        without.peers[0].endpoint = None;
        assert!(own_change(&wanted, &without, &[]).is_some(), "it is nowhere");
    }
}

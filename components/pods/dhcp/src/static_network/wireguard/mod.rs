//! Holds links of WireGuard to the keys, the port and the peers of their settings, and reports what
//! they are like. The kernel reports no changes of these, so the links are looked at every few
//! seconds, too.

mod kernel;
pub mod message;
mod plan;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use osbuild_protocol::{
    LinkName, MadeLink, NetworkName, NetworkSetting, NetworkSettings, PeerState, SecretKey,
    WireGuard, WireGuardState,
};

use crate::link_kind::LinkKind;
use crate::netlink::Link;
use kernel::Connection;
use message::{Device, Peer};

/// How often links are looked at: a person who waits for a handshake sees it soon after.
const INTERVAL: Duration = Duration::from_secs(10);

/// The links of settings, and what has become of them.
#[derive(Default)]
pub struct Tunnels {
    /// None as long as there is no link, or the kernel has no WireGuard.
    connection: Option<Connection>,
    /// The settings that links have had since the program has started.
    applied: BTreeMap<LinkName, WireGuard>,
    states: BTreeMap<LinkName, WireGuardState>,
    /// When to look at the links again.
    due: Option<Duration>,
}

impl Tunnels {
    /// When [`Self::hold`] is due.
    pub fn deadline(&self) -> Option<Duration> {
        self.due
    }

    /// Looks at the links no sooner than this, if there are any.
    pub fn wait_until(&mut self, due: Duration) {
        self.due = self.due.map(|_| due);
    }

    /// The states of the links.
    pub fn states(&self) -> impl Iterator<Item = &WireGuardState> {
        self.states.values()
    }

    /// Compares the links with the settings, and changes what differs. Returns why settings are not
    /// in effect.
    pub fn hold<'a>(
        &mut self,
        wanted: &NetworkSettings,
        links: impl Iterator<Item = &'a Link>,
        now: Duration,
    ) -> BTreeMap<NetworkName, String> {
        let own_keys: BTreeMap<_, _> =
            wanted.own_keys.iter().map(|(link, key)| (link.as_str(), key)).collect();
        let wanted: BTreeMap<&str, (&LinkName, &WireGuard)> = wanted
            .settings
            .iter()
            .filter_map(|setting| match setting {
                NetworkSetting::Made(name, MadeLink::WireGuard(link)) => {
                    Some((name.as_str(), (name, link)))
                }
                _ => None,
            })
            .collect();
        let is_held = |link: &&Link| link.is_made && link.kind == LinkKind::WireGuard;
        let held: Vec<_> = links
            .filter(is_held)
            .filter_map(|link| Some((link.index, *wanted.get(link.name.as_str())?)))
            .collect();
        let is_there = |name: &LinkName| held.iter().any(|(_, (other, _))| *other == name);
        self.applied.retain(|name, _| is_there(name));
        self.states.retain(|name, _| is_there(name));
        self.due = (!held.is_empty()).then_some(now + INTERVAL);
        let problems = held.into_iter().filter_map(|(index, (name, link))| {
            let key = link.private_key().or_else(|| own_keys.get(name.as_str()).copied());
            let held = key.ok_or_else(|| io::Error::other("the node has not made its key"));
            let error = held.and_then(|key| self.hold_link(index, name, link, key)).err()?;
            Some((NetworkName::Made(name.clone()), error.to_string()))
        });
        problems.collect()
    }

    fn hold_link(
        &mut self,
        index: u32,
        name: &LinkName,
        wanted: &WireGuard,
        key: &SecretKey,
    ) -> io::Result<()> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::open().map_err(no_wireguard)?),
        };
        let mut device = connection.device(index)?;
        let moved = plan::moved(self.applied.get(name), wanted);
        if let Some(change) = plan::change(wanted, key, &device, &moved) {
            connection.change(index, &change)?;
            eprintln!("{name}: the keys, the port or the peers are set");
            device = connection.device(index)?;
        }
        self.applied.insert(name.clone(), wanted.clone());
        self.states.extend(state(name, &device).map(|state| (name.clone(), state)));
        match plan::change(wanted, key, &device, &[]) {
            None => Ok(()),
            Some(_) => Err(io::Error::other(
                "the kernel has other peers than it was given: does one have the node's own key?",
            )),
        }
    }
}

fn no_wireguard(error: io::Error) -> io::Error {
    io::Error::other(format!("the kernel has no WireGuard: {error}"))
}

fn state(name: &LinkName, device: &Device) -> Option<WireGuardState> {
    let peer = |peer: &Peer| PeerState {
        public_key: peer.public_key,
        endpoint: peer.endpoint,
        last_handshake: peer.last_handshake,
    };
    let mut peers: Vec<PeerState> = device.peers.iter().map(peer).collect();
    peers.sort_by_key(|peer| peer.public_key);
    let (public_key, listen_port) = (device.public_key?, device.listen_port);
    Some(WireGuardState { link: name.clone(), public_key, listen_port, peers })
}

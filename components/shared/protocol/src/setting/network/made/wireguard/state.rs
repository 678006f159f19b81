//! The states of links of WireGuard in the kernel, as the network pod reports them.

use std::fmt;
use std::net::SocketAddr;

use super::super::super::LinkName;
use super::super::super::options::{Options, number};
use super::{MAX_PEERS, PublicKey};
use crate::Refusal;

/// The state of a link. It has no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireGuardState {
    /// Its name.
    pub link: LinkName,
    /// The key by which peers know the node.
    pub public_key: PublicKey,
    /// The UDP port at which they reach it.
    pub listen_port: u16,
    /// Its peers.
    pub peers: Vec<PeerState>,
}

/// The state of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerState {
    /// Its key.
    pub public_key: PublicKey,
    /// Where its last packet came from, or where it shall be.
    pub endpoint: Option<SocketAddr>,
    /// When both have agreed on keys at last, in seconds since 1970; none if they never have.
    pub last_handshake: Option<u64>,
}

impl WireGuardState {
    /// Reads the words that `Display` writes.
    ///
    /// # Errors
    /// One is malformed.
    pub fn parse(words: &str) -> Result<Self, Refusal> {
        let (link, options) = words.split_once(' ').unwrap_or((words, ""));
        let mut options = Options::parse("a link of WireGuard", options)?;
        let port = options.expect("listen-port")?;
        let refuse = || Refusal::malformed("a peer has a key, and perhaps an endpoint and a time");
        let peers = options.take("peers").into_iter().flat_map(|peers| peers.split(';'));
        let peers: Vec<PeerState> = peers
            .map(|peer| PeerState::parse(peer).ok_or_else(refuse))
            .collect::<Result<_, _>>()?;
        let state = Self {
            link: LinkName::parse(link)?,
            public_key: PublicKey::parse(options.expect("public-key")?)?,
            listen_port: number(port).ok_or_else(|| Refusal::malformed("a port is a number"))?,
            peers,
        };
        options.end()?;
        match state.peers.len() {
            0..=MAX_PEERS => Ok(state),
            _ => Err(Refusal::malformed(format!("a link has at most {MAX_PEERS} peers"))),
        }
    }
}

impl PeerState {
    fn parse(word: &str) -> Option<Self> {
        let mut fields = word.split(',');
        let public_key = PublicKey::parse(fields.next()?).ok()?;
        let mut state = Self { public_key, endpoint: None, last_handshake: None };
        for field in fields {
            match field.split_once('=')? {
                ("endpoint", endpoint) => state.endpoint = Some(endpoint.parse().ok()?),
                ("handshake", seconds) => state.last_handshake = Some(number(seconds)?),
                _ => return None,
            }
        }
        Some(state)
    }
}

impl fmt::Display for WireGuardState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { link, public_key, listen_port, peers } = self;
        write!(f, "{link} public-key={public_key} listen-port={listen_port}")?;
        for (at, peer) in peers.iter().enumerate() {
            f.write_str(if at == 0 { " peers=" } else { ";" })?;
            write!(f, "{}", peer.public_key)?;
            if let Some(endpoint) = peer.endpoint {
                write!(f, ",endpoint={endpoint}")?;
            }
            if let Some(seconds) = peer.last_handshake {
                write!(f, ",handshake={seconds}")?;
            }
        }
        Ok(())
    }
}

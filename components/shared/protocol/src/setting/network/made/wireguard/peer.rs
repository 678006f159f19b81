//! Peers of a WireGuard link.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use super::super::super::options::number;
use super::super::super::subnet::{first, split};
use super::{PublicKey, SecretKey};
use crate::Refusal;

/// The maximum number of a peer's networks.
const MAX_NETWORKS: usize = 32;

/// A peer: a machine with which the node exchanges packets over the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireGuardPeer {
    public_key: PublicKey,
    preshared_key: Option<SecretKey>,
    endpoint: Option<SocketAddr>,
    allowed_ips: Vec<AllowedNetwork>,
    keepalive: u16,
}

/// A network whose addresses a peer may have: its first address, and the length of its prefix in
/// bits. Packets to it go to the peer.
pub type AllowedNetwork = (IpAddr, u8);

/// The words of a peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerOptions<'a> {
    /// Its key in base64.
    pub public_key: &'a str,
    /// A key that both have beside their own, in base64; none for none.
    pub preshared_key: Option<&'a str>,
    /// The address and the port at which it is; empty if it comes to the node.
    pub endpoint: &'a str,
    /// The networks behind it.
    pub allowed_ips: &'a [String],
    /// After how many seconds without a packet the node sends one; 0 for never.
    pub keepalive: u32,
}

impl WireGuardPeer {
    /// Reads the words of a peer. Its networks are in ascending order then.
    ///
    /// # Errors
    /// A word is malformed, or a network is there twice.
    pub fn new(options: PeerOptions) -> Result<Self, Refusal> {
        let PeerOptions { public_key, preshared_key, endpoint, allowed_ips, keepalive } = options;
        let mut networks: Vec<AllowedNetwork> =
            allowed_ips.iter().map(|word| network(word)).collect::<Result<_, _>>()?;
        networks.sort();
        networks.dedup();
        if networks.len() > MAX_NETWORKS {
            let reason = format!("a peer of WireGuard has at most {MAX_NETWORKS} networks");
            return Err(Refusal::malformed(reason));
        }
        let reason = "the keepalive of a peer is 0 to 65535 seconds";
        let too_long = |_| Refusal::malformed(reason);
        Ok(Self {
            public_key: PublicKey::parse(public_key)?,
            preshared_key: preshared_key
                .map(|word| SecretKey::parse("preshared key of a peer", word))
                .transpose()?,
            endpoint: Some(endpoint).filter(|word| !word.is_empty()).map(place).transpose()?,
            allowed_ips: networks,
            keepalive: u16::try_from(keepalive).map_err(too_long)?,
        })
    }

    /// Reads the words that [`Self::write`] writes.
    pub(super) fn parse(words: &str) -> Result<Self, Refusal> {
        let refuse = |word: &str| {
            // It may be a secret.
            let name: String =
                word.split('=').next().unwrap_or_default().chars().take(20).collect();
            Refusal::malformed(format!("a peer of WireGuard cannot have the field `{name}`"))
        };
        let (public_key, fields) = words.split_once(',').unwrap_or((words, ""));
        let mut options = PeerOptions { public_key, ..PeerOptions::default() };
        let mut allowed_ips = Vec::new();
        for field in fields.split(',').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').ok_or_else(|| refuse(field))?;
            match name {
                "allowed" => allowed_ips.push(value.to_owned()),
                "preshared-key" if options.preshared_key.is_none() => {
                    options.preshared_key = Some(value);
                }
                "endpoint" if options.endpoint.is_empty() => options.endpoint = value,
                "keepalive" if options.keepalive == 0 => {
                    options.keepalive = number(value).ok_or_else(|| refuse(field))?;
                }
                _ => return Err(refuse(field)),
            }
        }
        Self::new(PeerOptions { allowed_ips: &allowed_ips, ..options })
    }

    /// Writes the peer as one word, with `secret` for the text of a secret key.
    pub(super) fn write(&self, word: &mut String, secret: fn(&SecretKey, &mut String)) {
        // Writing to a `String` does not fail.
        let _ = write!(word, "{}", self.public_key);
        if let Some(key) = &self.preshared_key {
            word.push_str(",preshared-key=");
            secret(key, word);
        }
        if let Some(endpoint) = self.endpoint {
            let _ = write!(word, ",endpoint={endpoint}");
        }
        if self.keepalive != 0 {
            let _ = write!(word, ",keepalive={}", self.keepalive);
        }
        for (address, length) in &self.allowed_ips {
            let _ = write!(word, ",allowed={address}/{length}");
        }
    }

    /// Its key.
    pub fn public_key(&self) -> PublicKey {
        self.public_key
    }

    /// The key that both have beside their own.
    pub fn preshared_key(&self) -> Option<&SecretKey> {
        self.preshared_key.as_ref()
    }

    /// Where it is; none if it comes to the node.
    pub fn endpoint(&self) -> Option<SocketAddr> {
        self.endpoint
    }

    /// The networks behind it.
    pub fn allowed_ips(&self) -> &[AllowedNetwork] {
        &self.allowed_ips
    }

    /// After how many seconds without a packet the node sends one; 0 for never.
    pub fn keepalive(&self) -> u16 {
        self.keepalive
    }
}

/// Reads a network. Each address may be in one.
fn network(word: &str) -> Result<AllowedNetwork, Refusal> {
    let (address, length) = split(word)?;
    match first(address, length) {
        start if start == address => Ok((address, length)),
        start => {
            let reason = format!("`{word}` has bits behind its prefix: `{start}/{length}`?");
            Err(Refusal::malformed(reason))
        }
    }
}

/// Reads `ADDRESS:PORT`. A name is none: it would have to be looked up again each time that its
/// address changes.
fn place(word: &str) -> Result<SocketAddr, Refusal> {
    let is_place = |place: &SocketAddr| {
        let address = place.ip();
        place.port() != 0 && !address.is_unspecified() && !address.is_multicast()
    };
    let place = word.parse().ok().filter(is_place);
    place.ok_or_else(|| {
        let start: String = word.chars().take(64).collect();
        let form = "`192.0.2.1:51820` or `[2001:db8::1]:51820`";
        Refusal::malformed(format!("`{start}` is not the endpoint of a peer: {form}"))
    })
}

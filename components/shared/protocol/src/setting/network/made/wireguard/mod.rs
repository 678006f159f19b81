//! Links of WireGuard: encrypted packets of IP between the node and its peers.

mod key;
mod peer;
mod state;

pub use key::{KEY, PublicKey, SecretKey};
pub use peer::{AllowedNetwork, PeerOptions, WireGuardPeer};
pub use state::{PeerState, WireGuardState};

use super::super::PacketMark;
use super::super::options::{Options, number};
use crate::Refusal;

/// The maximum number of peers.
const MAX_PEERS: usize = 32;
/// The maximum bytes of all words, which are part of one line of a request.
const MAX_WORDS: usize = 3584;

/// The word in the place of a private key that the node makes.
const OWN: &str = "own";

/// A link of WireGuard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireGuard {
    private_key: Option<SecretKey>,
    listen_port: Option<u16>,
    fwmark: Option<u32>,
    peers: Vec<WireGuardPeer>,
}

/// The words of a link.
#[derive(Clone, Copy, Debug)]
pub struct WireGuardOptions<'a> {
    /// The key of the node for this link, in base64; none if the node makes one.
    pub private_key: Option<&'a str>,
    /// The UDP port at which peers reach it; 0 for any.
    pub listen_port: u32,
    /// The mark of the encrypted packets; empty for none.
    pub fwmark: &'a str,
}

impl WireGuard {
    /// Reads the words of a link with these peers, which are in the order of their keys then.
    ///
    /// # Errors
    /// A word is malformed, two peers have one key or one network, or there are too many words.
    pub fn new(options: WireGuardOptions, mut peers: Vec<WireGuardPeer>) -> Result<Self, Refusal> {
        peers.sort_by_key(WireGuardPeer::public_key);
        let port = u16::try_from(options.listen_port);
        let link = Self {
            private_key: options
                .private_key
                .map(|word| SecretKey::parse("private key", word))
                .transpose()?,
            listen_port: port
                .map(|port| Some(port).filter(|port| *port != 0))
                .map_err(|_| Refusal::malformed("the `listenPort` of WireGuard is 1 to 65535"))?,
            fwmark: mark(options.fwmark)?,
            peers,
        };
        link.check().map(|()| link)
    }

    fn check(&self) -> Result<(), Refusal> {
        let refuse = |reason: String| Err(Refusal::malformed(reason));
        if self.peers.len() > MAX_PEERS {
            return refuse(format!("a link of WireGuard has at most {MAX_PEERS} peers"));
        }
        for (at, peer) in self.peers.iter().enumerate() {
            for other in &self.peers[at + 1..] {
                if peer.public_key() == other.public_key() {
                    return refuse(format!("the peer `{}` is there twice", peer.public_key()));
                }
                let mut networks = peer.allowed_ips().iter();
                if let Some((address, length)) =
                    networks.find(|network| other.allowed_ips().contains(network))
                {
                    return refuse(format!("`{address}/{length}` leads to two peers"));
                }
            }
        }
        match self.words().len() {
            0..=MAX_WORDS => Ok(()),
            length => refuse(format!(
                "the peers of the link need {length} bytes of a line that may have {MAX_WORDS}"
            )),
        }
    }

    /// Reads the options that [`Self::words`] writes.
    pub(super) fn of_options(options: &mut Options) -> Result<Self, Refusal> {
        let port = options.take("listen-port").map(|word| {
            let refuse = || Refusal::malformed("the `listen-port` of WireGuard is 1 to 65535");
            number::<u32>(word).filter(|port| *port != 0).ok_or_else(refuse)
        });
        let peers = options.take("peers").into_iter().flat_map(|peers| peers.split(';'));
        let peers = peers.map(WireGuardPeer::parse).collect::<Result<_, _>>()?;
        let words = WireGuardOptions {
            private_key: Some(options.expect("private-key")?).filter(|word| *word != OWN),
            listen_port: port.transpose()?.unwrap_or_default(),
            fwmark: options.take("fwmark").unwrap_or_default(),
        };
        Self::new(words, peers)
    }

    /// The options as words with one space between, with all secrets.
    pub(super) fn words(&self) -> String {
        self.written(|key, word| word.push_str(&key.reveal_base64()))
    }

    /// The options without secrets.
    pub(super) fn redacted(&self) -> String {
        self.written(|key, word| word.push_str(&key.to_string()))
    }

    fn written(&self, secret: fn(&SecretKey, &mut String)) -> String {
        let mut words = "private-key=".to_owned();
        match &self.private_key {
            Some(key) => secret(key, &mut words),
            None => words += OWN,
        }
        if let Some(port) = self.listen_port {
            words += &format!(" listen-port={port}");
        }
        if let Some(mark) = self.fwmark {
            words += &format!(" fwmark={mark:#x}");
        }
        for (at, peer) in self.peers.iter().enumerate() {
            words.push_str(if at == 0 { " peers=" } else { ";" });
            peer.write(&mut words, secret);
        }
        words
    }

    /// The key of the node for this link; none if the node makes one.
    pub fn private_key(&self) -> Option<&SecretKey> {
        self.private_key.as_ref()
    }

    /// The UDP port at which peers reach it; none if the kernel chooses one.
    pub fn listen_port(&self) -> Option<u16> {
        self.listen_port
    }

    /// The mark of the encrypted packets.
    pub fn fwmark(&self) -> Option<u32> {
        self.fwmark
    }

    /// Its peers, in the order of their keys.
    pub fn peers(&self) -> &[WireGuardPeer] {
        &self.peers
    }
}

/// Reads the mark of packets that the link sends: not a part of one.
fn mark(word: &str) -> Result<Option<u32>, Refusal> {
    let Some(word) = Some(word).filter(|word| !word.is_empty()) else { return Ok(None) };
    let mark = PacketMark::parse(word)?;
    match (mark.value(), mark.mask()) {
        (1.., u32::MAX) => Ok(Some(mark.value())),
        _ => Err(Refusal::malformed(format!("`{word}` is not the mark of a link of WireGuard"))),
    }
}

#[cfg(test)]
mod tests;

//! The output of captured packets: [`pcap`] makes files of them, [`summary`] lines of text.

pub mod pcap;
pub mod summary;

/// The kind of header that names the link of a packet, by its number in files of pcap. Packets with
/// another begin with one of Ethernet.
pub const COOKED: u32 = 276;

/// The bytes of the header of [`COOKED`], behind which that of the network is.
pub const COOKED_HEADER: usize = 20;

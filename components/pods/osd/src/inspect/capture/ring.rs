//! The ring of a packet socket (`TPACKET_V3`), to which the kernel writes blocks of packets.

use osbuild_cosi::v1::CapturedPacket;
use osbuild_packet_filter::Framing;
use osbuild_rtnetlink::{u16_at, u32_at};
use std::mem::offset_of;

/// The bytes of the header that says which link a packet passed (LINKTYPE_LINUX_SLL2).
const COOKED_HEADER: usize = 20;

/// The bytes of the addresses of Ethernet, behind which a VLAN tag stands, and of the tag.
const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// The protocol of a VLAN tag, unless the kernel names another.
const VLAN: u16 = 0x8100;

/// Where the kernel's description of a packet's link is, behind the header of the packet.
const LINK: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);

/// The packets in a block of a ring, the oldest first. One that the block does not hold ends them.
pub fn packets(block: &[u8], framing: Framing) -> impl Iterator<Item = CapturedPacket> {
    let header = offset_of!(libc::tpacket_block_desc, hdr);
    let number = |field: usize| u32_at(block, header + field).unwrap_or(0) as usize;
    let count = number(offset_of!(libc::tpacket_hdr_v1, num_pkts));
    let mut rest = block.get(number(offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt))..);
    let packets = (0..count).map_while(move |_| {
        let bytes = rest?;
        let next = u32_at(bytes, offset_of!(libc::tpacket3_hdr, tp_next_offset))? as usize;
        rest = bytes.get(next..);
        packet(bytes, framing)
    });
    packets.fuse()
}

/// The packet with its header at the start of these bytes.
fn packet(bytes: &[u8], framing: Framing) -> Option<CapturedPacket> {
    let number = |field: usize| u32_at(bytes, field);
    let seconds = u64::from(number(offset_of!(libc::tpacket3_hdr, tp_sec))?);
    let nanoseconds = u64::from(number(offset_of!(libc::tpacket3_hdr, tp_nsec))?);
    let kept = number(offset_of!(libc::tpacket3_hdr, tp_snaplen))? as usize;
    let length = number(offset_of!(libc::tpacket3_hdr, tp_len))?;
    let start = usize::from(u16_at(bytes, offset_of!(libc::tpacket3_hdr, tp_mac))?);
    let data = bytes.get(start..start.checked_add(kept)?)?;
    let data = match framing {
        Framing::Ethernet => match tag(bytes)? {
            Some(tag) if data.len() >= ADDRESSES => {
                [&data[..ADDRESSES], &tag, &data[ADDRESSES..]].concat()
            }
            _ => data.to_vec(),
        },
        Framing::Cooked => [&cooked_header(bytes)?[..], data].concat(),
    };
    let added = u32::try_from(data.len() - kept).ok()?;
    Some(CapturedPacket {
        time_nanoseconds: seconds * 1_000_000_000 + nanoseconds,
        length: length.saturating_add(added),
        data,
    })
}

/// The VLAN tag that the kernel has taken from the packet, if there was one.
fn tag(bytes: &[u8]) -> Option<Option<[u8; TAG]>> {
    let status = u32_at(bytes, offset_of!(libc::tpacket3_hdr, tp_status))?;
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return Some(None);
    }
    let about = offset_of!(libc::tpacket3_hdr, hv1);
    let tag = u32_at(bytes, about + offset_of!(libc::tpacket_hdr_variant1, tp_vlan_tci))?;
    let protocol = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => VLAN,
        _ => u16_at(bytes, about + offset_of!(libc::tpacket_hdr_variant1, tp_vlan_tpid))?,
    };
    let ([a, b], [c, d]) = (protocol.to_be_bytes(), (tag as u16).to_be_bytes());
    Some(Some([a, b, c, d]))
}

/// The header that says which link the packet passed, and where it came from.
fn cooked_header(bytes: &[u8]) -> Option<[u8; COOKED_HEADER]> {
    let link = bytes.get(LINK..LINK + size_of::<libc::sockaddr_ll>())?;
    let field = |offset: usize, length: usize| &link[offset..offset + length];
    let index = u32_at(link, offset_of!(libc::sockaddr_ll, sll_ifindex))?;
    let kind = u16_at(link, offset_of!(libc::sockaddr_ll, sll_hatype))?;
    let mut header = [0; COOKED_HEADER];
    // The protocol has the order of the network already.
    header[..2].copy_from_slice(field(offset_of!(libc::sockaddr_ll, sll_protocol), 2));
    header[4..8].copy_from_slice(&index.to_be_bytes());
    header[8..10].copy_from_slice(&kind.to_be_bytes());
    header[10] = link[offset_of!(libc::sockaddr_ll, sll_pkttype)];
    header[11] = link[offset_of!(libc::sockaddr_ll, sll_halen)];
    header[12..].copy_from_slice(field(offset_of!(libc::sockaddr_ll, sll_addr), 8));
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_that_does_not_fit_into_its_block_ends_them() {
        let mut block = vec![0u8; 4096];
        let header = offset_of!(libc::tpacket_block_desc, hdr);
        let mut put = |at: usize, number: u32| {
            block[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        };
        put(header + offset_of!(libc::tpacket_hdr_v1, num_pkts), 3);
        put(header + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt), 48);
        put(48 + offset_of!(libc::tpacket3_hdr, tp_next_offset), 200);
        put(48 + offset_of!(libc::tpacket3_hdr, tp_snaplen), 60);
        put(48 + offset_of!(libc::tpacket3_hdr, tp_len), 60);
        put(48 + offset_of!(libc::tpacket3_hdr, tp_mac), 82);
        put(248 + offset_of!(libc::tpacket3_hdr, tp_next_offset), u32::MAX);
        put(248 + offset_of!(libc::tpacket3_hdr, tp_snaplen), 4000);
        let lengths: Vec<u32> =
            packets(&block, Framing::Ethernet).map(|packet| packet.length).collect();
        assert_eq!(lengths, [60]);
    }

    proptest! {
        #[test]
        fn no_block_is_read_beyond_its_end(
            block in proptest::collection::vec(any::<u8>(), 0..400),
            count in 0u32..9,
            first in 0u32..300,
        ) {
            let mut block = block;
            if block.len() > 20 {
                block[12..16].copy_from_slice(&count.to_ne_bytes());
                block[16..20].copy_from_slice(&first.to_ne_bytes());
            }
            for framing in [Framing::Ethernet, Framing::Cooked] {
                for packet in packets(&block, framing) {
                    prop_assert!(packet.data.len() <= block.len() + COOKED_HEADER);
                }
            }
        }
    }
}

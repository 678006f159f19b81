//! Files of pcap (draft-ietf-opsawg-pcap), with times in nanoseconds.

use osbuild_cosi::v1::CapturedPacket;

/// How a file with times in nanoseconds begins; readers see by it in which order its bytes are.
const MAGIC: u32 = 0xa1b2_3c4d;

/// The version of the format, 2.4: the second number comes first.
const VERSION: u32 = 0x0004_0002;

const NANOSECONDS: u64 = 1_000_000_000;

/// The header of a file, whose packets begin with this kind of header.
pub fn header(link_type: u32, snap_length: u32) -> Vec<u8> {
    let numbers = [MAGIC, VERSION, 0, 0, snap_length, link_type];
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A packet with its header.
pub fn record(packet: &CapturedPacket) -> Vec<u8> {
    let seconds = packet.time_nanoseconds / NANOSECONDS;
    let rest = packet.time_nanoseconds % NANOSECONDS;
    let kept = packet.data.len();
    let numbers = [seconds as u32, rest as u32, kept as u32, packet.length];
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    numbers.chain(packet.data.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_header_and_one_of_each_packet() {
        let header = header(1, 262_144);
        assert_eq!(header[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(header[16..], [0, 0, 4, 0, 1, 0, 0, 0]);
        let time_nanoseconds = 2_000_000_003;
        let packet = CapturedPacket { time_nanoseconds, length: 60, data: vec![7; 2] };
        let expected = [2, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 60, 0, 0, 0, 7, 7];
        assert_eq!(record(&packet), expected);
    }
}

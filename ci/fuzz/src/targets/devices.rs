//! Texts of devices, such as the serial number of a USB stick.

use pod_osd::observed::device::text::{printable, vital_product_data};

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target = Target { name: "devices", seeds, run, memory: Memory::per_byte(4) };

/// The longest text that is shown.
const MAX_TEXT: usize = 256;

fn run(input: &[u8]) -> Outcome {
    let texts = [printable(input), vital_product_data(input)];
    for text in &texts {
        assert!(text.len() <= MAX_TEXT && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        assert_eq!(*text, printable(text.as_bytes()), "what is printable stays");
    }
    match texts.iter().all(String::is_empty) {
        true => Outcome::Refused,
        false => Outcome::Accepted,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    vec![b"\x00\x80\x00\x08  QM0001\n".to_vec(), b" DataTraveler\xff 3.0\0".to_vec(), Vec::new()]
}

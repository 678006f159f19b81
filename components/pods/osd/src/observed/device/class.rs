//! Names of the classes of PCI (PCI Code and ID Assignment Specification) and of USB (Defined Class
//! Codes).

const PCI: [(&str, &str); 20] = [
    ("01", "storage"),
    ("02", "network"),
    ("03", "display"),
    ("04", "multimedia"),
    ("05", "memory"),
    ("06", "bridge"),
    ("07", "communication"),
    ("08", "system"),
    ("09", "input"),
    ("0a", "docking-station"),
    ("0b", "processor"),
    ("0c", "serial-bus"),
    ("0d", "wireless"),
    ("0e", "intelligent"),
    ("0f", "satellite"),
    ("10", "encryption"),
    ("11", "signal-processing"),
    ("12", "accelerator"),
    ("13", "instrumentation"),
    ("40", "coprocessor"),
];

const USB: [(&str, &str); 15] = [
    ("01", "audio"),
    ("02", "communication"),
    ("03", "input"),
    ("06", "image"),
    ("07", "printer"),
    ("08", "storage"),
    ("09", "hub"),
    ("0a", "data"),
    ("0b", "smart-card"),
    ("0d", "content-security"),
    ("0e", "video"),
    ("0f", "health"),
    ("10", "audio-video"),
    ("dc", "diagnostic"),
    ("e0", "wireless"),
];

/// The name of a class of PCI, from its six digits. Empty if it has none here.
pub fn pci(id: &str) -> String {
    name(id, &PCI)
}

/// The same for USB, from its two digits.
pub fn usb(id: &str) -> String {
    name(id, &USB)
}

fn name(id: &str, names: &[(&str, &str)]) -> String {
    let found = names.iter().find(|(digits, _)| id.starts_with(digits));
    found.map_or_else(String::new, |(_, name)| (*name).to_owned())
}

//! The list of the packages that the image is made of.

use osbuild_abi::packages;
use pod_osd::observed::sbom_item::item;

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target = Target { name: "sbom_items", seeds, run, memory: Memory::per_byte(64) };

fn run(input: &[u8]) -> Outcome {
    let text = str::from_utf8(input).unwrap_or_default();
    let Some(found) = text.lines().next().and_then(item) else { return Outcome::Refused };
    assert!(!found.name.is_empty() && !found.components.is_empty());
    let mut line = String::new();
    let components = found.components.iter().map(String::as_str);
    packages::write(&mut line, &found.url, components).expect("a string accepts every write");
    assert_eq!(item(line.trim_end_matches('\n')), Some(found));
    Outcome::Accepted
}

fn seeds() -> Vec<Vec<u8>> {
    let lines = [
        "pkg:golang/k8s.io/kubernetes@v1.35.8 kubelet",
        "pkg:deb/debian/bison@2%3A3.8.2%2Bdfsg-1?arch=amd64 files",
        "pkg:cargo/libc@0.2.191 init,osd",
    ];
    lines.map(|line| line.as_bytes().to_vec()).into()
}

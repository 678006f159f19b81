//! qcow2 against qemu-img, and a property: each nonzero cluster is stored.

mod support;

use std::io::Cursor;
use std::process::Command;

use osbuild_formats::qcow2;
use proptest::prelude::*;
use support::tool;

const CLUSTER: usize = 64 << 10;

fn written(image: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let size = qcow2::write(&mut Cursor::new(image), image.len() as u64, &mut out).unwrap();
    assert_eq!(size, out.len() as u64);
    out
}

/// Checks that qemu-img reports no error and no lost cluster, and reads the image back.
fn is_read_back(image: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let (raw, copy) = (folder.path().join("raw"), folder.path().join("qcow2"));
    std::fs::write(&raw, image).unwrap();
    std::fs::write(&copy, written(image)).unwrap();
    let checked =
        tool("qemu-utils", Command::new("qemu-img").args(["check", "-f", "qcow2"]).arg(&copy));
    assert!(checked.contains("No errors were found"), "{checked}");
    let mut compare = Command::new("qemu-img");
    let compared = tool(
        "qemu-utils",
        compare.args(["compare", "-f", "raw", "-F", "qcow2"]).arg(&raw).arg(&copy),
    );
    assert!(compared.contains("Images are identical"), "{compared}");
    let about =
        tool("qemu-utils", Command::new("qemu-img").args(["info", "--output=json"]).arg(&copy));
    assert!(about.contains(&format!("\"virtual-size\": {},", image.len())), "{about}");
}

#[test]
fn qemu_img_reads_back_the_image() {
    let mut image = vec![0; 513 << 20];
    // The first byte, the last, both sides of a cluster's edge, and of the edge of a second-level
    // table.
    for at in [0, CLUSTER - 1, CLUSTER, (512 << 20) - 1, 512 << 20, (513 << 20) - 1] {
        image[at] = 1 + (at % 251) as u8;
    }
    is_read_back(&image);
}

#[test]
fn an_empty_image_and_a_partial_cluster_are_read_back() {
    is_read_back(&vec![0; 4 << 20]);
    let mut image = vec![0; CLUSTER * 3 + 512];
    image[CLUSTER * 3 + 511] = 7;
    is_read_back(&image);
}

#[test]
fn zeros_take_no_space_and_the_same_image_gives_the_same_bytes() {
    let mut image = vec![0; 64 << 20];
    image[10 << 20] = 1;
    // The header, two of reference counts, two tables, and the one cluster.
    assert_eq!(written(&image).len(), 6 * CLUSTER);
    assert!(written(&image) == written(&image));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn each_nonzero_cluster_is_stored_once(
        places in proptest::collection::btree_set(0usize..200, 0..40),
    ) {
        let mut image = vec![0; 200 * CLUSTER];
        for place in &places {
            let mark = (1 + *place as u64).to_be_bytes();
            image[place * CLUSTER..][..8].copy_from_slice(&mark);
        }
        let file = written(&image);
        let first = file.len() / CLUSTER - places.len();
        let mark = |cluster: &[u8]| u64::from_be_bytes(*cluster.first_chunk().unwrap());
        let stored: Vec<usize> = file[first * CLUSTER..]
            .chunks(CLUSTER)
            .map(|cluster| mark(cluster) as usize - 1)
            .collect();
        prop_assert_eq!(stored, Vec::from_iter(places));
    }
}

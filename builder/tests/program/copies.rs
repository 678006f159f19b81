//! `osbuild build --format`: other programs read the image from a copy.

use crate::builds::done;
use crate::loops::{run, tool};
use crate::scratch::{RECIPE, Scratch};
use crate::workshop::{open, open_with};
use std::fs;
use std::path::{Path, PathBuf};

/// Makes DATA with non-zero bytes.
const DATA: &str = r#"data() {
    truncate -s "${SIZE_MIB}M" data.ext4
    dd if=/usr/bin/busybox of=data.ext4 bs=64k seek=700 conv=notrunc 2>/dev/null
}
"#;

fn copy(scratch: &Scratch, format: &str) -> PathBuf {
    let ran = scratch.osbuild(&["build", RECIPE, "--format", format]);
    done(&ran);
    ran.stdout.trim().into()
}

fn image(scratch: &Scratch) -> PathBuf {
    scratch.project().join("out").join(RECIPE).join("image.raw")
}

#[test]
fn qemu_img_and_zstd_read_the_converted_images() {
    let scratch = open_with(DATA);
    assert_eq!(copy(&scratch, "raw"), image(&scratch));
    let qcow2 = copy(&scratch, "qcow2");
    assert_eq!(qcow2.file_name().unwrap(), "image.qcow2");
    assert!(
        run(tool("qemu-img").args(["check", "-f", "qcow2"]).arg(&qcow2))
            .contains("No errors were found")
    );
    let compared = run(tool("qemu-img")
        .args(["compare", "-f", "raw", "-F", "qcow2"])
        .arg(image(&scratch))
        .arg(&qcow2));
    assert!(compared.contains("Images are identical"), "{compared}");
    let zst = copy(&scratch, "raw.zst");
    assert_eq!(zst.file_name().unwrap(), "image.raw.zst");
    let unpacked = scratch.path("unpacked");
    run(tool("zstd").args(["--decompress", "--quiet"]).arg(&zst).arg("-o").arg(&unpacked));
    run(tool("cmp").arg(image(&scratch)).arg(&unpacked));
    let listed = run(tool("zstd").args(["--list", "-v"]).arg(&zst));
    assert!(listed.contains("Check: XXH64"), "{listed}");
    for (path, how) in [
        (&qcow2, "convert it: qemu-img convert"),
        (
            &zst,
            "decompress it: zstd \
    -d",
        ),
    ] {
        let ran = scratch.osbuild(&["inspect", &path.display().to_string()]);
        assert!(
            ran.code == Some(2) && ran.stderr.contains(&format!("hint: {how}")),
            "{}",
            ran.stderr
        );
    }
    for path in [&qcow2, &zst] {
        assert!(
            path.metadata().unwrap().len() < image(&scratch).metadata().unwrap().len() / 20,
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_copy_is_remade_only_when_the_image_changes() {
    let scratch = open();
    let first = copy(&scratch, "qcow2");
    let bytes = |path: &Path| fs::read(path).unwrap();
    let before = bytes(&first);
    let again = scratch.osbuild(&["build", RECIPE, "--format", "qcow2"]);
    assert!(!again.stderr.contains("image.qcow2"), "{}", again.stderr);
    fs::remove_dir_all(first.parent().unwrap()).unwrap();
    assert!(bytes(&copy(&scratch, "qcow2")) == before, "the same image gives a different copy");
    scratch.edit("boards/bench.toml", "data-size-mib = 160", "data-size-mib = 161");
    scratch.relock();
    done(&scratch.osbuild(&["build", RECIPE]));
    let left = fs::read_dir(first.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let left: Vec<_> = left.filter(|path| path.display().to_string().contains("qcow2")).collect();
    assert!(left.is_empty(), "a copy of an older image is beside the new one: {left:?}");
    assert!(bytes(&copy(&scratch, "qcow2")) != before, "the copy is of an older image");
}

#[test]
fn an_unknown_format_is_refused_with_a_list() {
    let ran = open().osbuild(&["build", RECIPE, "--format", "vmdk"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("[possible values: raw, raw.zst, qcow2]"), "{}", ran.stderr);
}

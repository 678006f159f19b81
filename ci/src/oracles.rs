//! The tools that the tests compare our code with. A missing tool is installed; without it no check
//! runs.

use osbuild::host::{Probe, Remedy, Tool, for_run, for_sources, for_steps};
use osbuild::plan::Architecture;

/// Program, Debian package, and purpose.
const ORACLES: &[(&str, &str, &str)] = &[
    ("busybox", "busybox-static", "is the only program in the sandboxes of our tests"),
    (
        "cert-to-efi-sig-list",
        "efitools",
        "writes lists and updates of Secure Boot that we compare ours with",
    ),
    ("cgpt", "cgpt", "reads the state of our slots"),
    ("cmark-gfm", "cmark-gfm", "renders our reports as sites with pull requests do"),
    ("cpio", "cpio", "unpacks our initramfs"),
    ("chronyd", "chrony", "serves the time to our SNTP client"),
    ("ctr", "containerd", "brings containerd into a state that a node has met"),
    ("curl", "curl", "asks the kubelet of a node for its logs"),
    ("dnsmasq", "dnsmasq-base", "serves leases to our DHCP client"),
    ("e2fsck", "e2fsprogs", "checks the file system of DATA"),
    ("faketime", "faketime", "gives a build another clock"),
    ("fsck.fat", "dosfstools", "checks our EFI system partition"),
    ("g++", "g++", "compiles the fuzzer"),
    ("git", "git", "lists the files of the checkout"),
    ("gpg", "gpg", "signs the archives that `apt-get` verifies in our tests"),
    ("ip", "iproute2", "makes the links for the tests of our DHCP client"),
    (
        "losetup",
        "mount",
        "lends the block devices that `mount`, `osbuild verify` and `osbuild flash` are tested on",
    ),
    ("mke2fs", "e2fsprogs", "puts something onto a disk that `osbuild flash` has to know again"),
    ("mkfs.erofs", "erofs-utils", "makes images that our reader has to understand"),
    ("mtype", "mtools", "reads files from our EFI system partition"),
    ("nsenter", "util-linux", "looks into the namespaces of our tests"),
    ("objdump", "binutils", "reads the sections of our UKI"),
    (
        "openssl",
        "openssl",
        "makes keys and signatures that our readers have to understand, and reads ours",
    ),
    ("osslsigncode", "osslsigncode", "computes the checksum of our UKI"),
    ("pgrep", "procps", "looks for processes that a build has left"),
    ("pip3", "python3-pip", "installs the tools that Debian does not have"),
    ("pkcs11-tool", "opensc", "makes keys in the token of our tests"),
    ("sbverify", "sbsigntool", "verifies the signature of our UKI as firmware would"),
    ("sfdisk", "fdisk", "reads our partition table"),
    ("sgdisk", "gdisk", "verifies our partition table"),
    ("skopeo", "skopeo", "finds the pods' images in our OCI layout"),
    ("softhsm2-util", "softhsm2", "is the token of our tests"),
    ("unshare", "util-linux", "keeps tests that mount away from the host"),
    ("zstd", "zstd", "packs the node that the benchmark puts together by hand"),
];

/// File, Debian package, and what it is for, where an oracle is no program.
const FILES: &[(&str, &str, &str)] = &[
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

/// Everything that `cargo ci` needs on this host.
pub fn all() -> Vec<Tool> {
    let oracles =
        ORACLES.iter().map(|(program, package, why)| Tool::package(program, package, why));
    let files = FILES.iter().map(|(file, package, why)| Tool {
        name: (*package).to_owned(),
        why: (*why).to_owned(),
        probe: Probe::AnyFile(vec![file.into()]),
        remedy: Remedy::Package((*package).to_owned()),
    });
    let program = |name: &str| Probe::Program(name.to_owned());
    let python = [
        Tool::pip(
            "virt-fw-vars",
            program("virt-fw-vars"),
            "virt-firmware==26.10",
            "reads the firmware's variables that we write",
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
            "is the cloud to which images are published",
        ),
        Tool::pip(
            "botocore",
            Probe::PythonModule("botocore".to_owned()),
            "botocore==1.43.11",
            "signs our calls to AWS independently, and validates them",
        ),
        Tool::pip(
            "boto3",
            Probe::PythonModule("boto3".to_owned()),
            "boto3==1.43.11",
            "reads what was published",
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
            "has the schema of the pipelines that users copy",
        ),
        Tool::pip(
            "python-tuf",
            Probe::PythonModule("tuf".to_owned()),
            "tuf==7.0.1",
            "reads our releases as any TUF client does",
        ),
    ];
    let target = Architecture::Arm64.rust_musl();
    let cross = Tool::rust_target(target, "shows that the node's crates compile for arm64");
    let uefi = Architecture::ALL
        .map(|architecture| Tool::rust_target(architecture.rust_uefi(), "compiles slotboot"));
    let ours = [for_steps(), for_sources(), for_run(Architecture::Amd64, true)].concat();
    ours.into_iter().chain(oracles).chain(files).chain(python).chain([cross]).chain(uefi).collect()
}

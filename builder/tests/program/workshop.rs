//! A project that builds in about a second: its sources are real archives, and its compilers are a
//! shell script whose output is real enough for the builder.

use crate::scratch::{RECIPE, Ran, Scratch};
use osbuild::engine::digest::Digest;
use std::fs;
use std::io::Cursor;
use std::process::Command;
use tar::{Builder, EntryType, Header};

/// The compilers, with a placeholder for a fault.
const COMPILERS: &str = include_str!("compilers.sh");

/// The programs of the sandbox, which are links to busybox.
const PROGRAMS: [&str; 14] = [
    "cat", "chmod", "cp", "dd", "env", "find", "grep", "kill", "mkdir", "sh", "sleep", "sort",
    "touch", "truncate",
];

/// A replacement of the compilers' function that makes layers which can be read.
const LAYER: &str = r#"
layer() {
    mkdir -p root
    while read -r mode path; do chmod "$mode" "root$path"; done <modes
    mkfs.erofs --quiet --all-root -T1 -U "$UUID" layer.erofs root
}
"#;

/// The numbers of ELF and PE for the board's architecture, arm64.
const ELF_MACHINE: u8 = 183;
const PE_MACHINE: [u8; 2] = [0x64, 0xAA];

/// The project with compilers that work and a store that has every source.
pub fn open() -> Scratch {
    open_with("")
}

/// The same with layers that can be read: this machine's mkfs.erofs makes them.
pub fn open_with_layers() -> Scratch {
    open_in(sandbox(LAYER).host("mkfs.erofs"))
}

/// The files of a launcher. Here they are no programs: no service needs one.
const LAUNCHER: [&str; 7] = [
    "bin/busybox",
    "usr/bin/bwrap",
    "lib64/ld-linux-x86-64.so.2",
    "lib/x86_64-linux-gnu/libc.so.6",
    "lib/x86_64-linux-gnu/libcap.so.2",
    "lib/x86_64-linux-gnu/libpcre2-8.so.0",
    "lib/x86_64-linux-gnu/libselinux.so.1",
];

/// The same with `fault`, lines of shell that replace a function of the compilers.
pub fn open_with(fault: &str) -> Scratch {
    open_in(sandbox(fault))
}

fn open_in(sandbox: Files) -> Scratch {
    let mut scratch = Scratch::new();
    scratch.set("PATH", std::env::var("PATH").unwrap());
    let pod = scratch.read("recipes/small.toml");
    let (pod, _) = pod[pod.find("[pods.hello]").unwrap()..].split_once("\n\n").unwrap();
    scratch.edit("recipes/small.toml", pod, "");
    for package in scratch.plan().requirements.sandbox {
        scratch.supply(&package.package, deb(Files::new()));
    }
    scratch.supply("bash", deb(sandbox));
    let launcher =
        LAUNCHER.iter().fold(Files::new(), |files, path| files.file(path, b"no program"));
    scratch.supply("bubblewrap", deb(launcher));
    scratch.supply("busybox-static", deb(Files::new()));
    scratch.supply(
        "systemd-boot-efi",
        deb(Files::new().file("usr/lib/systemd/boot/efi/linuxaa64.efi.stub", &image())),
    );
    scratch.supply(
        "ca-certificates",
        deb(Files::new().file("usr/share/ca-certificates/one", b"a certificate\n")),
    );
    scratch.supply(
        "toolchain go",
        zip::ZipWriter::new(Cursor::new(Vec::new())).finish().unwrap().into_inner(),
    );
    scratch.supply("toolchain rust", Files::new().0.into_inner().unwrap());
    workspace(&scratch);
    scratch.relock();
    scratch.fill_store_without("nothing");
    scratch
}

/// The digests of the last build's products.
pub fn products(scratch: &Scratch) -> Vec<Digest> {
    let out = scratch.project().join("out").join(RECIPE);
    ["image.raw", "node.efi", "initramfs.cpio"]
        .map(|name| Digest::of_file(&out.join(name)).unwrap())
        .to_vec()
}

/// The kernel that the compilers make, which no other step makes.
pub fn kernel() -> Digest {
    Digest::of(&kernel_image())
}

/// Each program that the compilers make for the host.
pub fn host_program() -> Digest {
    Digest::of(&program(false))
}

/// The dependencies that the compilers make for each program of the workspace.
pub fn dependencies() -> Digest {
    Digest::of(b"dependencies\n")
}

/// Packages of the project for cargo's steps: their sources are only read.
fn workspace(scratch: &Scratch) {
    let members = ["init", "mount", "pod-dhcp", "pod-pause", "slotboot"];
    let root = format!("[workspace]\nmembers = {members:?}\n");
    fs::write(scratch.project().join("Cargo.toml"), root).unwrap();
    for member in members {
        let folder = scratch.project().join(member);
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("Cargo.toml"), format!("[package]\nname = \"{member}\"\n")).unwrap();
        fs::write(folder.join("src/main.rs"), "fn main() {}\n").unwrap();
    }
}

/// The root of the sandbox.
fn sandbox(fault: &str) -> Files {
    let shell = fs::read("/bin/busybox").expect("Debian's package busybox-static is installed");
    let files = Files::new()
        .file("usr/bin/busybox", &shell)
        .file("usr/bin/bash", COMPILERS.replace("# FAULT\n", fault).as_bytes())
        .file("usr/lib/static", &program(false))
        .file("usr/lib/dynamic", &program(true))
        .file("usr/lib/kernel.efi", &kernel_image())
        .file("usr/lib/image.efi", &image());
    PROGRAMS.iter().fold(files, |files, name| files.link(&format!("usr/bin/{name}"), "busybox"))
}

/// The files of a package.
struct Files(Builder<Vec<u8>>);

impl Files {
    fn new() -> Self {
        Files(Builder::new(Vec::new()))
    }

    fn file(mut self, path: &str, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(content.len() as u64);
        self.0.append_data(&mut header, path, content).unwrap();
        self
    }

    /// A program of this machine with its libraries, at the same places (ldd(1)).
    fn host(self, program: &str) -> Self {
        let path = Ran::of(Command::new("which").arg(program)).stdout;
        let libraries = Ran::of(Command::new("ldd").arg(path.trim())).stdout;
        let libraries = libraries
            .lines()
            .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
        let merged =
            |path: &str| format!("usr/{}", path.trim_start_matches("/usr").trim_start_matches('/'));
        [path.trim()]
            .into_iter()
            .chain(libraries)
            .fold(self, |files, path| files.file(&merged(path), &fs::read(path).unwrap()))
    }

    fn link(mut self, path: &str, target: &str) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        self.0.append_link(&mut header, path, target).unwrap();
        self
    }
}

/// A package as in deb(5), with only the members that the builder reads.
fn deb(files: Files) -> Vec<u8> {
    let data = files.0.into_inner().unwrap();
    let header =
        format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "data.tar", 0, 0, 0, 100644, data.len());
    [b"!<arch>\n", header.as_bytes(), &data].concat()
}

/// An ELF file without code: static, or one that names an interpreter.
fn program(dynamic: bool) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    for (offset, value) in
        [(16, 2), (18, ELF_MACHINE), (20, 1), (32, 64), (52, 64), (54, 56), (56, u8::from(dynamic))]
    {
        bytes[offset] = value;
    }
    if dynamic {
        let mut segment = vec![0; 56];
        segment[0] = 3;
        bytes.extend(segment);
    }
    bytes
}

/// The image of the kernel: a whole store would give a damaged one back as another step's result
/// if both had the same bytes.
fn kernel_image() -> Vec<u8> {
    let mut image = image();
    *image.last_mut().expect("an image has a section") = 1;
    image
}

/// A PE image with one section, which is used as the stub and slotboot.
pub fn image() -> Vec<u8> {
    let mut image = vec![0; 0x1400];
    let mut put =
        |offset: usize, bytes: &[u8]| image[offset..offset + bytes.len()].copy_from_slice(bytes);
    put(0, b"MZ");
    put(0x3C, &0x40u32.to_le_bytes());
    put(0x40, b"PE\0\0");
    put(0x44, &PE_MACHINE);
    put(0x46, &[1]);
    put(0x54, &[160, 0, 0x06, 0x02, 0x0B, 0x02]);
    for (offset, value) in
        [(32, 0x1000), (36, 0x200), (56, 0x3000), (60, 0x1000), (68, 10), (108, 6)]
    {
        put(0x58 + offset, &u32::to_le_bytes(value));
    }
    put(0xF8, b".text\0\0\0");
    for (offset, value) in [(8, 0x333u32), (12, 0x1000), (16, 0x400), (20, 0x1000)] {
        put(0xF8 + offset, &value.to_le_bytes());
    }
    image
}

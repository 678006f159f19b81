//! What a stub or a boot loader would read though nobody signed it: files on the EFI system
//! partition, and strings that the machine's owner gives. Each has a word of its own, by which a
//! UKI that tells shows whether it came through.

use super::lab::{Lab, PATIENCE, signed};
use crate::check::Verdict;
use crate::site::Site;
use crate::vm::teller::{self, COMMAND_LINE, END, EXTRA, SMBIOS, STUB};
use osbuild::error::{Context, Result};
use osbuild::plan::Architecture;
use osbuild::produce::image::removable_path;
use osbuild::ship::keys::Keys;
use osbuild::ship::vm::machine::SecureBoot;
use osbuild_formats::fat::File;
use osbuild_formats::pe::{self, NewSection};
use osbuild_formats::uki;
use std::fs;

/// systemd's boot loader, which reads all that ours must not, of the package with the stub.
const LOADER: &str = "/usr/lib/systemd/boot/efi/systemd-bootx64.efi";

/// Where the UKI stands that this loader starts.
const BESIDE: &str = "EFI/osbuild/teller.efi";

/// What QEMU is started with: a command line as newer stubs take it, and a credential in both ways
/// in which systemd does.
const STRINGS: &[&str] = &[
    "-smbios",
    "type=11,value=io.systemd.stub.kernel-cmdline-extra=osbuild.by-smbios",
    "-smbios",
    "type=11,value=io.systemd.credential:osbuild.by-smbios-credential=1",
    "-fw_cfg",
    "name=opt/io.systemd.credentials/osbuild.by-fw-cfg,string=1",
];

/// What is claimed: the name, the word, and whether systemd's own loader with its stub of Debian 12
/// lets the word through where the firmware verifies nothing. That stub knows no addons and no
/// strings of the machine.
const CLAIMS: &[(&str, &str, bool)] = &[
    ("cred_on_esp_is_ignored", "by-cred", true),
    ("global_cred_on_esp_is_ignored", "by-global-cred", true),
    ("sysext_on_esp_is_ignored", "by-sysext", true),
    ("confext_on_esp_is_ignored", "by-confext", true),
    ("loader_conf_on_esp_is_ignored", "by-loader-conf", true),
    ("addon_on_esp_is_ignored", "by-addon", false),
    ("global_addon_on_esp_is_ignored", "by-global-addon", false),
    ("command_line_by_smbios_is_ignored", "by-smbios", false),
    ("cred_by_smbios_is_ignored", "by-smbios-credential", false),
    ("cred_by_fw_cfg_is_ignored", "by-fw-cfg", false),
];

/// What is laid on the disk beside what the firmware starts.
struct Laid {
    uki: Vec<u8>,
    addon: Vec<u8>,
}

/// Starts one UKI twice beside the same files: by slotboot with Secure Boot enforced, where nothing
/// of them may come through, and by systemd's loader without it, where what it reads has to.
pub fn nothing_beside_the_uki_is_read(site: &Site) -> Result<Verdict> {
    let lab = Lab::open(site)?;
    let keys = lab.keys("ours", lab.terms())?;
    let laid = Laid { uki: signed(&teller::uki(&lab.unsigned)?, &keys)?, addon: addon(&keys)? };
    let ours = signed(&lab.slotboot()?, &keys)?;
    let theirs = fs::read(LOADER).or_build(|| format!("cannot read `{LOADER}`"))?;
    let attacked = tells(&lab, "beside", &ours, &laid, SecureBoot::enforced(keys.trust()?))?;
    let control = tells(&lab, "beside-control", &theirs, &laid, SecureBoot::Off)?;

    let line = uki::read(&lab.unsigned).or_build(|| "cannot read the UKI".to_owned())?.command_line;
    let as_signed = attacked.contains(&format!("{COMMAND_LINE}{}\n", line.trim_end()));
    let others = [
        ("the_command_line_is_the_one_that_was_signed", as_signed),
        ("the_stub_adds_no_file", !attacked.contains(EXTRA)),
        (
            "the_machine_has_the_strings_that_are_ignored",
            attacked.contains(&format!("{SMBIOS}2\n")),
        ),
    ];
    let mut verdict = Verdict::default();
    for (name, word, comes_through) in CLAIMS {
        verdict.claim(name, judge(word, *comes_through, &attacked, &control));
    }
    for (name, holds) in others {
        verdict.claim(name, if holds { Ok(()) } else { Err(attacked.clone()) });
    }
    Ok(verdict)
}

/// The word has to be absent where it was an attack, and where it was none, to come through if it
/// can be shown to do so at all.
fn judge(
    word: &str,
    comes_through: bool,
    attacked: &str,
    control: &str,
) -> std::result::Result<(), String> {
    let has = |told: &str| {
        lines(told).any(|line| line.split(['.', '/', ' ', '=']).any(|part| part == word))
    };
    match (has(attacked), has(control)) {
        (true, _) => Err(format!("the node was told `{word}`: {attacked}")),
        (false, found) if found == comes_through => Ok(()),
        (false, true) => Err(format!("this stub reads `{word}`, which was not known: {control}")),
        (false, false) => {
            Err(format!("`{word}` shows nothing, as it has no effect elsewhere either: {control}"))
        }
    }
}

/// What the UKI told, among what else was on the console.
fn lines(told: &str) -> impl Iterator<Item = &str> {
    told.lines().filter(|line| [COMMAND_LINE, EXTRA].iter().any(|start| line.starts_with(start)))
}

/// Boots from such a disk, and gives what the UKI tells.
fn tells(
    lab: &Lab,
    name: &str,
    program: &[u8],
    laid: &Laid,
    secure_boot: SecureBoot,
) -> Result<String> {
    let removable = removable_path(Architecture::Amd64);
    let mut files = vec![
        laid_file(removable, program),
        laid_file(BESIDE, &laid.uki),
        laid_file("loader/loader.conf", b"timeout 0\ndefault chosen.conf\n"),
        laid_file("loader/entries/chosen.conf", entry("osbuild.by-loader-conf").as_bytes()),
        laid_file("loader/entries/other.conf", entry("osbuild.by-another").as_bytes()),
        laid_file("loader/credentials/osbuild.by-global-cred.cred", b"1"),
        laid_file("loader/addons/osbuild.by-global-addon.addon.efi", &laid.addon),
    ];
    for uki in [removable, BESIDE] {
        let file = |name: &str, bytes| laid_file(&format!("{uki}.extra.d/osbuild.{name}"), bytes);
        files.push(file("by-cred.cred", b"1"));
        files.push(file("by-sysext.raw", b"1"));
        files.push(file("by-confext.confext.raw", b"1"));
        files.push(file("by-addon.addon.efi", &laid.addon));
    }
    let mut node = lab.start(name, &files, Some(&laid.uki), secure_boot, STRINGS)?;
    node.hear(END, PATIENCE)?;
    node.power_off()?;
    lab.said(name)
}

fn laid_file(path: &str, bytes: &[u8]) -> File<Vec<u8>> {
    File { path: format!("/{path}"), bytes: bytes.to_vec() }
}

/// A boot entry with a word more on the command line.
fn entry(word: &str) -> String {
    format!("title node\nefi /{BESIDE}\noptions console=ttyS0 no_timer_check {word}\n")
}

/// A signed addon with a word more for the command line: even what somebody signed for another
/// machine is not read.
fn addon(keys: &Keys) -> Result<Vec<u8>> {
    let cannot = || "cannot make an addon".to_owned();
    let stub = fs::read(STUB).or_build(cannot)?;
    let data = b"osbuild.by-addon osbuild.by-global-addon";
    let words =
        NewSection { name: ".cmdline", data, virtual_size: 0, characteristics: pe::READ_ONLY_DATA };
    signed(&pe::append(&stub, &[words]).or_build(cannot)?, keys)
}

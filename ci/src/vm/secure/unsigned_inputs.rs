//! Unsigned inputs that a stub or a boot loader could read: files on the EFI system partition, and
//! strings from the hypervisor. Each contains a unique word; the echo UKI shows which words reached
//! the kernel.

use super::lab::{Lab, signed};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::echo_uki::{self, COMMAND_LINE, END, EXTRA, SMBIOS, STUB};
use osbuild::error::{Context, Result};
use osbuild::plan::Architecture;
use osbuild::produce::image::removable_path;
use osbuild::ship::keys::Keys;
use osbuild::ship::vm::machine::SecureBoot;
use osbuild_formats::fat::File;
use osbuild_formats::pe::{self, NewSection};
use osbuild_formats::uki;
use std::fs;

/// systemd's boot loader, from the package with the stub. It reads every input that slotboot
/// ignores.
const LOADER: &str = "/usr/lib/systemd/boot/efi/systemd-bootx64.efi";

/// The UKI that this loader starts.
const LOADED: &str = "EFI/osbuild/echo.efi";

/// QEMU's arguments: a command line as newer stubs read it, and a credential on both of systemd's
/// ways.
const STRINGS: &[&str] = &[
    "-smbios",
    "type=11,value=io.systemd.stub.kernel-cmdline-extra=osbuild.by-smbios",
    "-smbios",
    "type=11,value=io.systemd.credential:osbuild.by-smbios-credential=1",
    "-fw_cfg",
    "name=opt/io.systemd.credentials/osbuild.by-fw-cfg,string=1",
];

/// The claims: name, word, and whether systemd's own loader with the stub of Debian 12 passes the
/// word on if the firmware does not verify. That stub supports neither addons nor strings.
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

/// The claims about the whole console: the stub adds nothing, and the control's strings are there.
const OTHERS: [&str; 3] = [
    "the_command_line_is_the_one_that_was_signed",
    "the_stub_adds_no_file",
    "the_machine_has_the_strings_that_are_ignored",
];

/// The names of all claims.
pub fn claims() -> impl Iterator<Item = &'static str> {
    CLAIMS.iter().map(|(name, ..)| *name).chain(OTHERS)
}

/// Files on the disk besides the program that the firmware starts.
struct Inputs {
    uki: Vec<u8>,
    addon: Vec<u8>,
}

/// Starts the echo UKI twice beside the same inputs: from slotboot with Secure Boot enforced, where
/// no word may reach the kernel, and from systemd's loader without it, as the control.
pub fn nothing_beside_the_uki_is_read(site: &Site) -> Result<Outcome> {
    let lab = Lab::open(site)?;
    let keys = lab.keys("ours", lab.terms())?;
    let uki = signed(&echo_uki::uki(&lab.unsigned)?, &keys)?;
    let inputs = Inputs { uki, addon: addon(&keys)? };
    let ours = signed(&lab.slotboot()?, &keys)?;
    let theirs = fs::read(LOADER).or_build(|| format!("cannot read `{LOADER}`"))?;
    let enforced = SecureBoot::enforced(keys.trust()?);
    let attacked = console(&lab, "beside", &ours, &inputs, enforced)?;
    let control = console(&lab, "beside-control", &theirs, &inputs, SecureBoot::Off)?;

    let line = uki::read(&lab.unsigned).or_build(|| "cannot read the UKI".to_owned())?.command_line;
    let others = [
        attacked.contains(&format!("{COMMAND_LINE}{}\n", line.trim_end())),
        !attacked.contains(EXTRA),
        attacked.contains(&format!("{SMBIOS}2\n")),
    ];
    let mut outcome = Outcome::default();
    for (name, word, passes_in_control) in CLAIMS {
        outcome.claim(name, check(word, *passes_in_control, &attacked, &control));
    }
    for (name, holds) in OTHERS.iter().zip(others) {
        outcome.check(name, holds, || attacked.clone());
    }
    Ok(outcome)
}

/// The word must not reach the kernel in the attack. In the control it must reach the kernel
/// exactly if `passes_in_control`.
fn check(
    word: &str,
    passes_in_control: bool,
    attacked: &str,
    control: &str,
) -> std::result::Result<(), String> {
    let has = |console: &str| {
        lines(console).any(|line| line.split(['.', '/', ' ', '=']).any(|part| part == word))
    };
    match (has(attacked), has(control)) {
        (true, _) => Err(format!("`{word}` reached the node: {attacked}")),
        (false, found) if found == passes_in_control => Ok(()),
        (false, true) => Err(format!("the control's stub reads `{word}` too: {control}")),
        (false, false) => Err(format!("`{word}` did not reach the control either: {control}")),
    }
}

/// The echo UKI's lines on the console.
fn lines(console: &str) -> impl Iterator<Item = &str> {
    console.lines().filter(|line| [COMMAND_LINE, EXTRA].iter().any(|start| line.starts_with(start)))
}

/// Boots `program` beside the inputs, and returns the console.
fn console(
    lab: &Lab,
    name: &str,
    program: &[u8],
    inputs: &Inputs,
    secure_boot: SecureBoot,
) -> Result<String> {
    let removable = removable_path(Architecture::Amd64);
    let mut files = vec![
        file(removable, program),
        file(LOADED, &inputs.uki),
        file("loader/loader.conf", b"timeout 0\ndefault chosen.conf\n"),
        file("loader/entries/chosen.conf", entry("osbuild.by-loader-conf").as_bytes()),
        file("loader/entries/other.conf", entry("osbuild.by-another").as_bytes()),
        file("loader/credentials/osbuild.by-global-cred.cred", b"1"),
        file("loader/addons/osbuild.by-global-addon.addon.efi", &inputs.addon),
    ];
    for uki in [removable, LOADED] {
        let extra = |name: &str, bytes| file(&format!("{uki}.extra.d/osbuild.{name}"), bytes);
        files.push(extra("by-cred.cred", b"1"));
        files.push(extra("by-sysext.raw", b"1"));
        files.push(extra("by-confext.confext.raw", b"1"));
        files.push(extra("by-addon.addon.efi", &inputs.addon));
    }
    let mut node = lab.start(name, &files, Some(&inputs.uki), secure_boot, STRINGS)?;
    node.wait_for(END)?;
    node.power_off()?;
    lab.console(name)
}

fn file(path: &str, bytes: &[u8]) -> File<Vec<u8>> {
    File { path: format!("/{path}"), bytes: bytes.to_vec() }
}

/// A boot entry with one more word on the command line.
fn entry(word: &str) -> String {
    format!("title node\nefi /{LOADED}\noptions console=ttyS0 no_timer_check {word}\n")
}

/// A signed addon for the command line: slotboot's stub reads no addon, not even a signed one.
fn addon(keys: &Keys) -> Result<Vec<u8>> {
    let cannot = || "cannot make an addon".to_owned();
    let stub = fs::read(STUB).or_build(cannot)?;
    let data = b"osbuild.by-addon osbuild.by-global-addon";
    let words =
        NewSection { name: ".cmdline", data, virtual_size: 0, characteristics: pe::READ_ONLY_DATA };
    signed(&pe::append(&stub, &[words]).or_build(cannot)?, keys)
}

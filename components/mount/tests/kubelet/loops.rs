//! The loop devices that a scene has attached, as util-linux lists them.

use crate::namespace::private;
use mount::guard;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const LOSETUP: &str = "/sbin/losetup";

/// Prints a device's status as the kernel's ioctl returns it, because sysfs is hidden.
const STATUS: &str = r#"mount -t tmpfs none /sys && exec /sbin/losetup "$0""#;

/// Runs a program called `losetup` where there are no device files.
const WITHOUT_DEVICES: &str = r#"mount -t tmpfs none /dev && exec -a losetup "$0" -f "$1""#;

#[derive(Deserialize)]
struct List {
    loopdevices: Vec<Value>,
}

/// An attached device.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Attached {
    /// The path of the device.
    pub name: String,
    sizelimit: u64,
    offset: u64,
    autoclear: bool,
    partscan: bool,
    ro: bool,
    dio: bool,
    #[serde(rename = "log-sec")]
    sector: u64,
    back_file: Option<String>,
}

impl Attached {
    /// Everything about it but its name.
    pub fn describe(&self) -> String {
        let mut command = Command::new("unshare");
        let status = run(command.args(["--mount", "sh", "-c", STATUS, &self.name]));
        let (_, file) = status.split_once(" (").unwrap_or_else(|| panic!("{status}"));
        let Attached { sizelimit, offset, autoclear, partscan, ro, dio, sector, back_file, .. } =
            self;
        format!(
            "{back_file:?} ({file}: {offset}+{sizelimit} autoclear={autoclear} \
             partscan={partscan} ro={ro} dio={dio} sector={sector}"
        )
    }

    /// Detaches it.
    pub fn detach(&self) {
        run(Command::new(LOSETUP).args(["--detach", &self.name]));
    }
}

/// The devices that are attached to these files and to those below `folder`.
pub fn attached(folder: &Path, files: &[&str]) -> Vec<Attached> {
    let list = run(Command::new(LOSETUP).args(["--list", "--json", "--output-all"]));
    if list.trim().is_empty() {
        return Vec::new();
    }
    let list: List = serde_json::from_str(&list).unwrap_or_else(|error| panic!("{error}: {list}"));
    // Another program may detach a device of its own while the list is made, which has gaps then.
    let is_own = |device: &Value| {
        let file = device["back-file"].as_str().unwrap_or_default();
        Path::new(file).starts_with(folder) || files.contains(&file)
    };
    let own = list.loopdevices.into_iter().filter(is_own);
    own.map(|device| serde_json::from_value(device).unwrap()).collect()
}

#[test]
fn without_device_files_util_linux_has_the_same_message() {
    let folder = tempfile::tempdir().unwrap();
    let [ours, theirs] = [env!("CARGO_BIN_EXE_mount"), LOSETUP].map(|program| {
        private(folder.path(), || {
            let mut command = Command::new("bash");
            command.args(["-c", WITHOUT_DEVICES, program, "/proc/version"]);
            let output = command.env(guard::KEY, guard::VALUE).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        })
    });
    assert_eq!(ours, theirs);
    assert_eq!(ours.0, Some(1));
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

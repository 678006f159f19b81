//! What the installer is to do: the file `installer.toml`, which people write.

use std::collections::BTreeMap;

use osbuild_failure::{Failure, Outcome};
use serde::Deserialize;

/// The whole file. Whatever it does not say is off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// Whether to install without anybody's word on the console.
    #[serde(default)]
    pub unattended: bool,
    /// How many seconds before it begins.
    #[serde(default = "countdown_s")]
    pub countdown_s: u32,
    /// Whether to give the firmware the keys in the folder `keys` of the stick, if it is in setup
    /// mode.
    #[serde(default)]
    pub enroll_keys: bool,
    /// Whether a disk that holds a node already may be erased.
    #[serde(default)]
    pub replace_node: bool,
    /// Which disk. Without this section nothing is installed.
    pub disk: Option<Rule>,
    /// What is put onto the new DATA: files of the stick by the path that they have on the node.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// What is known of the disk. It must not fit a second one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rule {
    /// What it is connected to: `nvme`, `sata`, `scsi`, `virtio`, `mmc`, `usb`.
    pub bus: Option<String>,
    /// Its model, in which `*` stands for anything.
    pub model: Option<String>,
    /// Its serial number, in which `*` stands for anything.
    pub serial: Option<String>,
    /// Its least size, in units of 2^30 bytes.
    pub min_size_gib: Option<u64>,
    /// Its greatest size, in units of 2^30 bytes.
    pub max_size_gib: Option<u64>,
}

/// As long as it takes to see that it is the wrong disk.
fn countdown_s() -> u32 {
    10
}

impl Settings {
    /// Reads the file, of which people know the name.
    ///
    /// # Errors
    /// One line that says where it is wrong.
    pub fn read(name: &str, bytes: &[u8]) -> Outcome<Settings> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Failure::new(format!("{name} is not UTF-8 text")))?;
        // Editors of some systems begin a file with a mark of its encoding.
        toml::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            Failure::new(format!("{name}:{line}: {}", error.message().replace('\n', ", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_nobody_asks_for_is_off() {
        assert_eq!(
            Settings::read("x", b"").unwrap(),
            Settings { countdown_s: 10, ..Settings::default() }
        );
    }

    #[test]
    fn every_key_is_read() {
        // As an editor writes it that marks its encoding and ends a line as DOS did. The builder's
        // tests read it, too.
        let text = include_bytes!("../tests/every-key.toml");
        let text_of = |text: &str| Some(text.to_owned());
        let disk = Rule {
            bus: text_of("nvme"),
            model: text_of("A*"),
            serial: text_of("1"),
            min_size_gib: Some(8),
            max_size_gib: Some(9),
        };
        let files = BTreeMap::from([("/etc/kubernetes/kubeconfig".to_owned(), "k".to_owned())]);
        let all = Settings {
            unattended: true,
            countdown_s: 3,
            enroll_keys: true,
            replace_node: true,
            disk: Some(disk),
            files,
        };
        assert_eq!(Settings::read("x", text).unwrap(), all);
    }

    #[test]
    fn a_slip_is_named_with_its_line_and_nothing_else_counts() {
        let said =
            Settings::read("installer.toml", b"unattended = true\n[disk]\nbuss = \"nvme\"\n")
                .unwrap_err()
                .to_string();
        assert!(said.starts_with("installer.toml:3: unknown field `buss`"), "{said}");
        assert!(Settings::read("x", b"\xFF").unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn the_file_that_comes_with_a_stick_installs_nothing() {
        let settings =
            Settings::read("installer.toml", include_bytes!("../installer.toml")).unwrap();
        assert_eq!(settings, Settings { countdown_s: 10, ..Settings::default() });
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = Settings::read("x", &bytes);
        }
    }
}

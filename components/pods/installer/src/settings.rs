//! The installer's settings: `installer.toml`, which users edit.

use std::collections::BTreeMap;

use osbuild_failure::{Failure, Outcome};
use serde::{Deserialize, Serialize};

/// The whole file. Every missing key means off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// Whether to install without confirmation at the console.
    #[serde(default)]
    pub unattended: bool,
    /// Seconds to count down before the first write.
    #[serde(default = "countdown_s")]
    pub countdown_s: u32,
    /// Whether to give the firmware the keys in the folder `keys` of the stick, if it is in setup
    /// mode.
    #[serde(default)]
    pub enroll_keys: bool,
    /// Whether a disk that already holds a node may be erased.
    #[serde(default)]
    pub replace_node: bool,
    /// The rule for the disk. Without it nothing is installed.
    pub disk: Option<Rule>,
    /// Files of the stick to copy to the new DATA: the path on the node to the path on the stick.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// A rule that must fit exactly one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rule {
    /// The bus that it is connected to: `nvme`, `sata`, `scsi`, `virtio`, `mmc`, `usb`.
    pub bus: Option<String>,
    /// Its model; `*` matches any text.
    pub model: Option<String>,
    /// Its serial number; `*` matches any text.
    pub serial: Option<String>,
    /// Its minimum size in units of 2^30 bytes.
    pub min_size_gib: Option<u64>,
    /// Its maximum size in units of 2^30 bytes.
    pub max_size_gib: Option<u64>,
}

/// Enough time to notice that it is the wrong disk.
fn countdown_s() -> u32 {
    10
}

impl Settings {
    /// Parses the file. `name` is its name in errors.
    ///
    /// # Errors
    /// One line with the place of the first mistake.
    pub fn read(name: &str, bytes: &[u8]) -> Outcome<Settings> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Failure::new(format!("{name} is not UTF-8 text")))?;
        // Some editors write a byte order mark.
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
    fn everything_is_off_by_default() {
        assert_eq!(
            Settings::read("x", b"").unwrap(),
            Settings { countdown_s: 10, ..Settings::default() }
        );
    }

    #[test]
    fn every_key_is_read() {
        // The file has a byte order mark and DOS line ends. The builder's tests read it too.
        let text = include_bytes!("../tests/every-key.toml");
        let text_of = |text: &str| Some(text.to_owned());
        let disk = Rule {
            bus: text_of("nvme"),
            model: text_of("A*"),
            serial: text_of("1"),
            min_size_gib: Some(8),
            max_size_gib: Some(9),
        };
        let files = BTreeMap::from([("/etc/kubernetes/kubelet.conf".to_owned(), "k".to_owned())]);
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
    fn a_mistake_is_reported_with_its_line() {
        let error =
            Settings::read("installer.toml", b"unattended = true\n[disk]\nbuss = \"nvme\"\n")
                .unwrap_err()
                .to_string();
        assert!(error.starts_with("installer.toml:3: unknown field `buss`"), "{error}");
        assert!(Settings::read("x", b"\xFF").unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn the_default_file_installs_nothing() {
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

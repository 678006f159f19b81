//! The storage drivers of the node, lines of the node's state.

use crate::fields::{number, printable, value};
use crate::setting::escape::{escaped, unescape};

/// The maximum number of drivers.
pub const MAX_DRIVERS: usize = 64;
/// The maximum characters of a text. A name of a driver has at most 63.
const MAX_TEXT: usize = 160;

/// The keys of the lines: of the number of drivers, and of each.
const COUNT: &str = "storage-drivers";
const DRIVER: &str = "storage-driver";

/// The storage drivers that pods have put on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageDrivers {
    /// How many are missing because there are more than [`MAX_DRIVERS`].
    pub left_out: u64,
    /// The others.
    pub drivers: Vec<StorageDriver>,
}

/// A storage driver (CSI).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageDriver {
    /// Its name, as its socket or its folder has it.
    pub name: String,
    /// The socket at which the kubelet finds it; none if it has none.
    pub registration: Option<DriverSocket>,
    /// The socket at which the kubelet uses it; none if there is none of this name.
    pub endpoint: Option<DriverSocket>,
}

/// A socket of a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverSocket {
    /// Its path.
    pub path: String,
    /// Whether a process listens at it.
    pub listens: bool,
}

impl StorageDrivers {
    /// The lines for them. Texts are cut.
    pub fn encode(&self) -> String {
        let drivers = self.drivers.iter().take(MAX_DRIVERS);
        let cut = self.drivers.len().saturating_sub(MAX_DRIVERS) as u64;
        let mut lines = format!("{COUNT} left-out={}\n", self.left_out.saturating_add(cut));
        for StorageDriver { name, registration, endpoint } in drivers {
            let mut line = format!("{DRIVER} name={}", word(name));
            for (key, socket) in [("registration", registration), ("endpoint", endpoint)] {
                if let Some(DriverSocket { path, listens }) = socket {
                    let listens = u8::from(*listens);
                    line = format!("{line} {key}={} {key}-listens={listens}", word(path));
                }
            }
            lines = format!("{lines}{line}\n");
        }
        lines
    }

    /// Finds the lines among others; `None` if there are none.
    pub fn decode<'t>(lines: impl Iterator<Item = &'t str>) -> Option<Self> {
        let (mut left_out, mut drivers) = (None, Vec::new());
        for (key, fields) in lines.filter_map(|line| line.split_once(' ')) {
            match key {
                COUNT => left_out = number(fields, "left-out"),
                DRIVER if drivers.len() < MAX_DRIVERS => drivers.extend(driver(fields)),
                _ => {}
            }
        }
        Some(Self { left_out: left_out?, drivers })
    }
}

fn driver(fields: &str) -> Option<StorageDriver> {
    let socket = |key: &str| {
        let path = unescape(value(fields, key)?)?;
        let listens = value(fields, &format!("{key}-listens"))? == "1";
        Some(DriverSocket { path, listens })
    };
    let name = unescape(value(fields, "name")?).filter(|name| !name.is_empty())?;
    let (registration, endpoint) = (socket("registration"), socket("endpoint"));
    Some(StorageDriver { name, registration, endpoint })
}

/// The word for a name that a pod has chosen.
fn word(text: &str) -> String {
    escaped(&printable(&text.chars().take(MAX_TEXT).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_read_as_they_were_written() {
        let socket = |path: &str, listens| Some(DriverSocket { path: path.to_owned(), listens });
        let drivers = vec![
            StorageDriver {
                name: "ebs.csi.aws.com".to_owned(),
                registration: socket("/r/ebs.csi.aws.com-reg.sock", true),
                endpoint: socket("/p/ebs.csi.aws.com/csi.sock", false),
            },
            StorageDriver { name: "a b".to_owned(), ..StorageDriver::default() },
        ];
        let found = StorageDrivers { left_out: 3, drivers };
        let text = found.encode();
        assert_eq!(
            text,
            "storage-drivers left-out=3\nstorage-driver name=ebs.csi.aws.com \
             registration=/r/ebs.csi.aws.com-reg.sock registration-listens=1 \
             endpoint=/p/ebs.csi.aws.com/csi.sock endpoint-listens=0\nstorage-driver name=a%20b\n"
        );
        assert_eq!(StorageDrivers::decode(text.lines()), Some(found));
        assert_eq!(StorageDrivers::decode(text.lines().skip(1)), None);
    }

    #[test]
    fn drivers_beyond_the_limit_are_counted() {
        let one = StorageDriver { name: "%".repeat(999), ..StorageDriver::default() };
        let all = StorageDrivers { left_out: 1, drivers: vec![one; MAX_DRIVERS + 2] };
        let text = all.encode();
        assert!(text.lines().all(|line| line.len() < crate::MAX_LINE));
        let again = StorageDrivers::decode(text.lines()).unwrap();
        assert_eq!((again.left_out, again.drivers.len()), (3, MAX_DRIVERS));
    }
}

//! The types that values of files are read into, each with its shape.

use super::{Field, Form, Shape, TextField};
use crate::plan::document::{Item, Located, Value};
use crate::plan::{Architecture, Bus, Date, DebugAccess, Minor, OptionValue, Version};
use osbuild_release::Channel;
use std::collections::BTreeMap;
use std::ops::Deref;

/// Declares types of strings, each with its description and its pattern.
macro_rules! texts {
    ($( $(#[$meta:meta])+ $name:ident, $what:expr, $pattern:expr; )*) => {
        $(
            $(#[$meta])+
            #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
            pub struct $name(String);

            impl TextField for $name {
                const FORM: &'static Form = &Form { what: $what, pattern: $pattern };

                fn parse(text: &str) -> Option<Self> {
                    Some($name(text.to_owned()))
                }
            }

            impl Deref for $name {
                type Target = str;

                fn deref(&self) -> &str {
                    &self.0
                }
            }
        )*
    };
}

texts! {
    /// A name of our own: of a recipe, a board, a component, a pod, keys.
    Name, "a name of small letters, digits and hyphens", "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";
    /// Text of one line.
    Line, "a string of one line", "^[^\\n\\r]+$";
    /// Text of any number of lines.
    Lines, "a string", "^[^\\u0000]*$";
    /// Text without white space.
    Word, "a string without white space", "^\\S+$";
    /// A word of the kernel's command line.
    KernelWord, "a string of printable ASCII characters without white space", "^[!-~]+$";
    /// The version of a node.
    ReleaseName, "at most 64 letters, digits and `.~-`, such as `\"1.35.8-2\"`",
        "^[A-Za-z0-9][A-Za-z0-9.~-]{0,63}$";
    /// The URL of a repository.
    Url, "a URL such as `\"https://updates.example/nodes\"`",
        "^(https?://[^\\s/?#]+|file://)(/[^\\s/?#]+)*$";
    /// A time server.
    TimeServer, "an IP address or a host name, optionally followed by `:PORT`",
        concat!(
            "^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?",
            "|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*|\\[[0-9A-Fa-f:.]+\\](:[0-9]{1,5})?)$",
        );
    /// A SHA-256.
    Sha256, "a digest such as `\"sha256:…\"` with 64 hexadecimal digits", "^sha256:[0-9a-f]{64}$";
    /// A path of the node's root.
    RootPath, "an absolute path without `.`, `..`, white space or a trailing slash",
        concat!(
            "^(/(\\.?[A-Za-z0-9_@+~%:=,-][A-Za-z0-9._@+~%:=,-]*",
            "|\\.\\.[A-Za-z0-9_@+~%:=,-][A-Za-z0-9._@+~%:=,-]*))+$",
        );
    /// A path of the project, or inside a Debian package.
    RelativePath, "a relative path", "^[^/\\s][^\\s]*$";
    /// The name of a Debian package.
    DebianName, "the name of a Debian package", "^[a-z0-9][a-z0-9+.-]+$";
    /// The name of a kernel option.
    OptionName, "the name of a kernel option without `CONFIG_`", "^[A-Za-z0-9_]+$";
    /// The name of an image.
    ImageName, "the name of an image with its tag, such as `\"localhost/dhcp:1\"`",
        concat!(
            "^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+",
            ":[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        );
    /// A right of static pods, as `init` reads it.
    PodRight,
        concat!(
            "`\"host-network\"`, `\"host-pid\"`, `\"privileged\"`, `\"capability=NAME\"`, ",
            "`\"host-path=/PATH\"` or `\"off\"`",
        ),
        concat!(
            "^(off|host-network|host-pid|privileged|capability=[A-Z][A-Z0-9_]{0,31}",
            "|host-path=(/(\\.?[A-Za-z0-9_@+~%:=,-][A-Za-z0-9._@+~%:=,-]*",
            "|\\.\\.[A-Za-z0-9_@+~%:=,-][A-Za-z0-9._@+~%:=,-]*))+)$",
        );
    /// The path of a Go module.
    ModulePath, "the path of a Go module", "^[a-z0-9.-]+\\.[a-z]+(/[A-Za-z0-9._~-]+)+$";
    /// The name of a Cargo package.
    PackageName, "the name of a Cargo package", "^[a-z][a-z0-9_-]*$";
}

impl TextField for Version {
    const FORM: &'static Form = &Form {
        what: "a version such as `\"1.35.8\"`",
        pattern: "^(0|[1-9][0-9]{0,8})(\\.(0|[1-9][0-9]{0,8})){2}$",
    };

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl TextField for Minor {
    const FORM: &'static Form = &Form {
        what: "a minor version such as `\"1.35\"`",
        pattern: "^(0|[1-9][0-9]{0,8})\\.(0|[1-9][0-9]{0,8})$",
    };

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// Declares types of numbers between `MIN` and `MAX`, each with its unit.
macro_rules! quantities {
    ($( $(#[$meta:meta])+ $name:ident, $unit:literal; )*) => {
        $(
            $(#[$meta])+
            #[derive(Clone, Copy, Debug)]
            pub struct $name<const MIN: i64, const MAX: i64>(i64);

            impl<const MIN: i64, const MAX: i64> Field for $name<MIN, MAX> {
                const SHAPE: Shape = Shape::Integer { min: MIN, max: MAX, unit: $unit };

                fn read(item: &Item) -> Option<Self> {
                    item.integer().filter(|number| (MIN..=MAX).contains(number)).map($name)
                }
            }

            impl<const MIN: i64, const MAX: i64> From<&$name<MIN, MAX>> for u64 {
                fn from(number: &$name<MIN, MAX>) -> u64 {
                    const { assert!(MIN >= 0) };
                    number.0 as u64
                }
            }

            impl<const MIN: i64, const MAX: i64> From<&$name<MIN, MAX>> for u32 {
                fn from(number: &$name<MIN, MAX>) -> u32 {
                    const { assert!(MIN >= 0 && MAX <= u32::MAX as i64) };
                    number.0 as u32
                }
            }
        )*
    };
}

quantities! {
    /// Mebibytes.
    Mib, "a number of MiB";
    /// Gibibytes.
    Gib, "a number of GiB";
    /// Seconds.
    Seconds, "a number of seconds";
    /// Processors.
    Processors, "a number of processors";
    /// A number without a unit.
    Number, "a number";
}

/// The logical sector size of a disk in bytes.
#[derive(Clone, Copy, Debug)]
pub struct SectorSize(pub u32);

impl Field for SectorSize {
    const SHAPE: Shape = Shape::Number(&[512, 4096]);

    fn read(item: &Item) -> Option<Self> {
        match item.integer()? {
            512 => Some(SectorSize(512)),
            4096 => Some(SectorSize(4096)),
            _ => None,
        }
    }
}

impl Field for Architecture {
    const SHAPE: Shape = Shape::Word(&Architecture::NAMES);

    fn read(item: &Item) -> Option<Self> {
        Architecture::named(item.text()?)
    }
}

impl Field for Bus {
    const SHAPE: Shape = Shape::Word(&Bus::NAMES);

    fn read(item: &Item) -> Option<Self> {
        Bus::named(item.text()?)
    }
}

impl Field for Channel {
    const SHAPE: Shape = Shape::Word(&["stable", "candidate"]);

    fn read(item: &Item) -> Option<Self> {
        item.text()?.parse().ok()
    }
}

impl Field for DebugAccess {
    const SHAPE: Shape = Shape::Word(&DebugAccess::NAMES);

    fn read(item: &Item) -> Option<Self> {
        DebugAccess::named(item.text()?)
    }
}

/// How a disk is connected, as the installer calls it.
#[derive(Clone, Debug)]
pub struct InstallerBus;

impl Field for InstallerBus {
    const SHAPE: Shape = Shape::Word(&["nvme", "sata", "scsi", "virtio", "mmc", "usb"]);

    fn read(item: &Item) -> Option<Self> {
        item.text().map(|_| InstallerBus)
    }
}

/// Permission bits.
#[derive(Clone, Copy, Debug)]
pub struct Mode(pub u32);

impl Field for Mode {
    const SHAPE: Shape = Shape::Mode;

    fn read(item: &Item) -> Option<Self> {
        match item.value {
            Value::Integer { value: value @ 0..=0o1777, radix: 8 } => Some(Mode(value as u32)),
            _ => None,
        }
    }
}

/// The word `true`.
#[derive(Clone, Copy, Debug)]
pub struct True;

impl Field for True {
    const SHAPE: Shape = Shape::True;

    fn read(item: &Item) -> Option<Self> {
        (item.flag()?).then_some(True)
    }
}

impl Field for bool {
    const SHAPE: Shape = Shape::Flag;

    fn read(item: &Item) -> Option<Self> {
        item.flag()
    }
}

impl Field for Date {
    const SHAPE: Shape = Shape::Date;

    fn read(item: &Item) -> Option<Self> {
        if let Value::Date(date) = item.value { Some(date) } else { None }
    }
}

/// The setting of an option in a table of kernel options.
#[derive(Clone, Debug)]
pub enum OptionSetting {
    /// A value that the node can have.
    Value(OptionValue),
    /// `m`: the node has no modules.
    Module,
}

impl Field for OptionSetting {
    const SHAPE: Shape = Shape::KernelValue;

    fn read(item: &Item) -> Option<Self> {
        let value = match &item.value {
            Value::Flag(true) => OptionValue::Yes,
            Value::Flag(false) => OptionValue::No,
            Value::Integer { value, radix: 16 } => OptionValue::Number(format!("{value:#x}")),
            Value::Integer { value, .. } => OptionValue::Number(value.to_string()),
            Value::Text(text) => match text.as_str() {
                "y" => OptionValue::Yes,
                "n" => OptionValue::No,
                "m" => return Some(OptionSetting::Module),
                _ => OptionValue::Text(text.clone()),
            },
            _ => return None,
        };
        Some(OptionSetting::Value(value))
    }
}

/// The value of a key that a node document has, too.
#[derive(Clone, Debug)]
pub struct OfDocument(pub Item);

impl Field for OfDocument {
    const SHAPE: Shape = Shape::OfDocument;

    fn read(item: &Item) -> Option<Self> {
        Some(OfDocument(item.clone()))
    }
}

/// A list.
pub type List<T> = Vec<Located<T>>;

impl<T: Field> Field for List<T> {
    const SHAPE: Shape = Shape::List(&T::SHAPE);

    fn read(item: &Item) -> Option<Self> {
        let Value::List(list) = &item.value else { return None };
        Some(list.iter().filter_map(Item::read).collect())
    }
}

/// A table whose keys the author chooses. `false` removes an inherited entry from one that is
/// `REMOVABLE`.
#[derive(Clone, Debug)]
pub struct Map<K, V, const REMOVABLE: bool = false>(BTreeMap<K, Located<V>>);

impl<K: TextField, V: Field, const REMOVABLE: bool> Field for Map<K, V, REMOVABLE> {
    const SHAPE: Shape = Shape::Map { key: K::FORM, value: &V::SHAPE, removable: REMOVABLE };

    fn read(item: &Item) -> Option<Self> {
        let entry = |(key, item): (&String, &Item)| Some((K::parse(key)?, item.read()?));
        Some(Map(item.table()?.iter().filter_map(entry).collect()))
    }
}

impl<K, V, const REMOVABLE: bool> Deref for Map<K, V, REMOVABLE> {
    type Target = BTreeMap<K, Located<V>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::keys::check::matches;

    #[test]
    fn a_path_of_the_root_has_no_dots_to_climb_with() {
        let matches = |path: &str| matches(RootPath::FORM, path);
        for right in ["/etc/passwd", "/etc/.hidden", "/usr/lib/a..b", "/opt/..data", "/a+b@1"] {
            assert!(matches(right), "{right}");
        }
        for wrong in ["/", "", "etc", "/etc/", "/etc/../x", "/etc/.", "/..", "/a//b", "/a b", "/ä"]
        {
            assert!(!matches(wrong), "{wrong}");
        }
    }
}

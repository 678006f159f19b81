//! The kernel: where its source comes from, what is asked of its configuration, and its command
//! line.

use super::origin::Origin;
use std::collections::BTreeMap;
use std::fmt;

/// The kernel of a node. Two plans with equal package and option values share one compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The Debian package with the source: `linux-source-6.12`.
    pub package: String,
    /// What is asked of the configuration, by name without `CONFIG_`; everything else stays as
    /// `allnoconfig` leaves it.
    pub options: BTreeMap<String, KernelOption>,
    /// The words of the kernel's command line, in order.
    pub command_line: Vec<String>,
}

/// One option that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelOption {
    /// What `.config` must hold.
    pub value: OptionValue,
    /// The fragment, board or recipe that asks for it.
    pub origin: Origin,
}

/// The value of an option. Modules do not exist on the node, so `m` is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// `y`
    Yes,
    /// `n`, which `.config` writes as `# CONFIG_X is not set`.
    No,
    /// A number, decimal or hexadecimal, as it was written.
    Number(String),
    /// A string, without its quotes.
    Text(String),
}

impl fmt::Display for OptionValue {
    /// The value as a configuration fragment writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Yes => f.write_str("y"),
            OptionValue::No => f.write_str("n"),
            OptionValue::Number(number) => f.write_str(number),
            OptionValue::Text(text) => {
                write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
        }
    }
}

//! The kernel: its source, its configuration and its command line.

use crate::plan::Origin;
use std::collections::BTreeMap;
use std::fmt;

/// The kernel of a node. Two plans with equal package and option values share one compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The Debian package with the source: `linux-source-6.12`.
    pub package: String,
    /// The groups of options of its component, and whether the node has each.
    pub groups: BTreeMap<String, bool>,
    /// The options that each group turns on which the node does not have.
    pub left_out: BTreeMap<String, Vec<String>>,
    /// Options by name without `CONFIG_`; all others stay as `allnoconfig` leaves them.
    pub options: BTreeMap<String, KernelOption>,
    /// The words of the kernel's command line, in order.
    pub command_line: Vec<String>,
}

/// A requested option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelOption {
    /// Its value in `.config`.
    pub value: OptionValue,
    /// The line of the fragment, board or recipe that sets it.
    pub origin: Origin,
}

/// The value of an option. `m` is missing because the node has no modules.
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

/// The option for the types of the kernel (BTF).
const TYPES: &str = "DEBUG_INFO_BTF";

impl Kernel {
    /// Whether the kernel describes its types, which takes a program more to compile it.
    pub fn has_types(&self) -> bool {
        self.options.get(TYPES).is_some_and(|option| option.value == OptionValue::Yes)
    }

    /// The options as a build gives them to `make allnoconfig`, in order of name.
    pub fn fragment(&self) -> String {
        let line =
            |(name, option): (&String, &KernelOption)| format!("CONFIG_{name}={}\n", option.value);
        self.options.iter().map(line).collect()
    }
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

//! The firmware's facts about its machine, in the files that Linux makes of its tables (SMBIOS).

use osbuild_envelope::MachineId;
use std::fs;
use std::path::Path;

/// The kernel's folder.
pub const FOLDER: &str = "/sys/class/dmi/id";

/// The file with the identifier of the machine, which only user 0 may read.
const MACHINE: &str = "product_uuid";

/// The files of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Dmi<'a> {
    folder: &'a Path,
}

/// A mark by which a machine of a cloud is known.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// The field has this value.
    Is(&'static str, &'static str),
    /// The value begins so.
    Begins(&'static str, &'static str),
}

impl<'a> Dmi<'a> {
    /// The files in `folder`.
    pub fn new(folder: &'a Path) -> Self {
        Dmi { folder }
    }

    /// The value of a field; empty if the machine has none.
    fn field(&self, name: &str) -> String {
        let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        text.trim().to_owned()
    }

    /// Whether one of the marks is there.
    pub fn has(&self, marks: &[Mark]) -> bool {
        marks.iter().any(|mark| match mark {
            Mark::Is(name, value) => self.field(name) == *value,
            Mark::Begins(name, start) => self.field(name).starts_with(start),
        })
    }

    /// The identifier of the machine, if its firmware has one.
    pub fn machine(&self) -> Option<MachineId> {
        MachineId::parse(&self.field(MACHINE))
    }
}

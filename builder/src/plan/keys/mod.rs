//! Every key of every file that people write, each declared once.
//!
//! A declaration with [`table!`] is a struct whose fields are keys: `gate_hold_s` is `gate-hold-s`.
//! The field's type gives the shape of the value, the word before the type whether the key is
//! needed, and the doc comment the description. Four things come out of it: the table that the
//! strict reader checks files against ([`check`]), the JSON Schema ([`schema`]),
//! the rows that a test compares with the READMEs, and the typed struct that [`super::resolve`]
//! reads. A misspelt key is a field that does not exist, and does not compile.

#[macro_use]
mod declare;
mod board;
pub mod check;
mod component;
mod installer;
mod recipe;
mod releases;
mod schema;
mod values;

pub use board::{BoardFile, QemuTable};
pub use component::{
    ComponentFile, ComponentImageTable, ComponentKernelTable, DebianProgramTable, GoTable,
    PayloadTable,
};
pub use declare::kebab;
pub use installer::InstallerFile;
pub use recipe::{
    ArchiveTable, ExceptionTable, FileEntry, NodeTable, PodEntry, PodOfComponent, PodOfManifest,
    RecipeFile, RecipeKernelTable, WritableEntry,
};
pub use releases::{ReleaseTable, ReleasesFile};
pub use schema::{FileKind, schema};
pub use values::{
    DebianName, ImageName, KernelWord, List, Map, Mode, Name, OptionName, OptionSetting, PodRight,
    RelativePath, Sha256, Word,
};

use super::document::{Item, Located, Spot};

/// One key of a table.
pub struct Key {
    /// Its name: `gate-hold-s`.
    pub name: &'static str,
    /// Whether it must be present.
    pub need: Need,
    /// The shape of its value.
    pub shape: Shape,
    /// Its meaning, in one sentence.
    pub about: &'static str,
}

/// Whether a key must be present.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It can be left out.
    Optional,
    /// It must be present in the same table.
    Required,
    /// It must be present in this file or in one that it inherits from.
    Inherited,
    /// It can be left out. Its list of words follows the inherited one, from which it removes the
    /// words of the same names.
    Extended,
}

/// The shape of a value.
pub enum Shape {
    /// A string of a form.
    Text(&'static Form),
    /// A number between two others, in a unit.
    Integer { min: i64, max: i64, unit: &'static str },
    /// One of these numbers.
    Number(&'static [i64]),
    /// One of these strings.
    Word(&'static [&'static str]),
    /// Permission bits, written in octal.
    Mode,
    /// The word `true`.
    True,
    /// `true` or `false`.
    Flag,
    /// A date.
    Date,
    /// The value of a kernel option.
    KernelValue,
    /// A list.
    List(&'static Shape),
    /// A table with these keys and no others.
    Table(&'static [Key]),
    /// A table of one of these kinds. The first key of a kind distinguishes it from the others.
    Choice(&'static [&'static [Key]]),
    /// The value of this key in a node document, which the plan checks as a part of one.
    OfDocument,
    /// A table whose keys the author chooses. Where it is `removable`, `false` removes an inherited
    /// entry.
    Map { key: &'static Form, value: &'static Shape, removable: bool },
}

/// A form of strings.
pub struct Form {
    /// Its description: ``a version such as `1.35.8` ``.
    pub what: &'static str,
    /// A regular expression with the same meaning to `regex-lite` and to JSON Schema (ECMA 262).
    pub pattern: &'static str,
}

/// A type that a value of a file is read into.
pub trait Field: Sized {
    /// The shape of the value. [`Field::read`] reads every value of this shape.
    const SHAPE: Shape;

    /// Reads a value. It is `None` only for a value that does not have the shape, which the strict
    /// reader has already reported.
    fn read(item: &Item) -> Option<Self>;
}

impl Item {
    /// The value as a type. It is `None` for one that the strict reader has refused.
    pub fn read<T: Field>(&self) -> Option<Located<T>> {
        let value = T::read(self)?;
        Some(Located { key: self.key.clone(), spot: self.spot.clone(), value })
    }
}

/// A string of a form, which can also be the key of a [`Map`].
pub trait TextField: Sized + Ord {
    /// The form.
    const FORM: &'static Form;

    /// Reads a string. It is `None` only for a string that does not have the form.
    fn parse(text: &str) -> Option<Self>;
}

impl<T: TextField> Field for T {
    const SHAPE: Shape = Shape::Text(T::FORM);

    fn read(item: &Item) -> Option<Self> {
        T::parse(item.text()?)
    }
}

/// A struct that [`table!`] declares.
pub trait Table: Field {
    /// Its keys.
    const KEYS: &'static [Key];

    /// The keys that are present, each with the place where it is written.
    fn present(&self) -> Vec<(&'static str, &Spot)>;
}

impl Shape {
    /// A description of such a value for messages.
    pub fn what(&self) -> String {
        match self {
            Shape::Text(form) => form.what.to_owned(),
            Shape::Integer { min, max, unit } if *max == i64::MAX => {
                format!("{unit} of at least {min}")
            }
            Shape::Integer { min, max, unit } => format!("{unit} between {min} and {max}"),
            Shape::Number(numbers) => one_of(numbers.iter().map(ToString::to_string)),
            Shape::Word(words) => one_of(words.iter().map(|word| format!("\"{word}\""))),
            Shape::Mode => "permission bits in octal such as `0o644`".to_owned(),
            Shape::True => "`true`".to_owned(),
            Shape::Flag => "`true` or `false`".to_owned(),
            Shape::Date => "a date such as `2026-12-31`".to_owned(),
            Shape::KernelValue => "`true`, `false`, a number or a string".to_owned(),
            Shape::List(shape) => format!("a list, each {}", shape.what()),
            Shape::OfDocument => "as in a node document".to_owned(),
            Shape::Table(_) | Shape::Choice(_) | Shape::Map { .. } => "a table".to_owned(),
        }
    }
}

fn one_of(values: impl Iterator<Item = String>) -> String {
    values.map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" or ")
}

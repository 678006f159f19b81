//! The words in which the keys of our files are described. The strict reader and the JSON Schema
//! are made from the same description.

/// One key of a table.
pub(super) struct Key {
    /// Its name.
    pub name: &'static str,
    /// Whether it has to be there.
    pub need: Need,
    /// What its value looks like.
    pub shape: Shape,
    /// What it means, in one sentence.
    pub about: &'static str,
}

/// Whether a key has to be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It may be left out.
    Optional,
    /// It must stand in the same table.
    Here,
    /// It must stand in this file or in one that it inherits from.
    Inherited,
}

/// What a value looks like.
pub(super) enum Shape {
    /// A string of a form.
    Text(&'static Form),
    /// A number between two others, in a unit.
    Integer { least: i64, most: i64, what: &'static str },
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
    /// A day.
    Date,
    /// The value of a kernel option.
    KernelValue,
    /// A list.
    List(&'static Shape),
    /// A table of these keys alone.
    Table(&'static [Key]),
    /// A table of one of these kinds. The first key of a kind tells it from the others.
    Choice(&'static [&'static [Key]]),
    /// A table whose keys somebody chooses. `false` takes an inherited entry away where `removable`
    /// says so.
    Map { key: &'static Form, value: &'static Shape, removable: bool },
}

/// A form of strings.
pub(super) struct Form {
    /// What it is, for people: ``a version such as `1.35.8` ``.
    pub what: &'static str,
    /// A regular expression, the same for `regex-lite` and for JSON Schema (ECMA 262).
    pub pattern: &'static str,
}

impl Shape {
    /// What such a value is, for people.
    pub fn what(&self) -> String {
        match self {
            Shape::Text(form) => form.what.to_owned(),
            Shape::Integer { least, most, what } if *most == i64::MAX => {
                format!("{what} of at least {least}")
            }
            Shape::Integer { least, most, what } => format!("{what} between {least} and {most}"),
            Shape::Number(numbers) => one_of(numbers.iter().map(ToString::to_string)),
            Shape::Word(words) => one_of(words.iter().map(|word| format!("\"{word}\""))),
            Shape::Mode => "permission bits in octal such as `0o644`".to_owned(),
            Shape::True => "`true`".to_owned(),
            Shape::Flag => "`true` or `false`".to_owned(),
            Shape::Date => "a day such as `2026-12-31`".to_owned(),
            Shape::KernelValue => "`true`, `false`, a number or a string".to_owned(),
            Shape::List(shape) => format!("a list, each {}", shape.what()),
            Shape::Table(_) | Shape::Choice(_) | Shape::Map { .. } => "a table".to_owned(),
        }
    }
}

fn one_of(values: impl Iterator<Item = String>) -> String {
    values.map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" or ")
}

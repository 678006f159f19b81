//! A difference as text for people: a block for each thing that differs, a line for each change.

use super::{Change, Difference, Kind, Part, Side, Words};
use crate::printable::printable;
use crate::report::bytes;
use crate::ship::audit::inspect::{File, FileKind, Partition, Slot};
use std::fmt::{self, Display, Formatter};

/// How many digits of a digest are shown: enough to distinguish two.
const DIGITS: usize = 12;

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no difference");
        }
        write!(f, "a  {}\nb  {}", self.a, self.b)?;
        let text = |value: &String| value.clone();
        block(f, "facts", &self.facts, text, arrow)?;
        block(f, "versions", &self.versions, text, arrow)?;
        block(f, "kernel options", &self.kernel_options, text, arrow)?;
        words(f, "command line", &self.command_line)?;
        block(f, "pods", &self.pods, |images| images.join(" "), arrow)?;
        block(f, "packages", &self.packages, text, arrow)?;
        block(f, "files", &self.files, file, |_, one, other| file_change(one, other))?;
        block(
            f,
            "parts",
            &self.parts,
            |part| bytes(part.size),
            |_, one, other| part_change(one, other),
        )?;
        block(f, "partitions", &self.partitions, partition, arrow)?;
        block(f, "slots", &self.slots, slot, arrow)
    }
}

impl Display for Side {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Image => "image",
            Kind::Uki => "UKI",
            Kind::Initramfs => "initramfs",
            Kind::Release => "release",
        };
        let file = self.file.display().to_string();
        write!(f, "{}, {kind}, {}", printable(&file), bytes(self.size))
    }
}

/// Writes the changes of one category: `-` is only in the first, `+` only in the second, `~` in
/// both but different.
fn block<T>(
    f: &mut Formatter<'_>,
    title: &str,
    changes: &[Change<T>],
    show: impl Fn(&T) -> String,
    changed: impl Fn(&dyn Fn(&T) -> String, &T, &T) -> String,
) -> fmt::Result {
    if changes.is_empty() {
        return Ok(());
    }
    write!(f, "\n\n{title}")?;
    let width = changes.iter().map(|change| change.name.chars().count()).max().unwrap_or_default();
    for Change { name, a, b } in changes {
        let (mark, value) = match (a, b) {
            (Some(one), Some(other)) => ('~', changed(&show, one, other)),
            (Some(one), None) => ('-', show(one)),
            (None, Some(other)) => ('+', show(other)),
            (None, None) => continue,
        };
        write!(f, "\n  {}", printable(&format!("{mark} {name:width$}  {value}")))?;
    }
    Ok(())
}

fn words(f: &mut Formatter<'_>, title: &str, words: &Words) -> fmt::Result {
    if words.is_empty() {
        return Ok(());
    }
    write!(f, "\n\n{title}")?;
    words.removed.iter().try_for_each(|word| write!(f, "\n  - {}", printable(word)))?;
    words.added.iter().try_for_each(|word| write!(f, "\n  + {}", printable(word)))?;
    if words.reordered { f.write_str("\n  ~ the same words in a different order") } else { Ok(()) }
}

fn arrow<T>(show: &dyn Fn(&T) -> String, one: &T, other: &T) -> String {
    format!("{} -> {}", show(one), show(other))
}

fn file(file: &File) -> String {
    match (&file.kind, &file.target) {
        (FileKind::Folder, _) => format!("{} folder", file.mode),
        (_, Some(target)) => format!("link to {target}"),
        _ => format!("{} {}", file.mode, bytes(file.size)),
    }
}

/// Describes the differences between two files at one path: mode, owner, content.
fn file_change(one: &File, other: &File) -> String {
    if one.kind != other.kind || one.target != other.target {
        return format!("{} -> {}", file(one), file(other));
    }
    let mut differences = Vec::new();
    for (before, after) in [(&one.mode, &other.mode), (&one.owner, &other.owner)] {
        if before != after {
            differences.push(format!("{before} -> {after}"));
        }
    }
    if let (Some(before), Some(after)) = (&one.sha256, &other.sha256)
        && before != after
    {
        differences.push(content((one.size, before), (other.size, after)));
    }
    differences.join(", ")
}

fn part_change(one: &Part, other: &Part) -> String {
    content((one.size, &one.sha256), (other.size, &other.sha256))
}

/// Two sizes that differ, or two digests of one size.
fn content((before, was): (u64, &str), (after, is): (u64, &str)) -> String {
    if before == after {
        let short = |sha256: &str| sha256.get(..DIGITS).unwrap_or(sha256).to_owned();
        return format!("{}, sha256 {} -> {}", bytes(before), short(was), short(is));
    }
    let sign = if after > before { '+' } else { '-' };
    format!("{} -> {} ({sign}{})", bytes(before), bytes(after), bytes(before.abs_diff(after)))
}

fn partition(partition: &Partition) -> String {
    let Partition { number, purpose, guid, start, size, attributes, .. } = partition;
    format!("{number} {purpose} {} at {} {guid} {attributes}", bytes(*size), bytes(*start))
}

fn slot(slot: &Slot) -> String {
    slot.to_string().trim_start_matches(&slot.name).trim_start().to_owned()
}

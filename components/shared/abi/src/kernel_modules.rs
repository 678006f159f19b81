//! The list of the modules that a kernel has built in, at [`crate::paths::KERNEL_MODULES`]: a line
//! for each, `NAME`, and `NAME GROUP` for one that a group of the recipe would bring.

use core::fmt;

/// Whether the kernel has a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// The kernel has it.
    BuiltIn,
    /// The kernel has it if the recipe has this group.
    Group(&'a str),
    /// The list does not have it.
    Unknown,
}

/// Writes the line of a module. `group` is the one that would bring it; none if it is built in.
///
/// # Errors
/// `out` does not take it.
pub fn write(out: &mut impl fmt::Write, name: &str, group: Option<&str>) -> fmt::Result {
    match group {
        Some(group) => writeln!(out, "{name} {group}"),
        None => writeln!(out, "{name}"),
    }
}

/// Looks a module up. `name` has `_` for each `-`, as the list has.
pub fn find<'a>(list: &'a str, name: &str) -> Found<'a> {
    let mut lines = list.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    match lines.find(|(known, _)| *known == name) {
        None => Found::Unknown,
        Some((_, "")) => Found::BuiltIn,
        Some((_, group)) => Found::Group(group),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::String;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let mut list = String::new();
        write(&mut list, "kvm", Some("virtualization")).unwrap();
        write(&mut list, "overlay", None).unwrap();
        assert_eq!(list, "kvm virtualization\noverlay\n");
        assert_eq!(find(&list, "overlay"), Found::BuiltIn);
        assert_eq!(find(&list, "kvm"), Found::Group("virtualization"));
        for name in ["", "over", "kvm virtualization", "virtualization"] {
            assert_eq!(find(&list, name), Found::Unknown, "{name}");
        }
    }
}

//! The list of the packages that a node is made of, at [`crate::paths::PACKAGES`]: a line for each
//! with its package URL (<https://github.com/package-url/purl-spec>), a space, and the components
//! that hold it with `,` between. The lines are in order.

use core::fmt;

/// The maximum bytes of the list.
pub const MAX_BYTES: u64 = 1 << 20;

/// Writes the line of a package.
///
/// # Errors
/// `out` does not take it.
pub fn write<'c>(
    out: &mut impl fmt::Write,
    url: &str,
    components: impl Iterator<Item = &'c str>,
) -> fmt::Result {
    out.write_str(url)?;
    for (index, component) in components.enumerate() {
        write!(out, "{}{component}", if index == 0 { ' ' } else { ',' })?;
    }
    writeln!(out)
}

/// Reads a line: the URL of a package, and its components.
pub fn read(line: &str) -> Option<(&str, impl Iterator<Item = &str>)> {
    let (url, components) = line.split_once(' ')?;
    Some((url, components.split(',')))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::String;
    use std::vec::Vec;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let mut list = String::new();
        let url = "pkg:golang/golang.org/x/sys@v0.38.0";
        write(&mut list, url, ["containerd", "runc"].into_iter()).unwrap();
        assert_eq!(list, "pkg:golang/golang.org/x/sys@v0.38.0 containerd,runc\n");
        let (again, components) = read(list.trim_end()).unwrap();
        assert_eq!((again, components.collect::<Vec<_>>()), (url, ["containerd", "runc"].into()));
        assert!(read(url).is_none());
    }
}

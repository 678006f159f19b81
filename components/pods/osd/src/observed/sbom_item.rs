//! `SbomItems.osbuild`: the packages that the image is made of, from the list in its signed root.
//! It is read once, as a running node has the same image until it boots another one.

use super::ObservedType;
use super::publisher::Publisher;
use super::rows::Rows;
use crate::settings::{column, names};
use osbuild_abi::packages::{self, MAX_BYTES};
use osbuild_cosi::v1::SbomItemSpec;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The type.
pub const TYPE: ObservedType = ObservedType {
    names: names("SbomItems", "SbomItem"),
    columns: &[
        column("Type", "{.type}"),
        column("Name", "{.name}"),
        column("Version", "{.version}"),
        column("Components", "{.components[:]}"),
    ],
    max_count: 1280,
};

/// How a package URL begins, and the type of those of Debian, whose names have `debian/` in front.
const SCHEME: &str = "pkg:";
const DEBIAN: &str = "deb";

/// Publishes the packages in this list.
pub fn publish(publisher: &Publisher, list: &Path) {
    let of_list = |problem| format!("{}: {problem}", list.display());
    let rows = text(list).and_then(|text| rows(&text)).map_err(of_list);
    publisher.publish(&TYPE, rows);
}

fn text(list: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = File::open(list).map_err(|error| error.to_string())?;
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text);
    match read.map_err(|error| error.to_string())? as u64 > MAX_BYTES {
        true => Err(format!("it has more than {MAX_BYTES} bytes")),
        false => Ok(text),
    }
}

/// The specs of the packages in a list.
fn rows(list: &str) -> Result<Rows<SbomItemSpec>, String> {
    let mut rows = Rows::at_most(TYPE.max_count);
    for (index, line) in list.lines().enumerate() {
        let item = item(line).ok_or_else(|| format!("line {} names no package", index + 1))?;
        let id = item.url.trim_start_matches(SCHEME).to_owned();
        rows.insert(0, id, item);
    }
    Ok(rows)
}

/// Reads a line of the list.
pub fn item(line: &str) -> Option<SbomItemSpec> {
    let (url, components) = packages::read(line)?;
    let package = url.strip_prefix(SCHEME)?.split('?').next()?;
    let (kind, rest) = package.split_once('/').filter(|(kind, _)| !kind.is_empty())?;
    // A version has no `@`, which would be escaped.
    let (name, version) = rest.rsplit_once('@').unwrap_or((rest, ""));
    let name = match kind {
        DEBIAN => name.rsplit('/').next()?,
        _ => name,
    };
    let components: Vec<String> = components.map(str::to_owned).collect();
    let is_whole = !name.is_empty() && components.iter().all(|component| !component.is_empty());
    Some(SbomItemSpec {
        r#type: kind.to_owned(),
        name: unescaped(name)?,
        version: unescaped(version)?,
        components,
        url: url.to_owned(),
    })
    .filter(|_| is_whole)
}

/// Reads the bytes that a package URL has as `%` and two hexadecimal digits.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_number)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> (String, String, String) {
        let item = item(line).unwrap();
        (item.r#type, item.name, item.version)
    }

    #[test]
    fn a_package_has_the_name_and_version_of_its_ecosystem() {
        let expect = |kind: &str, name: &str, version: &str| {
            (kind.to_owned(), name.to_owned(), version.to_owned())
        };
        assert_eq!(
            of("pkg:golang/k8s.io/kubernetes@v1.35.8 kubelet"),
            expect("golang", "k8s.io/kubernetes", "v1.35.8")
        );
        assert_eq!(
            of("pkg:deb/debian/bison@2%3A3.8.2%2Bdfsg-1?arch=amd64 files"),
            expect("deb", "bison", "2:3.8.2+dfsg-1")
        );
        assert_eq!(
            of("pkg:generic/localhost%3A5000/a b"),
            expect("generic", "localhost:5000/a", "")
        );
        let shared = item("pkg:cargo/libc@0.2.191 init,osd").unwrap();
        assert_eq!(shared.components, ["init", "osd"]);
    }

    #[test]
    fn a_line_that_names_no_package_is_an_error_with_its_number() {
        for line in [
            "",
            "pkg:cargo/libc@0.2.191",
            "cargo/libc@0.2.191 init",
            "pkg:cargo init",
            "pkg:cargo/@1 init",
            "pkg:/libc@1 init",
            "pkg:cargo/libc@1 ",
            "pkg:cargo/libc@1 init,,osd",
            "pkg:cargo/libc@%1 init",
            "pkg:cargo/libc@%+1 init",
            "pkg:cargo/libc@%ff init",
            "pkg:cargo/libc@%é init",
        ] {
            assert_eq!(item(line), None, "{line}");
            let list = format!("pkg:cargo/libc@1 init\n{line}\n");
            assert_eq!(rows(&list).unwrap_err(), "line 2 names no package");
        }
    }

    #[test]
    fn two_versions_of_a_package_are_two_items_and_what_has_no_room_is_counted() {
        let list = "pkg:golang/golang.org/x/sys@v0.37.0 runc\n\
                    pkg:golang/golang.org/x/sys@v0.38.0 kubelet\n";
        let ids: Vec<String> = rows(list).unwrap().into_specs().into_keys().collect();
        assert_eq!(ids, ["golang/golang.org/x/sys@v0.37.0", "golang/golang.org/x/sys@v0.38.0"]);
        let many: Vec<String> =
            (0..TYPE.max_count + 3).map(|number| format!("pkg:cargo/a@{number} a")).collect();
        assert_eq!(rows(&many.join("\n")).unwrap().left_out, 3);
    }

    #[test]
    fn a_list_that_is_too_long_or_missing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packages");
        assert!(text(&path).unwrap_err().contains("No such file"));
        std::fs::write(&path, " ".repeat(1 + MAX_BYTES as usize)).unwrap();
        assert_eq!(text(&path).unwrap_err(), "it has more than 1048576 bytes");
    }
}

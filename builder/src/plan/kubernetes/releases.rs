//! The dated table of Kubernetes minors: `components/kubelet/releases.toml`.

use super::{Date, Minor, Version};
use crate::error::{Error, Kind, Problem, Result};
use crate::plan::document::{self, Located, Text};
use crate::plan::keys::check::check;
use crate::plan::keys::{ReleaseTable, ReleasesFile, Table};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// The first lines of the table.
const HEADER: &str = "\
# Minors of Kubernetes, for the version-skew policy. `osbuild update` writes this file: patches \
and days of release are
# what the Go module proxy has of k8s.io/kubernetes, the end of life is the policy of
# https://kubernetes.io/releases/patch-releases/ (14 months).
";

/// Kubernetes' releases, as known on some day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Releases {
    /// The day on which the table was compared with upstream.
    pub checked: Date,
    /// The minors.
    pub minors: BTreeMap<Minor, Release>,
}

/// One minor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Its newest patch.
    pub newest: Version,
    /// The day of its first release.
    pub released: Date,
    /// The last day on which it is supported.
    pub end_of_life: Date,
}

impl Releases {
    /// The path of the table in the project.
    pub const PATH: &str = "components/kubelet/releases.toml";

    /// Reads the table.
    ///
    /// # Errors
    /// All its problems, of the kind of a wrong recipe.
    pub fn parse(text: &str) -> Result<Self> {
        let mut problems = Vec::new();
        let text = Arc::new(Text { name: Self::PATH.to_owned(), text: text.to_owned() });
        let document = document::parse(&text, &mut problems);
        if problems.is_empty() {
            check(&document, ReleasesFile::KEYS, &mut problems);
        }
        match document.read().and_then(|file| table(&file.value)) {
            Some(releases) if problems.is_empty() && !releases.minors.is_empty() => Ok(releases),
            _ if problems.is_empty() => Err(Error::usage(format!("`{}` has no minor", Self::PATH))),
            _ => Err(Error::many(Kind::Usage, problems)),
        }
    }

    /// The newest minor.
    pub fn newest(&self) -> Minor {
        *self.minors.last_key_value().expect("a table without minors is refused when it is read").0
    }

    /// Adds a release. `released` is the day of the first release of its minor. For a new minor it
    /// gives the end of life; the dates of a known minor do not change.
    pub fn learn(&mut self, version: Version, released: Date) {
        let fresh =
            || Release { newest: version, released, end_of_life: Release::end_of_life(released) };
        let release = self.minors.entry(version.minor).or_insert_with(fresh);
        release.newest = release.newest.max(version);
    }

    /// The table as a file, which [`Releases::parse`] reads back.
    pub fn print(&self) -> String {
        let mut text = String::from(HEADER);
        let _ = writeln!(text, "checked = {}\n\n[minors]", self.checked);
        for (minor, release) in &self.minors {
            let Release { newest, released, end_of_life } = release;
            let _ = writeln!(
                text,
                "\"{minor}\" = {{ newest = \"{newest}\", released = {released}, \
                 end-of-life = {end_of_life} }}"
            );
        }
        text
    }
}

impl Release {
    /// The end of life of a minor that was first released on `released`: the 28th of the fourteenth
    /// month after it, which is how upstream dates its last patch releases
    /// (<https://kubernetes.io/releases/patch-releases/>).
    pub fn end_of_life(released: Date) -> Date {
        let months = u16::from(released.month) - 1 + 14;
        Date { year: released.year + months / 12, month: (months % 12) as u8 + 1, day: 28 }
    }
}

fn table(file: &ReleasesFile) -> Option<Releases> {
    let minor = |(minor, table): (&Minor, &Located<ReleaseTable>)| {
        let release = Release {
            newest: table.newest.as_ref()?.value,
            released: table.released.as_ref()?.value,
            end_of_life: table.end_of_life.as_ref()?.value,
        };
        Some((*minor, release))
    };
    let minors = file.minors.as_ref()?.iter().filter_map(minor).collect();
    Some(Releases { checked: file.checked.as_ref()?.value, minors })
}

/// The problem that the table is absent.
pub fn absent() -> Problem {
    Problem::new(format!("there is no `{}`", Releases::PATH))
        .hint("write it with `cargo osbuild update kubelet`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_table_is_read_back() {
        let release = |newest: &str, month| {
            let released = Date { year: 2026, month, day: 22 };
            Release {
                newest: newest.parse().unwrap(),
                released,
                end_of_life: Release::end_of_life(released),
            }
        };
        let minors = BTreeMap::from([
            ("1.36".parse().unwrap(), release("1.36.5", 4)),
            ("1.37".parse().unwrap(), release("1.37.2", 8)),
        ]);
        let releases = Releases { checked: Date { year: 2026, month: 11, day: 21 }, minors };
        assert_eq!(Releases::parse(&releases.print()), Ok(releases));
    }

    #[test]
    fn the_end_of_life_is_the_announced_one() {
        // 1.31 to 1.33 as of https://kubernetes.io/releases/patch-releases/.
        for (released, end) in [
            ((2024, 8, 13), "2025-10-28"),
            ((2024, 12, 11), "2026-02-28"),
            ((2025, 4, 23), "2026-06-28"),
        ] {
            let released = Date { year: released.0, month: released.1, day: released.2 };
            assert_eq!(Release::end_of_life(released).to_string(), end);
        }
    }

    #[test]
    fn a_release_updates_its_minor_and_a_new_minor_gets_an_end_of_life() {
        let day = |month| Date { year: 2026, month, day: 22 };
        let mut releases = Releases { checked: day(1), minors: BTreeMap::new() };
        for (version, month) in [("1.37.2", 8), ("1.37.1", 9), ("1.38.0", 12)] {
            releases.learn(version.parse().unwrap(), day(month));
        }
        let known = releases
            .minors
            .values()
            .map(|release| format!("{} {}", release.newest, release.end_of_life));
        assert_eq!(known.collect::<Vec<_>>(), ["1.37.2 2027-10-28", "1.38.0 2028-02-28"]);
        assert_eq!(releases.pegged().to_string(), "1.36");
    }

    #[test]
    fn an_empty_table_is_refused() {
        assert!(Releases::parse("checked = 2026-01-01\n[minors]\n").is_err());
    }
}

//! The Debian mirrors in the settings of the host's apt, with their options, such as their signing
//! keys. Reads both formats of sources.list(5), lines in `*.list` and stanzas in `*.sources`, and
//! writes stanzas. A host with another release of Debian has the same mirrors, and a current
//! `debian-archive-keyring` has the keys of both releases: only the names of suites are replaced.

use super::client::Client;
use crate::error::{Context, Error, Result};
use crate::plan::DebianRelease;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of releases on Debian's mirrors.
const RELEASES: [&str; 11] = [
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
    "sid",
];

/// The suffixes of a release's name in the names of its suites.
const SUITE_SUFFIXES: [&str; 4] = ["", "-backports", "-security", "-updates"];

/// A part of the file names of Debian's own keyrings, but not of other archives'.
const DEBIAN_KEYRING: &str = "debian-archive";

/// Fields that select a part of the archive, and are replaced.
const REPLACED_FIELDS: [&str; 9] = [
    "types",
    "uris",
    "suites",
    "components",
    "enabled",
    "architectures",
    "languages",
    "targets",
    "x-repolib-name",
];

/// One entry of apt's sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// All other fields, as lines of a stanza.
    options: Vec<String>,
}

/// Checks that the host's apt has a mirror with the packages of a lock. Nothing is fetched.
///
/// # Errors
/// The host's apt has no Debian mirror, or its settings cannot be read.
pub fn check_mirrors() -> Result<()> {
    of_host(DebianRelease::default()).map(drop)
}

/// The list of sources for a release from the host's mirrors, in stanzas.
///
/// # Errors
/// The host's apt has no Debian mirror, or its settings cannot be read.
pub(super) fn of_host(release: DebianRelease) -> Result<String> {
    let mut entries = Vec::new();
    for file in files()? {
        let text =
            fs::read_to_string(&file).or_build(|| format!("cannot read `{}`", file.display()))?;
        let stanzas = file.extension().is_some_and(|end| end == "sources");
        entries.extend(if stanzas { in_stanzas(&text) } else { in_lines(&text) });
    }
    let list = list(&entries, release);
    if list.is_empty() {
        let error = Error::build("the host's apt has no Debian mirror")
            .cause(format!("packages come from Debian {}", release.name()));
        return Err(error.hint("builder/docs/hosts.md shows how to add one for this program only"));
    }
    Ok(list)
}

/// The files that apt reads, according to its settings.
fn files() -> Result<Vec<PathBuf>> {
    let words = ["shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"];
    let settings = Client::new("apt-config").args(words).run()?;
    let value = |name: &str| {
        Some(PathBuf::from(
            settings.lines().find_map(|line| line.strip_prefix(name))?.trim_matches('\''),
        ))
    };
    let mut files: Vec<PathBuf> =
        value("LIST=").filter(|list| list.is_file()).into_iter().collect();
    if let Some(Ok(folder)) = value("PARTS=").map(fs::read_dir) {
        let found = folder.flatten().map(|entry| entry.path());
        let mut parts: Vec<PathBuf> = found.filter(|path| is_read(path)).collect();
        parts.sort();
        files.extend(parts);
    }
    Ok(files)
}

/// Whether apt reads this file in a folder of lists.
fn is_read(path: &Path) -> bool {
    let list = path.extension().is_some_and(|end| end == "list" || end == "sources");
    list && path
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| !name.starts_with('.'))
        && path.is_file()
}

/// Parses lines: `deb [NAME=VALUE,VALUE …] URI SUITE COMPONENT…`.
fn in_lines(text: &str) -> Vec<Entry> {
    text.lines().filter_map(|line| in_line(line.split('#').next()?.trim())).collect()
}

fn in_line(line: &str) -> Option<Entry> {
    let rest = line.strip_prefix("deb")?.strip_prefix(char::is_whitespace)?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    let option = |word: &str| {
        let (name, value) = word.split_once('=')?;
        let name = match name {
            "arch" => "architectures",
            "lang" => "languages",
            "target" => "targets",
            other => other,
        };
        is_kept(name).then(|| format!("{name}: {}\n", value.replace(',', " ")))
    };
    let options = options.split_whitespace().filter_map(option).collect();
    Some(Entry { uris: vec![uri], suites: vec![suite], components: words.collect(), options })
}

/// Parses stanzas of fields. A line that begins with a space continues a field.
fn in_stanzas(text: &str) -> Vec<Entry> {
    let plain: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#')).map(str::trim_end).collect();
    plain.split(|line| line.is_empty()).filter_map(in_stanza).collect()
}

fn in_stanza(lines: &[&str]) -> Option<Entry> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in lines {
        if line.starts_with(char::is_whitespace) {
            let (_, value) = fields.last_mut()?;
            *value += &format!("\n{line}");
        } else {
            let (name, value) = line.split_once(':')?;
            fields.push((name.to_lowercase(), value.trim().to_owned()));
        }
    }
    let words = |name: &str| -> Vec<String> {
        let values = fields.iter().filter(|(field, _)| field == name);
        values.flat_map(|(_, value)| value.split_whitespace()).map(str::to_owned).collect()
    };
    let disabled = words("enabled").iter().any(|word| {
        matches!(word.to_lowercase().as_str(), "no" | "false" | "without" | "off" | "disable")
    });
    if disabled || !words("types").iter().any(|kind| kind == "deb") {
        return None;
    }
    let kept = fields.iter().filter(|(name, _)| is_kept(name));
    let options = kept.map(|(name, value)| format!("{name}: {value}\n")).collect();
    Some(Entry {
        uris: words("uris"),
        suites: words("suites"),
        components: words("components"),
        options,
    })
}

/// Whether a field, also with a `+` or `-` before the `=`, is kept.
fn is_kept(name: &str) -> bool {
    !REPLACED_FIELDS.contains(&name.trim_end_matches(['+', '-']).to_lowercase().as_str())
}

/// The stanzas for a release from these entries. Archives with Debian's own keys take precedence,
/// and then those without a key: a vendor's suite may have the name of Debian's.
fn list(entries: &[Entry], release: DebianRelease) -> String {
    let release = release.name();
    let keys = |entry: &Entry| {
        entry.options.iter().find(|option| option.to_lowercase().starts_with("signed-by")).cloned()
    };
    let debian = |entry: &Entry| keys(entry).is_some_and(|keys| keys.contains(DEBIAN_KEYRING));
    let kept: [&dyn Fn(&Entry) -> bool; 3] =
        [&debian, &|entry| debian(entry) || keys(entry).is_none(), &|_| true];
    let lists = kept.into_iter().flat_map(|kept| {
        let entries: Vec<&Entry> = entries.iter().filter(|entry| kept(entry)).collect();
        [stanzas(&entries, release, &[release]), stanzas(&entries, release, &RELEASES)]
    });
    lists.into_iter().find(|list| !list.is_empty()).unwrap_or_default()
}

/// The stanzas for `release` from the entries for a release in `names`; empty without the release
/// itself. Each suite of a mirror gets one, as apt warns about duplicates.
fn stanzas(entries: &[&Entry], release: &str, names: &[&str]) -> String {
    let suffix = |suite: &String| {
        SUITE_SUFFIXES
            .into_iter()
            .find(|end| names.iter().any(|name| *suite == format!("{name}{end}")))
    };
    let mut named: Vec<(&str, &str, &Entry)> = Vec::new();
    for entry in
        entries.iter().filter(|entry| entry.components.iter().any(|component| component == "main"))
    {
        let uris = entry
            .uris
            .iter()
            .map(|uri| uri.trim_end_matches('/'))
            .filter(|uri| !uri.starts_with("cdrom:"));
        named.extend(uris.flat_map(|uri| {
            entry.suites.iter().filter_map(suffix).map(move |end| (uri, end, *entry))
        }));
    }
    // A mirror must have backports, as all but partial ones do, but most hosts do not list them.
    let main: Vec<_> = named.iter().copied().filter(|(_, end, _)| end.is_empty()).collect();
    if main.is_empty() {
        return String::new();
    }
    named.extend(main.into_iter().map(|(uri, _, entry)| (uri, "-backports", entry)));
    let mut known = BTreeSet::new();
    let first = named.into_iter().filter(|(uri, end, _)| known.insert((*uri, *end)));
    let stanza = |(uri, end, entry): (&str, &str, &Entry)| {
        format!(
            "Types: deb\nURIs: {uri}\nSuites: {release}{end}\nComponents: main\n{}\n",
            entry.options.concat()
        )
    };
    first.map(stanza).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bookworm(entries: &[Entry]) -> String {
        list(entries, DebianRelease::Bookworm)
    }

    const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

    #[test]
    fn lines_and_stanzas_give_the_same_list() {
        let line = format!(
            "# one\ndeb [arch=amd64,arm64 signed-by={KEYS} by-hash=no] http://m/debian bookworm \
             main contrib # two\ndeb-src http://m/debian bookworm main\n"
        );
        let stanza = format!(
            "# one\nTypes: deb deb-src\nURIs: http://m/debian\n# two\nSuites: bookworm\n\
             Components: main\n contrib\nArchitectures: amd64\nsigned-by: {KEYS}\nby-hash: no\n"
        );
        let of = |suite: &str| {
            format!(
                "Types: deb\nURIs: http://m/debian\nSuites: {suite}\nComponents: main\nsigned-by: \
                 {KEYS}\nby-hash: no\n\n"
            )
        };
        let expected = of("bookworm") + &of("bookworm-backports");
        assert_eq!(bookworm(&in_lines(&line)), expected);
        assert_eq!(bookworm(&in_stanzas(&stanza)), expected);
    }

    #[test]
    fn an_inline_key_of_a_stanza_is_kept() {
        let key = "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n -----END PGP \
             PUBLIC KEY BLOCK-----\n";
        let stanza =
            format!("Types: deb\nURIs: http://m/x\nSuites: bookworm\nComponents: main\n{key}");
        assert!(bookworm(&in_stanzas(&stanza)).ends_with(&format!(
            "Components: main\n{}\n",
            key.replacen("Signed-By:", "signed-by: ", 1)
        )));
    }

    #[test]
    fn an_archive_without_a_key_is_no_mirror_beside_one_with_debians() {
        let text = format!(
            "deb http://vendor/x bookworm main\n\
             deb [signed-by={KEYS}] http://m/debian trixie main\n"
        );
        assert!(!bookworm(&in_lines(&text)).contains("vendor"));
    }

    #[test]
    fn disabled_entries_and_other_releases_are_not_used() {
        let stanza =
            |more: &str| format!("Types: deb\nURIs: http://m/debian\nComponents: main\n{more}\n\n");
        let text = [
            stanza("Suites: bookworm\nEnabled: no"),
            stanza("Suites: bookworm-updates"),
            stanza("Suites: noble"),
        ]
        .concat();
        assert_eq!(bookworm(&in_stanzas(&text)), "");
    }

    #[test]
    fn a_host_with_another_release_has_the_same_mirrors() {
        let text = "deb http://m/debian trixie main\ndeb http://m/debian trixie-updates main\ndeb \
             http://m/debian-security trixie-security main\ndeb http://x/ubuntu noble main\n";
        let of = |uri: &str, suites: &str| {
            format!("Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\n\n")
        };
        let expected = [
            of("http://m/debian", "bookworm"),
            of("http://m/debian", "bookworm-updates"),
            of("http://m/debian-security", "bookworm-security"),
            of("http://m/debian", "bookworm-backports"),
        ];
        assert_eq!(bookworm(&in_lines(text)), expected.concat());
    }

    #[test]
    fn a_host_with_one_release_has_the_mirrors_of_the_other() {
        for release in [DebianRelease::Bookworm, DebianRelease::Trixie] {
            for host in ["bookworm", "trixie"] {
                let text = format!("deb http://m/debian {host} main\n");
                let name = release.name();
                let of = |suite: &str| {
                    format!(
                        "Types: deb\nURIs: http://m/debian\nSuites: {suite}\nComponents: main\n\n"
                    )
                };
                let expected = of(name) + &of(&format!("{name}-backports"));
                assert_eq!(list(&in_lines(&text), release), expected, "{host}");
            }
        }
    }

    #[test]
    fn a_host_of_the_unstable_release_has_mirrors_under_both_its_names() {
        let of = |name: &str| bookworm(&in_lines(&format!("deb http://m/debian {name} main\n")));
        assert!(of("sid").starts_with("Types: deb\nURIs: http://m/debian\nSuites: bookworm\n"));
        assert_eq!(of("sid"), of("unstable"));
    }

    #[test]
    fn a_duplicate_suite_is_written_once() {
        let text = "deb http://m/debian bookworm main\ndeb http://m/debian/ bookworm main\ndeb \
             [trusted=yes] http://m/debian bookworm-backports main\n";
        let list = bookworm(&in_lines(text));
        assert_eq!(list.matches("Suites: bookworm\n").count(), 1);
        assert_eq!(
            list.matches("Suites: bookworm-backports\nComponents: main\ntrusted: yes\n").count(),
            1
        );
        assert_eq!(list.matches("Suites:").count(), 2);
    }

    #[test]
    fn a_vendors_suite_with_debians_name_is_used_only_without_debians() {
        let vendor =
            "deb [signed-by=/etc/apt/keyrings/vendor.gpg] http://vendor/12/prod bookworm main\n";
        let debian = "deb http://m/debian trixie main\n";
        assert!(!bookworm(&in_lines(&format!("{vendor}{debian}"))).contains("vendor"));
        assert!(bookworm(&in_lines(vendor)).contains("URIs: http://vendor/12/prod\n"));
    }
}

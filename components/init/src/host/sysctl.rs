//! The kernel's settings, from a file with a `KEY = VALUE` on each line.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use osbuild_abi::paths::SYSCTL;
use osbuild_failure::{Explain, Failure, Outcome};

/// The folder with a file for each setting, at its key with slashes for dots.
pub const SETTINGS: &str = "/proc/sys";

/// Whether a task that waits for two minutes is a panic. The signed command line says yes.
const HUNG_TASK_PANIC: &str = "kernel.hung_task_panic";

/// Sets every key of the file. Returns the settings that this kernel does not have or accept.
pub fn apply() -> Outcome<Vec<Failure>> {
    let text = std::fs::read_to_string(SYSCTL).explain(format_args!("read {SYSCTL}"))?;
    let settings = text.lines().enumerate();
    let settings = settings.filter_map(|(index, line)| parse(line, index + 1).transpose());
    let failures = settings.filter_map(|setting| {
        setting.and_then(|(key, value)| set(Path::new(SETTINGS), &key, &value)).err()
    });
    Ok(failures.collect())
}

/// Has a hung task only reported from now on. On trial it restarts the node, for the other slot;
/// but a good node must not restart because a volume is slow.
pub fn disable_hung_task_panic() -> Outcome {
    set(Path::new(SETTINGS), HUNG_TASK_PANIC, "0")
}

/// Sets one, below a folder. The kernel applies `net.….conf.default` to later links only, but its
/// built-in drivers have found their links before this program runs: those are set here too.
pub fn set(folder: &Path, key: &str, value: &str) -> Outcome {
    set_with_links(folder, key, value, |_| true)
}

/// The same, later: a link that has another value than the default had keeps it, as one whose file
/// `is_own`, which has a value of its own.
pub fn set_with_followers(
    folder: &Path,
    key: &str,
    value: &str,
    is_own: impl Fn(&Path) -> bool,
) -> Outcome {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let default = read(&path_of(folder, key));
    set_with_links(folder, key, value, |link| !is_own(link) && read(link) == default)
}

/// The file of a setting below a folder.
pub fn path_of(folder: &Path, key: &str) -> PathBuf {
    folder.join(key.replace('.', "/"))
}

fn set_with_links(
    folder: &Path,
    key: &str,
    value: &str,
    follows: impl Fn(&Path) -> bool,
) -> Outcome {
    let path = path_of(folder, key);
    let links: Vec<PathBuf> = of_links(&path).into_iter().filter(|link| follows(link)).collect();
    std::fs::write(&path, value).explain(format_args!("set `{key}` to `{value}`"))?;
    for path in links {
        let written = std::fs::write(&path, value);
        // A link, such as that of a pod, may go at any moment.
        if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            continue;
        }
        written.explain(format_args!("set `{}` to `{value}`", path.display()))?;
    }
    Ok(())
}

/// The same setting of each existing link, if `path` is the default of later ones.
fn of_links(path: &Path) -> Vec<PathBuf> {
    let default = path.parent().filter(|folder| folder.ends_with("conf/default"));
    let (Some(name), Some(links)) = (path.file_name(), default.and_then(Path::parent)) else {
        return Vec::new();
    };
    let folders =
        std::fs::read_dir(links).into_iter().flatten().flatten().map(|entry| entry.path());
    folders
        .filter(|folder| !folder.ends_with("all") && !folder.ends_with("default"))
        .map(|folder| folder.join(name))
        .collect()
}

/// Reads one line; `None` for an empty one or a comment.
fn parse(line: &str, number: usize) -> Outcome<Option<(String, String)>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let malformed = || Failure::new(format!("{SYSCTL}:{number}: `{line}` is not `KEY = VALUE`"));
    let (key, value) = line.split_once('=').ok_or_else(malformed)?;
    let (key, value) = (key.trim(), value.trim());
    let known = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    if key.is_empty()
        || value.is_empty()
        || !key.chars().all(known)
        || key.split('.').any(str::is_empty)
    {
        return Err(malformed());
    }
    Ok(Some((key.to_owned(), value.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_we_ship_is_well_formed_and_sets_nothing_twice() {
        let text = include_str!("../../sysctl.conf");
        let keys: Vec<String> = text
            .lines()
            .enumerate()
            .filter_map(|(index, line)| parse(line, index + 1).unwrap())
            .map(|(key, _)| key)
            .collect();
        assert!(keys.len() > 10);
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{key}");
        }
    }

    #[test]
    fn the_file_that_we_ship_gives_a_reason_for_each_setting() {
        let mut reasoned = false;
        for line in include_str!("../../sysctl.conf").lines() {
            match line {
                "" => reasoned = false,
                comment if comment.starts_with('#') => reasoned = true,
                setting => assert!(reasoned, "{setting}"),
            }
        }
    }

    #[test]
    fn a_default_for_later_links_is_set_on_existing_links_too() {
        let folder = tempfile::tempdir().unwrap();
        let conf = folder.path().join("net/ipv6/conf");
        for link in ["all", "default", "lo", "eth0.1"] {
            std::fs::create_dir_all(conf.join(link)).unwrap();
            std::fs::write(conf.join(link).join("accept_ra"), "1").unwrap();
        }
        let of = |link: &str| std::fs::read_to_string(conf.join(link).join("accept_ra")).unwrap();
        set(folder.path(), "net.ipv6.conf.default.accept_ra", "0").unwrap();
        assert_eq!(["all", "default", "lo", "eth0.1"].map(of), ["1", "0", "0", "0"]);
        set(folder.path(), "net.ipv6.conf.all.accept_ra", "7").unwrap();
        assert_eq!(["all", "default", "lo"].map(of), ["7", "0", "0"]);
    }

    #[test]
    fn no_link_accepts_router_advertisements_when_forwarding_begins() {
        let text = include_str!("../../sysctl.conf");
        let deaf = text.find("\nnet.ipv6.conf.default.accept_ra = 0").unwrap();
        assert!(deaf < text.find("\nnet.ipv6.conf.all.forwarding = 1").unwrap());
    }

    #[test]
    fn a_key_cannot_lead_out_of_proc_sys() {
        for line in ["../../etc/x = 1", "net/ipv4 = 1", "a..b = 1", "= 1", "a =", "a"] {
            assert!(parse(line, 1).is_err(), "{line}");
        }
    }

    #[test]
    fn comments_and_empty_lines_are_nothing() {
        assert_eq!(parse("  # why", 1), Ok(None));
        assert_eq!(parse("", 1), Ok(None));
        assert_eq!(
            parse(" kernel.panic = 10 ", 1),
            Ok(Some(("kernel.panic".to_owned(), "10".to_owned())))
        );
    }
}

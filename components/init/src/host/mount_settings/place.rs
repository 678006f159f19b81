//! Decides where the signed root lets a mount be. It is pure.

use osbuild_abi::declared::{self, Declared, overlap};
use osbuild_abi::writable::{Backing, WRITABLE};
use osbuild_protocol::{Mount, MountSource, Refusal, RefusalCode, TmpfsSize};

/// The signed root's lists of paths for mounts.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// The text of the list of folders at and below which requests may mount.
    pub allowed: String,
    /// The text of the list of the recipe's writable paths.
    pub declared: String,
}

/// Where a mount is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The image has mounted the same there.
    Image,
    /// Below a writable path in memory, so that PID 1 waits for no disk when it looks it up.
    Below {
        /// The writable path.
        base: String,
        /// The components of the target below it, at least one.
        parts: Vec<String>,
    },
}

/// A writable path of the node.
struct Row<'a> {
    path: &'a str,
    is_memory: bool,
    exec: bool,
}

/// Returns where the mount is.
///
/// # Errors
/// The signed root does not allow the mount: its target, or the folder that it shows.
pub fn of(mount: &Mount, lists: &Lists) -> Result<Place, Refusal> {
    let target = mount.target().as_str();
    let rows = rows(&lists.declared);
    let refuse = |reason: String| Err(Refusal::new(RefusalCode::NotAllowed, reason));
    if let Some(row) = rows.iter().find(|row| row.path == target) {
        return match is_same(mount, row) {
            true => Ok(Place::Image),
            false => refuse(format!("`{target}` is mounted by the image, and stays as it is")),
        };
    }
    if !allows(&lists.allowed, target) {
        return refuse(format!("the image allows no mount at `{target}`"));
    }
    if let MountSource::Bind(source) = mount.source() {
        let row = declared_rows(&lists.declared).find(|row| row.path == source.as_str());
        match row {
            None => return refuse(format!("`{source}` is not a writable path of the recipe")),
            Some(row) if mount.options().exec && !row.exec => {
                return refuse(format!("the recipe does not allow programs on `{source}`"));
            }
            Some(_) => {}
        }
    }
    let holds = |row: &&Row<'_>| target.len() > row.path.len() && overlap(row.path, target);
    match rows.iter().filter(holds).max_by_key(|row| row.path.len()) {
        Some(Row { path, is_memory: true, .. }) => {
            let parts = target[path.len() + 1..].split('/').map(str::to_owned).collect();
            Ok(Place::Below { base: (*path).to_owned(), parts })
        }
        _ => refuse(format!("`{target}` is not below a writable path in memory")),
    }
}

/// Whether the image's own mount is what is asked for.
fn is_same(mount: &Mount, row: &Row<'_>) -> bool {
    let MountSource::Tmpfs { size, .. } = mount.source() else { return false };
    let options = mount.options();
    let is_plain = *size == TmpfsSize::default() && !options.read_only;
    row.is_memory && is_plain && options.exec == row.exec
}

/// Whether a line of the list is the target or a folder above it.
fn allows(list: &str, target: &str) -> bool {
    let mut lines = list.lines().map(str::trim).filter(|line| line.starts_with('/'));
    lines.any(|folder| target.len() >= folder.len() && overlap(folder, target))
}

/// All writable paths. Only `init` itself mounts at one that is a file.
fn rows(declared: &str) -> Vec<Row<'_>> {
    let table = WRITABLE.iter().map(|row| Row {
        path: row.path,
        is_memory: matches!(row.backing, Backing::Memory(_)),
        exec: row.exec,
    });
    table.chain(declared_rows(declared)).collect()
}

fn declared_rows(list: &str) -> impl Iterator<Item = Row<'_>> {
    let rows = declared::parse(list).into_iter().flatten();
    rows.map(|Declared { path, backing, exec, .. }| Row {
        path,
        is_memory: matches!(backing, declared::Backing::Memory(_)),
        exec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_protocol::Setting;

    const SHIPPED: &str = include_str!("../../../mount-targets.conf");
    const DECLARED: &str = "/srv 755 noexec data srv\n/mnt 755 exec memory 64\n";

    fn place(line: &str, allowed: &str) -> Result<Place, String> {
        let Ok(Setting::Mount(mount)) = Setting::parse(&format!("mount {line}")) else {
            panic!("{line}");
        };
        let lists = Lists { allowed: allowed.to_owned(), declared: DECLARED.to_owned() };
        of(&mount, &lists).map_err(|refusal| {
            assert_eq!(refusal.code, RefusalCode::NotAllowed);
            refusal.reason
        })
    }

    fn below(base: &str, parts: &[&str]) -> Place {
        let parts = parts.iter().map(|part| (*part).to_owned()).collect();
        Place::Below { base: base.to_owned(), parts }
    }

    #[test]
    fn a_target_is_at_or_below_a_folder_of_the_list() {
        let allowed = "# /run/other\n\n/run/mnt\n/mnt\n/srv\n";
        assert_eq!(place("/run/mnt tmpfs a", allowed), Ok(below("/run", &["mnt"])));
        assert_eq!(place("/run/mnt/a/b tmpfs a", allowed), Ok(below("/run", &["mnt", "a", "b"])));
        assert_eq!(place("/mnt/a tmpfs a", allowed), Ok(below("/mnt", &["a"])));
        for target in ["/run/other", "/run/mnt2", "/run/osbuild", "/etc", "/bin/a"] {
            assert!(place(&format!("{target} tmpfs a"), allowed).is_err(), "{target}");
        }
        let refusal = place("/srv/a tmpfs a", allowed).unwrap_err();
        assert_eq!(refusal, "`/srv/a` is not below a writable path in memory");
        assert!(place("/usr/a tmpfs a", "/usr").is_err());
    }

    #[test]
    fn the_list_that_we_ship_allows_one_folder() {
        assert!(place("/run/mnt/a tmpfs a", SHIPPED).is_ok());
        for path in ["/run/osbuild/a", "/run/containerd", "/tmp/a", "/var/lib/kubelet/a"] {
            assert!(place(&format!("{path} tmpfs a"), SHIPPED).is_err(), "{path}");
        }
        for row in WRITABLE {
            let wanted = format!("{} tmpfs a ro", row.path);
            assert!(place(&wanted, "/run\n/tmp\n/var\n/etc\n/opt\n/usr\n").is_err(), "{wanted}");
        }
    }

    #[test]
    fn what_the_image_has_mounted_itself_is_there_already() {
        for line in ["/tmp tmpfs tmpfs", "/run tmpfs any", "/mnt tmpfs a exec"] {
            assert_eq!(place(line, ""), Ok(Place::Image), "{line}");
        }
        for line in [
            "/tmp tmpfs tmpfs size=1g",
            "/tmp tmpfs tmpfs exec",
            "/tmp bind /srv",
            "/mnt tmpfs a",
            "/srv tmpfs a",
        ] {
            let refusal = place(line, "/tmp\n/mnt\n/srv\n").unwrap_err();
            assert!(refusal.ends_with("is mounted by the image, and stays as it is"), "{refusal}");
        }
    }

    #[test]
    fn only_a_folder_that_the_recipe_declares_is_shown_elsewhere() {
        assert!(place("/run/mnt/a bind /srv", SHIPPED).is_ok());
        assert!(place("/run/mnt/a bind /mnt exec", SHIPPED).is_ok());
        for source in ["/etc/kubernetes", "/var/lib/osd", "/srv/a", "/data", "/run"] {
            assert!(place(&format!("/run/mnt/a bind {source}"), SHIPPED).is_err(), "{source}");
        }
        let refusal = place("/run/mnt/a bind /srv exec", SHIPPED).unwrap_err();
        assert_eq!(refusal, "the recipe does not allow programs on `/srv`");
    }
}

//! Writable paths that a recipe declares.

use crate::{changed, expect, refusal, resolve};
use osbuild::plan::{Content, RootFile};
use osbuild_abi::declared::{self, Backing, Declared, refusal as refusal_of};
use osbuild_abi::paths;
use proptest::prelude::*;

const SMALL: &str = "recipes/small.toml";

#[test]
fn a_declared_path_is_a_line_for_init_and_a_folder_of_the_root() {
    let section = "[writable]\n\
                   \"/var/lib/longhorn\" = { data = \"longhorn\", mode = 0o755, exec = true }\n\
                   \"/srv\" = { memory-mib = 64, mode = 0o1777 }\n\n[files]\n";
    let plan = resolve(&changed(&[(SMALL, "[files]\n", section)]));
    let file = |path: &str| {
        plan.files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}"))
    };
    let Content::Text(list) = &file(paths::WRITABLE_PATHS).content else { panic!("no text") };
    assert_eq!(list, "/srv 1777 noexec memory 64\n/var/lib/longhorn 755 exec data longhorn\n");
    let rows: Vec<_> = declared::parse(list).unwrap().collect();
    assert_eq!(rows, plan.writable.iter().map(|path| path.declared()).collect::<Vec<_>>());
    for (path, mode) in [("/srv", 0o1777), ("/var/lib/longhorn", 0o755)] {
        assert_eq!(
            file(path),
            &RootFile { path: path.to_owned(), mode, content: Content::Directory }
        );
    }
    let printed = plan.print();
    let shown = "[writable]\n\
                 \"/srv\" = { memory-mib = 64, mode = 0o1777, exec = false }  \
                 # recipes/small.toml:18\n\
                 \"/var/lib/longhorn\" = { data = \"longhorn\", mode = 0o755, exec = true }  \
                 # recipes/small.toml:17\n";
    assert!(printed.contains(shown), "{printed}");
}

#[test]
fn a_recipe_without_declared_paths_has_no_list() {
    let plan = resolve(&changed(&[]));
    assert!(plan.files.iter().all(|file| file.path != paths::WRITABLE_PATHS));
    assert!(!plan.print().contains("[writable]"));
}

#[test]
fn every_wrong_path_is_reported_at_once() {
    let section = "[writable]\n\
                   \"/etc/pwx\" = { data = \"pwx\", mode = 0o755 }\n\
                   \"/var/lib/kubelet/plugins\" = { data = \"plugins\", mode = 0o755 }\n\
                   \"/opt\" = { data = \"opt\", mode = 0o755 }\n\
                   \"/srv/../etc\" = { data = \"etc\", mode = 0o755 }\n\
                   \"/srv/a\" = { data = \"a\", mode = 0o755 }\n\
                   \"/srv/a/b\" = { data = \"b\", mode = 0o755 }\n\
                   \"/srv/c\" = { data = \"a\", mode = 0o755 }\n\
                   \"/srv/d\" = { data = \"d\", memory-mib = 1, mode = 0o755 }\n\
                   \"/srv/e\" = { dat = \"e\", mode = 0o755 }\n\
                   \"/srv/f\" = { memory-mib = 0, mode = 755 }\n\
                   \"/srv/g\" = { data = \"../g\", mode = 0o2755, exec = \"yes\" }\n\
                   \"/srv/h\" = false\n\
                   \"/mnt/file/h\" = { data = \"h\", mode = 0o755 }\n\n\
                   [files]\n\
                   \"/mnt/file\" = { text = \"\", mode = 0o644 }\n\
                   \"/srv/a/file\" = { text = \"\", mode = 0o644 }\n\
                   \"/usr/share/osbuild/writable\" = { text = \"\", mode = 0o644 }\n";
    expect("writable.txt", &format!("{}\n", refusal(&changed(&[(SMALL, "[files]\n", section)]))));
}

#[test]
fn false_removes_an_inherited_path() {
    let base = (
        "recipes/base.toml",
        "[files]\n",
        "[writable]\n\"/srv\" = { data = \"srv\", mode = 0o755 }\n\n[files]\n",
    );
    assert_eq!(resolve(&changed(&[base])).writable.len(), 1);
    let plan = resolve(&changed(&[
        base,
        (SMALL, "[files]\n", "[writable]\n\"/srv\" = false\n\n[files]\n"),
    ]));
    assert_eq!(plan.writable, []);
}

proptest! {
    #[test]
    fn a_written_line_is_read_back_if_its_path_can_be_declared(
        path in "(/[a-z.]{1,6}){1,4}",
        mode in 0u32..=0o1777,
        exec: bool,
        folder in "[a-z0-9-]{1,9}",
        mib in 1u32..,
        on_data: bool,
    ) {
        let backing = if on_data { Backing::Data(&folder) } else { Backing::Memory(mib) };
        let row = Declared { path: &path, backing, mode, exec };
        let expected = refusal_of(&path).is_none().then_some(row);
        let line = row.to_string();
        prop_assert_eq!(Declared::parse(&line), expected);
    }

    #[test]
    fn no_list_makes_init_panic_or_mount_over_reserved_paths(
        list in "(/|[a-z. ]|data|exec|755|\n|.){0,60}",
    ) {
        let rows: Vec<Declared<'_>> = declared::parse(&list).into_iter().flatten().collect();
        prop_assert!(rows.iter().all(|row| refusal_of(row.path).is_none()));
    }
}

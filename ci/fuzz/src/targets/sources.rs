//! A folder of exported sources for `build --sources` and `sources import`, which can come from
//! anyone.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use osbuild::engine::digest::Digest;
use osbuild::engine::store::Store;
use osbuild::produce::exported::Exported;
use osbuild::report::{Color, Report, Verbosity};

use crate::documents::{self, Document, END, FALSE_END};
use crate::target::{Memory, Outcome, Target};

/// See the module. An input is documents; the first is the list.
pub const TARGET: Target =
    Target { name: "sources", seeds, run, memory: Memory { base: 8 << 20, per_byte: 1024 } };

/// Prints nothing.
static REPORT: LazyLock<Report> = LazyLock::new(|| Report::new(Verbosity::Quiet, Color::Never));

fn run(input: &[u8]) -> Outcome {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let exported = folder.path().join("exported");
    fs::create_dir_all(exported.join("sha256")).expect("a folder can be made");
    fs::write(folder.path().join("secret"), "secret").expect("a file can be written");
    let documents = documents::read(input);
    let Some((list, others)) = documents.split_first() else { return Outcome::Refused };
    fs::write(exported.join("sources.json"), &list.bytes).expect("a file can be written");
    for Document { name, bytes } in others {
        fs::write(exported.join("sha256").join(name), bytes).expect("a file can be written");
    }
    let store = Store::open(folder.path().join("store")).expect("a store can be made");
    let imported = Exported::at(&exported).import(&store, &REPORT);
    assert_eq!(
        store.find(&Digest::of(b"secret").hex()),
        None,
        "nothing outside the folder is imported"
    );
    if let Ok(imported) = imported {
        // The list may name a source twice, and an input may have a document twice.
        let stored: BTreeSet<_> = others
            .iter()
            .map(|other| &other.name)
            .filter(|name| store.find(name).is_some())
            .collect();
        assert!(stored.len() <= imported.count && (!stored.is_empty() || imported.count == 0));
    }
    Outcome::of(&imported)
}

fn seeds() -> Vec<Vec<u8>> {
    let entry = |digest: &str| {
        format!(r#"{{"name":"a 1.0 amd64","digest":"sha256:{digest}","size":5,"kind":"debian"}}"#)
    };
    let whole = format!("[{},{}]", entry("@1"), entry("@2"));
    let join = |end: u8| [whole.as_bytes(), b"one", b"two"].join(&end);
    vec![join(END), join(FALSE_END), format!("[{}]", entry("../../secret")).into_bytes()]
}

//! `osbuild clean`

use crate::builds::done;
use crate::scratch::{RECIPE, Scratch};
use crate::workshop::{kernel, open};
use osbuild::engine::digest::Digest;
use osbuild::engine::fs_error::IoContext;
use osbuild::engine::store::Store;
use osbuild::ship::vm::network;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

#[test]
fn clean_removes_entries_unused_for_14_days_and_keeps_the_rest() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    let [old, new] = ["old", "new"].map(|text| store.put_bytes(text.as_bytes()).unwrap());
    let days = |days: u64| SystemTime::now() - Duration::from_secs(days * 86_400);
    for (digest, day) in [(&old, 15), (&new, 13)] {
        File::open(store.path(digest).unwrap()).unwrap().set_modified(days(day)).unwrap();
    }
    drop(store);
    let ran = scratch.osbuild(&["clean", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let freed: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(freed["entries"], 1);
    assert!(ran.stderr.starts_with("note: freed "), "{}", ran.stderr);
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    assert!(!store.contains(&old) && store.contains(&new));
    drop(store);
    assert_eq!(scratch.osbuild(&["clean", "--all"]).code, Some(0));
    assert!(!Store::open(scratch.path("cache/osbuild")).unwrap().contains(&new));
}

#[test]
fn damaged_entries_are_named_and_removed_and_the_rest_stays() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    let good = store.put_bytes(b"good").unwrap();
    let key = Digest::of(b"a toolchain");
    let toolchain = store
        .tree(&key, |root| fs::write(root.join("gcc"), "a compiler").at("write", root))
        .unwrap();
    fs::write(toolchain.join("gcc"), "another compiler").unwrap();
    drop(store);
    let ran = scratch.osbuild(&["clean", "--damaged", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let tree = format!("trees/{}", key.hex());
    assert_eq!(ran.stdout, format!("{{\"damaged\":[\"{tree}\"]}}\n"));
    assert!(
        ran.stderr.ends_with(&format!(
            "note: removed the damaged `{tree}`: it will be made again when needed\n"
        )),
        "{}",
        ran.stderr
    );
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    assert!(store.contains(&good) && store.find_tree(&key).is_none());
}

#[test]
fn entries_that_a_running_build_may_use_stay_and_are_counted() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    let digest = store.put_bytes(b"precious").unwrap();
    let ran = scratch.osbuild(&["clean", "--all"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.ends_with("note: kept 1 entries that a running build may use\n"),
        "{}",
        ran.stderr
    );
    assert!(store.contains(&digest));
    drop(store);
    assert!(!scratch.osbuild(&["clean", "--all"]).stderr.contains("kept "));
    assert!(!Store::open(scratch.path("cache/osbuild")).unwrap().contains(&digest));
}

#[test]
fn a_build_keeps_the_store_below_the_limit_of_the_environment() {
    let mut scratch = open();
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    let old = store.put_bytes(&vec![7; 8 << 20]).unwrap();
    let path = store.path(&old).unwrap();
    File::open(&path)
        .unwrap()
        .set_modified(SystemTime::now() - Duration::from_secs(3 * 86_400))
        .unwrap();
    drop(store);
    for limit in ["1", "0"] {
        scratch.set("OSBUILD_STORE_MAX_GIB", limit);
        done(&scratch.osbuild(&["build", RECIPE]));
        assert!(path.exists(), "1 GiB is enough, and 0 means no limit");
    }
    scratch.set("OSBUILD_STORE_MAX_GIB", "much");
    let ran = scratch.osbuild(&["build", RECIPE]);
    assert!(
        ran.code == Some(2) && ran.stderr.contains("hint: export OSBUILD_STORE_MAX_GIB=50"),
        "{}",
        ran.stderr
    );
    scratch.set("OSBUILD_STORE_MAX_GIB", "");
    done(&scratch.osbuild(&["build", RECIPE]));
    done(&scratch.osbuild(&["clean", "--max-gib", "1"]));
    assert!(path.exists());
    done(&scratch.osbuild(&["clean", "--max-gib", "0"]));
    assert!(!path.exists(), "it was the least recently used");
}

#[test]
fn a_limit_also_removes_what_the_last_build_used_and_counts_what_stays() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE]));
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    let ran = scratch.osbuild(&["clean", "--max-gib", "0"]);
    assert!(ran.stderr.contains(" entries that a running build may use\n"), "{}", ran.stderr);
    drop(store);
    let ran = scratch.osbuild(&["clean", "--max-gib", "0"]);
    assert!(!ran.stderr.contains("kept "), "{}", ran.stderr);
    assert!(!scratch.has_stored(&kernel()));
}

#[test]
fn a_name_keeps_its_address_after_clean_all() {
    let scratch = Scratch::new();
    let root = scratch.path("cache/osbuild");
    let network = root.join("clients/run/networks/lab");
    let number_of = |name| network::member::number(&network, name).unwrap();
    assert_eq!((number_of("a"), number_of("b")), (0, 1));
    let probe = root.join("clients/run/probe");
    let apt = root.join("clients/apt");
    fs::write(&probe, "").unwrap();
    fs::create_dir(&apt).unwrap();
    done(&scratch.osbuild(&["clean", "--all"]));
    assert!(!probe.exists() && !apt.exists());
    assert_eq!((number_of("c"), number_of("b"), number_of("a")), (2, 1, 0));
}

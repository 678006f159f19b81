//! `osbuild clean`.

use crate::scratch::Scratch;
use osbuild::produce::store::Store;
use std::fs::File;
use std::time::{Duration, SystemTime};

#[test]
fn what_no_build_of_the_last_14_days_used_goes_and_the_rest_stays() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    let [old, new] = ["old", "new"].map(|text| store.put_bytes(text.as_bytes()).unwrap());
    let days = |days: u64| SystemTime::now() - Duration::from_secs(days * 86_400);
    for (digest, day) in [(&old, 15), (&new, 13)] {
        File::open(store.path(digest).unwrap()).unwrap().set_modified(days(day)).unwrap();
    }
    drop(store);
    let ran = scratch.osbuild(&["clean", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.said);
    let freed: serde_json::Value = serde_json::from_str(&ran.data).unwrap();
    assert_eq!(freed["entries"], 1);
    assert!(ran.said.starts_with("note: freed "), "{}", ran.said);
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    assert!(!store.contains(&old) && store.contains(&new));
    drop(store);
    assert_eq!(scratch.osbuild(&["clean", "--all"]).code, Some(0));
    assert!(!Store::open(scratch.path("cache/osbuild")).unwrap().contains(&new));
}

#[test]
fn nothing_is_removed_while_a_build_runs() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    let digest = store.put_bytes(b"precious").unwrap();
    let ran = scratch.osbuild(&["clean", "--all"]);
    assert_eq!(ran.code, Some(1));
    let said = "error: another build uses the store\nhint: wait until it has ended, then run `cargo osbuild clean` again\n";
    assert_eq!(ran.said, said);
    assert!(store.contains(&digest));
}

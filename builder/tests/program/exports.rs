//! `osbuild sources`, and builds from its exports.

use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::{self, open};
use std::fs;
use std::process::Command;

/// A project whose sources are in the store and in the exported folder `exported`.
fn exported() -> Scratch {
    let scratch = Scratch::new();
    scratch.fill_store_without("nothing");
    done(&scratch.osbuild(&["sources", "export", RECIPE, &folder(&scratch)]));
    scratch
}

fn folder(scratch: &Scratch) -> String {
    scratch.path("exported").display().to_string()
}

fn empty_the_store(scratch: &Scratch) {
    fs::remove_dir_all(scratch.path("cache")).unwrap();
}

#[track_caller]
fn done(ran: &Ran) {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn the_rust_toolchain_is_stored_once_and_exported_as_fetched() {
    let scratch = open();
    let digest = scratch.lock().toolchain.rust.unwrap().sha256;
    let tar = scratch.path("cache/osbuild/cas/sha256").join(&digest[..2]).join(&digest);
    let before = fs::read(&tar).unwrap();
    done(&scratch.osbuild(&["build", RECIPE, "--offline"]));
    assert!(!tar.exists(), "the unpacked toolchain is enough");
    let folder = scratch.path("exported with rust");
    done(&scratch.osbuild(&["sources", "export", RECIPE, folder.to_str().unwrap(), "--offline"]));
    assert!(fs::read(folder.join("sha256").join(&digest)).unwrap() == before);
    done(&scratch.osbuild(&["build", RECIPE, "--offline", "--rebuild"]));
    assert!(!tar.exists());
}

#[test]
fn an_export_has_every_locked_input_named_by_its_sha256() {
    let scratch = exported();
    let list: serde_json::Value =
        serde_json::from_slice(&fs::read(scratch.path("exported/sources.json")).unwrap()).unwrap();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), scratch.sources().len());
    for source in scratch.sources() {
        let path = scratch.path("exported/sha256").join(&source.digest);
        let output =
            Command::new("sha256sum").arg(&path).output().expect("coreutils are installed");
        assert!(
            String::from_utf8(output.stdout).unwrap().starts_with(&source.digest),
            "{}",
            source.name
        );
        let size = fs::metadata(&path).unwrap().len();
        let is_entry = |entry: &&serde_json::Value| {
            entry["name"] == source.name
                && entry["digest"] == format!("sha256:{}", source.digest)
                && entry["size"] == size
        };
        assert_eq!(list.iter().filter(is_entry).count(), 1, "{}", source.name);
    }
}

#[test]
fn an_interrupted_export_is_completed_and_damaged_files_are_rewritten() {
    let scratch = exported();
    let [gone, damaged, whole] = [0, 1, 2]
        .map(|index| scratch.path("exported/sha256").join(&scratch.sources()[index].digest));
    let before = [&gone, &damaged].map(|path| fs::read(path).unwrap());
    fs::remove_file(&gone).unwrap();
    fs::write(&damaged, "half").unwrap();
    fs::write(gone.with_extension("partial"), "half").unwrap();
    let written = fs::metadata(&whole).unwrap().modified().unwrap();
    done(&scratch.osbuild(&["sources", "export", RECIPE, &folder(&scratch)]));
    assert_eq!([&gone, &damaged].map(|path| fs::read(path).unwrap()), before);
    assert_eq!(fs::metadata(&whole).unwrap().modified().unwrap(), written);
    assert_eq!(
        fs::read_dir(scratch.path("exported/sha256")).unwrap().count(),
        scratch.sources().len()
    );
}

#[test]
fn two_exports_do_not_write_into_one_folder() {
    let scratch = exported();
    let other = fs::File::open(folder(&scratch)).unwrap();
    other.lock().unwrap();
    let ran = scratch.osbuild(&["sources", "export", RECIPE, &folder(&scratch)]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.starts_with("error: another command writes into `"), "{}", ran.stderr);
}

#[test]
fn an_import_fills_an_empty_store_without_a_network() {
    let scratch = exported();
    empty_the_store(&scratch);
    let again = scratch.path("again").display().to_string();
    assert_eq!(scratch.osbuild(&["sources", "export", "--offline", RECIPE, &again]).code, Some(3));
    done(&scratch.osbuild(&["sources", "import", &folder(&scratch)]));
    done(&scratch.osbuild(&["sources", "export", "--offline", RECIPE, &again]));
}

#[test]
fn a_damaged_source_exits_4_and_a_missing_source_exits_3() {
    let mut scratch = exported();
    scratch.set("PATH", std::env::var("PATH").unwrap());
    empty_the_store(&scratch);
    let source = &scratch.sources()[0];
    let file = scratch.path("exported/sha256").join(&source.digest);
    let folder = folder(&scratch);
    let verbs: [&[&str]; 2] =
        [&["sources", "import", &folder], &["build", RECIPE, "--rebuild", "--sources", &folder]];
    fs::write(&file, "other bytes").unwrap();
    for verb in verbs {
        let ran = scratch.osbuild(verb);
        assert_eq!(ran.code, Some(4), "{}", ran.stderr);
        let expected = format!(
            "error: `{}` is damaged\n  caused by: it should hold {}\n",
            file.display(),
            source.name
        );
        assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
    }
    fs::remove_file(&file).unwrap();
    for verb in verbs {
        let ran = scratch.osbuild(verb);
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        let expected = format!(
            "error: `{folder}` does not hold {}\n  caused by: its digest is sha256:{}\n",
            source.name, source.digest
        );
        assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
    }
}

#[test]
fn truncated_sources_of_the_store_are_taken_from_the_export_at_once() {
    let scratch = workshop::open();
    done(&scratch.osbuild(&["sources", "export", RECIPE, &folder(&scratch)]));
    let mut hashes: Vec<_> = scratch.sources().into_iter().map(|source| source.digest).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let blobs = scratch.path("cache/osbuild/cas/sha256");
    for hash in &hashes {
        let blob = blobs.join(&hash[..2]).join(hash);
        fs::remove_file(&blob).unwrap();
        fs::write(&blob, "").unwrap();
    }
    assert!(hashes.len() > 6, "a build starts again five times at most: {hashes:?}");
    let ran = scratch.osbuild(&["build", RECIPE, "--sources", &folder(&scratch)]);
    done(&ran);
    assert!(!ran.stderr.contains("damaged"), "{}", ran.stderr);
}

#[test]
fn a_folder_without_a_list_is_refused() {
    let scratch = Scratch::new();
    let ran = scratch.osbuild(&["sources", "import", &folder(&scratch)]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("holds no exported sources"), "{}", ran.stderr);
    fs::create_dir(scratch.path("exported")).unwrap();
    fs::write(scratch.path("exported/sources.json"), "{}").unwrap();
    let ran = scratch.osbuild(&["sources", "import", &folder(&scratch)]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("is not a list of sources"), "{}", ran.stderr);
}

#[test]
fn a_build_from_an_export_without_a_network_gives_the_same_image() {
    let scratch = workshop::open();
    done(&scratch.osbuild(&["build", RECIPE]));
    let before = workshop::products(&scratch);
    done(&scratch.osbuild(&["sources", "export", RECIPE, &folder(&scratch)]));
    empty_the_store(&scratch);
    fs::remove_dir_all(scratch.project().join("out")).unwrap();
    let cut_off = ["bwrap", "--dev-bind", "/", "/", "--unshare-net"];
    done(&Ran::of(
        &mut scratch.command(&cut_off, &["build", RECIPE, "--sources", &folder(&scratch)]),
    ));
    assert_eq!(before, workshop::products(&scratch));
}

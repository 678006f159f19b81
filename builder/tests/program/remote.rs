//! A cache that two users share, and a service that executes steps, as they name it to the program.

use crate::builds::done;
use crate::casd::Casd;
use crate::provenance::provenance;
use crate::releases::{folder, release, workshop};
use crate::scratch::{RECIPE, Scratch};
use crate::workshop::{kernel, open, products};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Builds, and returns what the shared cache did.
#[track_caller]
fn build(scratch: &Scratch, flags: &[&str]) -> Value {
    let ran = scratch.osbuild(&[&["build", RECIPE, "--json"], flags].concat());
    done(&ran);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    json["remote"].clone()
}

/// The results that came from the cache, and those that it lacked.
fn hits(remote: &Value) -> (u64, u64) {
    (remote["hits"].as_u64().unwrap(), remote["misses"].as_u64().unwrap())
}

#[test]
fn one_users_build_is_read_by_another_with_an_empty_store() {
    let casd = Casd::start();
    let (writer, reader) = (open(), open());
    let (hits_before, steps) =
        hits(&build(&writer, &["--remote", &casd.url(), "--remote-mode", "cache-write"]));
    assert!(hits_before == 0 && steps > 0);
    let read = build(&reader, &["--remote", &casd.url()]);
    assert_eq!(hits(&read), (steps, 0), "{read}");
    assert!(read["bytes-received"].as_u64().unwrap() > 0, "{read}");
    assert_eq!(products(&reader), products(&writer));
    assert_eq!(hits(&build(&reader, &["--remote", &casd.url()])), (0, 0), "the store has them");
}

#[test]
fn sources_come_from_the_cache_before_their_registries() {
    let casd = Casd::start();
    let (writer, reader) = (open(), open());
    // The lock has no sizes of crates, which a cache needs.
    reader.fill_store(|name| name == "crate libc");
    let ran = reader.osbuild(&["build", RECIPE, "--remote", &casd.url()]);
    assert_ne!(ran.code, Some(0), "registries cannot be reached: {}", ran.stderr);

    build(&writer, &["--remote", &casd.url(), "--remote-mode", "cache-write"]);
    reader.fill_store(|name| name == "crate libc");
    let ran = reader.osbuild(&["build", RECIPE, "--remote", &casd.url()]);
    done(&ran);
    assert!(ran.stderr.lines().any(|line| line.starts_with("sources ")), "{}", ran.stderr);
    assert_eq!(products(&reader), products(&writer));
}

#[test]
fn a_user_names_the_cache_in_a_file() {
    let casd = Casd::start();
    let (writer, reader) = (open(), open());
    for (user, mode) in [(&writer, "cache-write"), (&reader, "cache")] {
        let folder = user.path("home/.config/osbuild");
        fs::create_dir_all(&folder).unwrap();
        let text = format!("[remote]\nurl = \"{}\"\nmode = \"{mode}\"\n", casd.url());
        fs::write(folder.join("config.toml"), text).unwrap();
    }
    let (_, steps) = hits(&build(&writer, &[]));
    assert_eq!(hits(&build(&reader, &[])), (steps, 0));
}

#[test]
fn a_rebuild_runs_every_step_here() {
    let casd = Casd::start();
    let (writer, reader) = (open(), open());
    build(&writer, &["--remote", &casd.url(), "--remote-mode", "cache-write"]);
    build(&reader, &["--remote", &casd.url()]);
    assert_eq!(hits(&build(&reader, &["--remote", &casd.url(), "--rebuild"])), (0, 0));
}

#[test]
fn a_result_without_its_bytes_is_made_here() {
    let casd = Casd::start();
    let (writer, reader) = (open(), open());
    let url = casd.url();
    let (_, steps) = hits(&build(&writer, &["--remote", &url, "--remote-mode", "cache-write"]));
    casd.evict(&kernel().hex());
    let (had, lacked) = hits(&build(&reader, &["--remote", &url]));
    assert!(had + lacked == steps && lacked > 0, "{had} and {lacked} of {steps}");
    assert_eq!(products(&reader), products(&writer));
}

#[test]
fn a_cache_that_is_away_costs_one_warning() {
    let scratch = open();
    let ran = scratch.osbuild(&["build", RECIPE, "--remote", "grpc://127.0.0.1:1"]);
    done(&ran);
    let warnings: Vec<&str> =
        ran.stderr.lines().filter(|line| line.contains("grpc://127.0.0.1:1")).collect();
    assert!(warnings.len() <= 2 && warnings[0].starts_with("warning: "), "{}", ran.stderr);
}

#[test]
fn a_whole_image_is_made_elsewhere_with_the_same_bytes() {
    let casd = Casd::start();
    let (here, there, other) = (open(), open(), open());
    done(&here.osbuild(&["build", RECIPE]));
    let flags = ["--remote", &casd.url(), "--remote-mode", "execute"];
    let ran = there.osbuild(&[&["build", RECIPE, "--json"], &flags[..]].concat());
    done(&ran);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    let (hits_before, steps) = hits(&json["remote"]);
    assert!(hits_before == 0 && steps > 0, "{json}");
    assert_eq!(json["remote"]["executed"], steps, "{json}");
    let places = json["steps"].as_object().unwrap();
    assert_eq!(places.len() as u64, steps, "{json}");
    assert!(places.values().all(|place| *place == format!("executed by {}", casd.url())), "{json}");
    assert_eq!(products(&there), products(&here));
    let again = build(&other, &flags);
    assert_eq!((hits(&again), again["executed"].as_u64()), ((steps, 0), Some(0)), "{again}");
    assert_eq!(products(&other), products(&here));
}

#[test]
fn a_service_that_cannot_execute_a_step_costs_one_warning() {
    for casd in [
        Casd::with_runner(Path::new("/nonexistent")),
        Casd::start_with(&["--runner-arg=--ro-bind-mount=/etc:/foreign"]),
    ] {
        let flags = ["build", RECIPE, "--remote", &casd.url(), "--remote-mode", "execute"];
        let ran = open().osbuild(&flags);
        done(&ran);
        let warnings = ran.stderr.lines().filter(|line| line.starts_with("warning: "));
        let named = format!("warning: {} executes no steps, so they run here: ", casd.url());
        assert!(warnings.clone().count() == 1, "{}", ran.stderr);
        assert!(warnings.clone().all(|line| line.starts_with(&named)), "{}", ran.stderr);
    }
}

#[test]
fn the_provenance_names_a_service_only_if_the_owner_trusts_it() {
    let (casd, scratch) = (Casd::start(), workshop());
    let url = casd.url();
    let made = |flags: &[&str]| {
        let execute = ["--remote", &url, "--remote-mode", "execute"];
        done(&release(&scratch, &[&execute, flags].concat()));
        let statement = provenance(&scratch);
        let steps = statement["predicate"]["runDetails"]["byproducts"].as_array().unwrap().clone();
        let place = |step: &Value| step["annotations"]["made"].as_str().unwrap().to_owned();
        steps.iter().map(place).collect::<BTreeSet<String>>()
    };
    assert_eq!(made(&["--remote-trusted"]), BTreeSet::from([format!("executed by {url}")]));
    fs::remove_dir_all(folder(&scratch)).unwrap();
    assert_eq!(made(&[]), BTreeSet::from(["here".to_owned()]));
}

#[test]
fn a_plain_cache_executes_nothing() {
    let flags = ["build", RECIPE, "--remote", "http://127.0.0.1:1", "--remote-mode", "execute"];
    let ran = open().osbuild(&flags);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn what_names_no_cache_is_refused() {
    let scratch = open();
    for url in ["", "cache.example", "ftp://cache.example", "grpc://user:secret@cache.example:1"] {
        let ran = scratch.osbuild(&["build", RECIPE, "--remote", url]);
        assert_eq!(ran.code, Some(2), "{url}: {}", ran.stderr);
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
}

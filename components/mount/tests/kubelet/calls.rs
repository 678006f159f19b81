//! Compares the table of calls with the source that it was taken from.

use crate::golang;
use crate::table::{self, Site};
use mount::loop_request::LoopRequest;
use mount::request::{MountRequest, UmountRequest};
use std::ffi::OsString;

const KUBERNETES: &str = "k8s.io/kubernetes";

/// Whether a line calls a method of mount-utils' `Interface` or `SafeFormatAndMount` that mounts,
/// or executes `losetup`.
fn mounts(line: &str) -> bool {
    [".Mount(", ".MountSensitive", ".FormatAndMount", "Command(losetupPath"]
        .iter()
        .any(|call| line.contains(call))
}

#[test]
fn every_kubelet_line_that_mounts_is_in_the_table() {
    let calls = table::calls();
    let root = golang::module(KUBERNETES, &calls.kubernetes);
    let found = golang::sites(KUBERNETES, &root, &["cmd/kubelet".into(), "pkg".into()], mounts);
    let mut known: Vec<Site> =
        calls.call.iter().map(|call| call.site.clone()).chain(calls.other).collect();
    known.retain(|site| site.module == KUBERNETES);
    golang::same_sites(found, known);
}

/// The functions around those lines, and a few others, build the options. If one of them changes,
/// it must be read before the table counts as current.
#[test]
fn every_function_that_builds_arguments_is_unchanged() {
    let calls = table::calls();
    let around = calls
        .call
        .iter()
        .map(|call| (&call.site.module, &call.site.file, &call.function, &call.digest));
    let others = calls
        .function
        .iter()
        .map(|function| (&function.module, &function.file, &function.name, &function.digest));
    let mut changed = Vec::new();
    for (module, file, name, digest) in around.chain(others) {
        let found = golang::digest(&golang::function(
            &golang::module(module, &calls.kubernetes).join(file),
            name,
        ));
        if found != *digest {
            changed.push(format!("{module}/{file}: {name}: {found}"));
        }
    }
    assert!(
        changed.is_empty(),
        "read these functions, then set their digests in calls.toml:\n{}",
        changed.join("\n")
    );
}

#[test]
fn every_line_of_the_table_is_in_its_function() {
    let calls = table::calls();
    for call in calls.call {
        let file = golang::module(&call.site.module, &calls.kubernetes).join(&call.site.file);
        assert!(
            golang::function(&file, &call.function).contains(&call.site.source),
            "{}: {}",
            call.site.file,
            call.function
        );
    }
}

#[test]
fn every_call_is_supported() {
    for line in table::calls().call.iter().flat_map(|call| &call.lines) {
        let line = line.replace("W/", "/work/").replace("LOOP", "/dev/loop1");
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let parsed = match words[0].to_str() {
            Some("mount") => MountRequest::parse(&words[1..]).map(drop),
            Some("umount") => UmountRequest::parse(&words[1..]).map(drop),
            Some("losetup") => LoopRequest::parse(&words[1..]).map(drop),
            _ => panic!("{line}"),
        };
        assert_eq!(parsed, Ok(()), "{line}");
    }
}

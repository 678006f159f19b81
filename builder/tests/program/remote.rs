//! A cache that two users share, and a service that executes steps, as they name it to the program.

use crate::builds::{done, with_second};
use crate::casd::Casd;
use crate::http::Server;
use crate::provenance::provenance;
use crate::releases::{folder, release, workshop};
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::{dependencies, host_program, kernel, open, open_with, products};
use osbuild::engine::digest::Digest;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
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
    assert!(read["saved-s"].as_f64().unwrap() > 0.0, "{read}");
    assert_eq!(products(&reader), products(&writer));
    assert_eq!(hits(&build(&reader, &["--remote", &casd.url()])), (0, 0), "the store has them");
}

#[test]
fn a_second_writer_sends_no_source_again() {
    let (casd, writer, second) = (Casd::start(), open(), open());
    let write = ["--remote", &casd.url(), "--remote-mode", "cache-write"];
    let sent = |remote: &Value| remote["bytes-sent"].as_u64().unwrap();
    assert!(sent(&build(&writer, &write)) > 1_000_000);
    casd.evict(&kernel().hex());
    let again = build(&second, &write);
    assert!(hits(&again).1 > 0, "a step runs: {again}");
    assert_eq!(sent(&again), kernel().size(), "{again}");
}

#[test]
fn variables_name_the_cache_of_a_pipeline_and_a_flag_wins() {
    let casd = Casd::start();
    let (mut main, mut pull_request) = (open(), newcomer());
    main.set("OSBUILD_REMOTE", casd.url());
    main.set("OSBUILD_REMOTE_MODE", "cache-write");
    let (_, steps) = hits(&build(&main, &[]));
    pull_request.set("OSBUILD_REMOTE", "");
    let ran = pull_request.osbuild(&["build", RECIPE]);
    assert_ne!(ran.code, Some(0), "an empty URL is no cache: {}", ran.stderr);
    pull_request.set("OSBUILD_REMOTE", "grpc://127.0.0.1:1");
    assert_eq!(hits(&build(&pull_request, &["--remote", &casd.url()])), (steps, 0));
}

#[test]
fn a_plain_cache_on_the_loopback_is_not_reached_over_a_proxy() {
    let (cache, mut scratch) = (Server::start(), open());
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    scratch.set("HTTP_PROXY", format!("http://{}", proxy.local_addr().unwrap()));
    let (_, misses) = hits(&build(&scratch, &["--remote", cache.address()]));
    proxy.set_nonblocking(true).unwrap();
    assert!(misses > 1 && proxy.accept().is_err(), "the proxy got a request");
}

/// Whether the report of a command has a line with this start and this end.
fn has_line(ran: &Ran, start: &str, end: &str) -> bool {
    ran.stderr.lines().any(|line| line.starts_with(start) && line.ends_with(end))
}

/// A user whose store is empty, and who can reach no registry.
fn newcomer() -> Scratch {
    let reader = open();
    reader.fill_store(|_| false);
    reader
}

/// A cache with the results of a user's build, that user, and a [`newcomer`].
fn filled_cache() -> (Casd, Scratch, Scratch) {
    let (casd, writer) = (Casd::start(), open());
    build(&writer, &["--remote", &casd.url(), "--remote-mode", "cache-write"]);
    (casd, writer, newcomer())
}

#[test]
fn a_build_from_the_cache_fetches_no_source() {
    let casd = Casd::start();
    let (writer, reader) = (open(), newcomer());
    let ran = reader.osbuild(&["build", RECIPE, "--remote", &casd.url()]);
    assert_ne!(ran.code, Some(0), "registries cannot be reached: {}", ran.stderr);

    build(&writer, &["--remote", &casd.url(), "--remote-mode", "cache-write"]);
    let ran = reader.osbuild(&["build", RECIPE, "--remote", &casd.url()]);
    done(&ran);
    assert!(!ran.stderr.lines().any(|line| line.starts_with("sources ")), "{}", ran.stderr);
    assert!(has_line(&ran, "kernel arm64 ", " fetched"), "{}", ran.stderr);
    assert_eq!(reader.stored_sources(), [""; 0]);
    assert!(!reader.path("cache/osbuild/trees").read_dir().unwrap().any(|_| true));
    assert_eq!(products(&reader), products(&writer));
}

#[test]
fn a_step_that_runs_here_gets_its_own_sources_from_the_cache() {
    let (casd, writer, reader) = filled_cache();
    // The kernel's step is the only one that makes this file.
    casd.evict(&Digest::of(b"6.12.1\n").hex());
    let ran = reader.osbuild(&["build", RECIPE, "--remote", &casd.url()]);
    done(&ran);
    assert!(ran.stderr.lines().any(|line| line.starts_with("sources ")), "{}", ran.stderr);
    let stored = reader.stored_sources();
    assert!(stored.iter().any(|name| name.starts_with("linux-source-")), "{stored:?}");
    let others = ["crate ", "toolchain ", "k8s.io/", "ca-certificates", "systemd-boot-efi"];
    let is_other = |name: &String| others.iter().any(|start| name.starts_with(start));
    assert!(!stored.iter().any(is_other), "{stored:?}");
    assert_eq!(products(&reader), products(&writer));
}

#[test]
fn crates_and_toolchains_come_from_the_cache_too() {
    let (casd, writer, reader) = filled_cache();
    casd.evict(&host_program().hex());
    build(&reader, &["--remote", &casd.url()]);
    let stored = reader.stored_sources();
    for name in ["crate libc", "toolchain go", "k8s.io/kubernetes"] {
        assert!(stored.iter().any(|stored| stored == name), "{name}: {stored:?}");
    }
    assert_eq!(products(&reader), products(&writer));
}

/// The steps that ran on the reader's machine.
#[track_caller]
fn steps_here(reader: &Scratch, casd: &Casd) -> Vec<String> {
    let ran = reader.osbuild(&["build", RECIPE, "--json", "--remote", &casd.url()]);
    done(&ran);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    let steps = json["steps"].as_object().unwrap();
    steps.iter().filter(|(_, made)| *made == "here").map(|(step, _)| step.clone()).collect()
}

#[test]
fn the_compiled_dependencies_of_a_program_are_not_fetched_with_it() {
    let (casd, writer, reader) = filled_cache();
    let read = build(&reader, &["--remote", &casd.url()]);
    assert_eq!(hits(&read).1, 0, "{read}");
    assert_eq!(products(&reader), products(&writer));
    assert!(writer.has_stored(&dependencies()) && !reader.has_stored(&dependencies()));
    let again = build(&reader, &["--remote", &casd.url()]);
    assert_eq!(hits(&again), (0, 0), "the store knows them");
    assert_eq!(steps_here(&reader, &casd), [""; 0]);
}

#[test]
fn a_program_that_is_compiled_here_gets_its_dependencies() {
    let (casd, writer, reader) = filled_cache();
    casd.evict(&host_program().hex());
    let here = steps_here(&reader, &casd);
    assert!(here.iter().any(|step| step.starts_with("init ")), "{here:?}");
    assert!(!here.iter().any(|step| step.contains(" dependencies ")), "{here:?}");
    assert_eq!(products(&reader), products(&writer));

    let (casd, writer, reader) = filled_cache();
    casd.evict(&host_program().hex());
    casd.evict(&dependencies().hex());
    let here = steps_here(&reader, &casd);
    assert!(here.iter().any(|step| step.starts_with("init dependencies ")), "{here:?}");
    assert_eq!(products(&reader), products(&writer));
}

#[test]
fn a_program_is_compiled_with_dependencies_that_have_other_bytes_here() {
    let random = "if [ -e workspace ] && [ ! -e dependencies.tar ]; then\n    \
                  cat /proc/sys/kernel/random/uuid >dependencies.tar\n    exit\nfi\n";
    let (casd, writer, reader) = (Casd::start(), open_with(random), open_with(random));
    build(&writer, &["--remote", &casd.url(), "--remote-mode", "cache-write"]);
    casd.evict(&host_program().hex());
    // A UUID in text with its newline has 37 bytes.
    writer.stored_of_size(37).iter().for_each(|dependencies| casd.evict(dependencies));
    let here = steps_here(&reader, &casd);
    for step in ["init dependencies arm64", "init arm64"] {
        assert!(here.iter().any(|name| name == step), "{step}: {here:?}");
    }
    assert_eq!(products(&reader), products(&writer));
    assert_eq!(hits(&build(&reader, &["--remote", &casd.url()])), (0, 0), "the store knows them");
}

#[test]
fn a_release_takes_sources_from_the_cache_and_no_results() {
    let (casd, writer) = (Casd::start(), open());
    build(&writer, &["--remote", &casd.url(), "--remote-mode", "cache-write"]);
    let owner = workshop();
    owner.fill_store(|_| false);
    done(&release(&owner, &["--remote", &casd.url()]));
    let statement = provenance(&owner);
    let steps = statement["predicate"]["runDetails"]["byproducts"].as_array().unwrap();
    assert!(steps.len() > 10 && steps.iter().all(|step| step["annotations"]["made"] == "here"));
}

#[test]
fn a_lock_without_sizes_of_crates_builds_from_fetched_crates() {
    let (casd, reader) = (Casd::start(), open());
    let mut lock = reader.lock();
    lock.crates.sizes.clear();
    reader.write_lock(&lock);
    build(&reader, &["--remote", &casd.url(), "--remote-mode", "cache-write"]);
    reader.fill_store(|name| name == "crate libc");
    let (_, misses) = hits(&build(&reader, &["--remote", &casd.url()]));
    assert_eq!(misses, 0);
    reader.fill_store(|_| false);
    let ran = reader.osbuild(&["build", RECIPE, "--remote", &casd.url()]);
    assert_ne!(ran.code, Some(0), "the crate has to be fetched: {}", ran.stderr);
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
fn recipes_that_are_built_together_have_one_summary_of_the_cache() {
    let (casd, scratch) = (Casd::start(), open());
    with_second(&scratch);
    let ran = scratch.osbuild(&["build", "--all", "--remote", &casd.url()]);
    done(&ran);
    let summaries = ran.stderr.lines().filter(|line| line.starts_with("note: the cache "));
    assert_eq!(summaries.count(), 1, "{}", ran.stderr);
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
fn a_comparison_and_a_publish_read_no_cache() {
    let (casd, owner) = (Casd::start(), workshop());
    let url = casd.url();
    build(&owner, &["--unsigned", "--remote", &url, "--remote-mode", "cache-write"]);
    let image = owner.project().join("out").join(RECIPE).join("image.raw").display().to_string();
    let verify = ["verify", &image, "--unsigned", "--against", RECIPE, "--remote", &url];
    let region = ["--region", "eu-central-1", "--owner", "team", "--key", "mine"];
    let publish =
        [&["publish", "aws", RECIPE, "--dry-run", "--remote", &url], &region[..]].concat();
    for words in [&verify[..], &[&verify[..], &["--rebuild"]].concat(), &publish] {
        owner.fill_store(|_| true);
        let ran = owner.osbuild(words);
        assert!(ran.stderr.contains("kernel arm64 "), "{words:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains(" fetched\n"), "{words:?}: {}", ran.stderr);
        if words[0] == "verify" {
            assert!(ran.stdout.contains(" ran for this comparison"), "{}", ran.stdout);
        }
    }
    owner.fill_store(|_| true);
    let (found, lacking) = hits(&build(&owner, &["--unsigned", "--remote", &url]));
    assert!(found > 0 && lacking == 0, "the cache has all of them: {found} and {lacking}");
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
    let places = json["steps"].as_object().unwrap();
    assert_eq!(places.len() as u64, steps, "{json}");
    let is_there = |place: &&Value| **place == format!("executed by {}", casd.url());
    let executed = places.values().filter(is_there).count() as u64;
    assert_eq!(json["remote"]["executed"], executed, "{json}");
    // The stub and the certificates are taken out of their packages here.
    assert_eq!(executed + 2, steps, "{json}");
    assert!(has_line(&ran, "kernel arm64 ", " there"), "{}", ran.stderr);
    assert_eq!(products(&there), products(&here));
    let again = build(&other, &flags);
    assert_eq!((hits(&again), again["executed"].as_u64()), ((executed, 2), Some(0)), "{again}");
    assert_eq!(products(&other), products(&here));
}

#[test]
fn results_that_a_service_made_are_not_found_by_readers_of_its_cache() {
    let (casd, there, reader) = (Casd::start(), open(), open());
    let made = build(&there, &["--remote", &casd.url(), "--remote-mode", "execute"]);
    assert!(made["executed"].as_u64().unwrap() > 0, "{made}");
    let (found, steps) = hits(&build(&reader, &["--remote", &casd.url()]));
    assert!(found == 0 && steps > 0, "{found} and {steps}");
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

/// Where the steps of a release were made, without the files that `osbuild` takes out of packages.
#[track_caller]
fn made(owner: &Scratch, flags: &[&str]) -> BTreeSet<String> {
    done(&release(owner, flags));
    let statement = provenance(owner);
    let steps = statement["predicate"]["runDetails"]["byproducts"].as_array().unwrap();
    let is_of_sandbox = |step: &&Value| !step["name"].as_str().unwrap().contains(" usr/");
    let place = |step: &Value| step["annotations"]["made"].as_str().unwrap().to_owned();
    steps.iter().filter(is_of_sandbox).map(place).collect()
}

#[test]
fn the_provenance_names_a_service_only_if_the_owner_trusts_it() {
    let (casd, scratch) = (Casd::start(), workshop());
    let execute = ["--remote", &casd.url(), "--remote-mode", "execute"];
    let there = BTreeSet::from([format!("executed by {}", casd.url())]);
    assert_eq!(made(&scratch, &[&execute[..], &["--remote-trusted"]].concat()), there);
    fs::remove_dir_all(folder(&scratch)).unwrap();
    assert_eq!(made(&scratch, &execute), BTreeSet::from(["here".to_owned()]));
}

#[test]
fn the_provenance_names_a_cache_only_if_the_owner_trusts_it() {
    let (casd, writer, owner) = (Casd::start(), open(), workshop());
    let url = casd.url();
    build(&writer, &["--remote", &url, "--remote-mode", "cache-write"]);
    let cached = BTreeSet::from([url.clone()]);
    assert_eq!(made(&owner, &["--remote", &url, "--remote-trusted"]), cached);
    fs::remove_dir_all(folder(&owner)).unwrap();
    assert_eq!(made(&owner, &["--remote", &url]), BTreeSet::from(["here".to_owned()]));
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

#[test]
fn secrets_of_a_users_files_reach_the_cache_and_no_output() {
    let (cache, user) = (Server::start(), open());
    let folder = user.path("home/.config/osbuild");
    fs::create_dir_all(&folder).unwrap();
    let keys = "token-file = \"token\"\nheader-file = \"headers\"\n";
    let text = format!("[remote]\nurl = \"{}\"\n{keys}", cache.address());
    fs::write(folder.join("config.toml"), text).unwrap();
    fs::write(folder.join("token"), "t0ken-of-ours\n").unwrap();
    fs::write(folder.join("headers"), "X-Team: k3y-of-ours\n").unwrap();
    let ran = user.osbuild(&["build", RECIPE, "-v", "--json"]);
    done(&ran);
    let heads = cache.heads();
    assert!(heads.len() > 1);
    for head in heads {
        let head = head.to_lowercase();
        for header in ["authorization: bearer t0ken-of-ours", "x-team: k3y-of-ours"] {
            assert!(head.lines().any(|line| line == header), "{header}: {head}");
        }
    }
    let logs = user.project().join("out").join(RECIPE).join("logs").read_dir().unwrap();
    let logs: Vec<_> = logs.map(|log| fs::read(log.unwrap().path()).unwrap()).collect();
    assert!(!logs.is_empty());
    let output = [ran.stdout.into_bytes(), ran.stderr.into_bytes(), logs.concat()].concat();
    let output = String::from_utf8_lossy(&output);
    assert!(!output.contains("-of-ours"), "{output}");
}

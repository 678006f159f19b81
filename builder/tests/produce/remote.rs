//! A cache that two users share, each with a store of their own.

use crate::bazel_remote::BazelRemote;
use crate::bench::Bench;
use crate::buildgrid::BuildGrid;
use crate::casd::Casd;
use crate::certificates::Certificates;
use crate::proxy::{Harm, proxy};
use crate::refusals::{NOT_FOUND, Refusal, refuse};
use osbuild::engine::action::{Action, ActionResult, Origin};
use osbuild::engine::digest::Digest;
use osbuild::engine::executor::{Executor, Rebuild};
use osbuild::engine::remote::{Mode, Remote, Trust};
use osbuild_remote::{Access, Retry};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The content of the small output of [`action`]. No other output or log contains it.
const MARK: &[u8] = b"the bytes that a network harms";

fn remote(bench: &Bench, url: &str, mode: Mode) -> Arc<Remote> {
    remote_with(bench, url, mode, &Access::default())
}

fn remote_with(bench: &Bench, url: &str, mode: Mode, access: &Access) -> Arc<Remote> {
    let retry = Retry {
        connect_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(5),
        tries: 3,
        first_pause: Duration::from_millis(10),
        ..Retry::default()
    };
    Arc::new(Remote::with(url.parse().unwrap(), access, mode, bench.report(), retry).unwrap())
}

fn executor(bench: &Bench, remote: &Arc<Remote>) -> Executor {
    bench.executor().sharing(Some(Arc::clone(remote)), Trust::Everywhere)
}

/// An action with a small output, a large one and a log. Each run of it has another `run`.
fn action(bench: &Bench) -> Action {
    let text = std::str::from_utf8(MARK).unwrap();
    let script = format!(
        "echo log; echo '{text}' >small; chmod 755 small; cat /proc/sys/kernel/random/uuid >run; \
         dd if=/dev/zero of=d/large bs=1M count=9"
    );
    bench.script(&script, &["small", "run", "d/large"])
}

/// Runs [`action`] for a user who gives the cache its results.
fn fill(url: &str) -> ActionResult {
    let bench = Bench::new();
    let remote = remote(&bench, url, Mode::CacheWrite);
    executor(&bench, &remote).run(&action(&bench)).unwrap()
}

/// The result for a user with an empty store, and whether it came from the cache.
fn get(url: &str) -> (ActionResult, bool) {
    let bench = Bench::new();
    let remote = remote(&bench, url, Mode::Cache);
    let result = executor(&bench, &remote).run(&action(&bench)).unwrap();
    for output in result.outputs.values() {
        bench.store().read(&output.digest).unwrap();
    }
    assert_eq!(
        bench.store().read(&result.output("small").unwrap()).unwrap(),
        [MARK, b"\n"].concat()
    );
    (result.clone(), result.origin.is_some())
}

#[test]
fn one_users_result_is_anothers() {
    let casd = Casd::start();
    let made = fill(&casd.url());
    let (got, is_fetched) = get(&casd.url());
    assert!(is_fetched);
    assert_eq!((&got.outputs, got.cpu), (&made.outputs, made.cpu));
    assert_eq!(got.log, made.log);
    assert_eq!(got.origin, Some(Origin::Cache(casd.url())));
}

#[test]
fn a_server_of_others_keeps_results_too() {
    let server = BuildGrid::start();
    let made = fill(&server.url());
    let (got, is_fetched) = get(&server.url());
    assert!(is_fetched);
    assert_eq!(got.outputs, made.outputs);
    assert_eq!(got.log, made.log);
}

#[test]
fn what_bazel_remote_gets_over_one_protocol_it_gives_over_both() {
    for writer in 0..2 {
        let server = BazelRemote::start();
        let made = fill(&server.urls()[writer]);
        for url in server.urls() {
            let (got, is_fetched) = get(&url);
            assert!(is_fetched, "{url}");
            assert_eq!((got.outputs, got.log), (made.outputs.clone(), made.log), "{url}");
        }
    }
}

#[test]
fn an_encrypted_server_serves_those_with_a_certificate_of_its_authority() {
    let certificates = Certificates::make();
    let server = BazelRemote::with_tls(&certificates);
    let run = |url: &str, mode, access: &Access| {
        let bench = Bench::new();
        let remote = remote_with(&bench, url, mode, access);
        executor(&bench, &remote).run(&action(&bench)).unwrap().origin.is_some()
    };
    let (stranger, user) = (certificates.stranger(), certificates.user());
    let urls = server.urls();
    assert!(urls[0].starts_with("grpcs://") && urls[1].starts_with("https://"));
    assert!(!run(&urls[0], Mode::CacheWrite, &stranger), "it runs here");
    assert!(!run(&urls[0], Mode::CacheWrite, &user), "a stranger has given it nothing");
    for url in &urls {
        assert!(run(url, Mode::Cache, &user), "{url}");
        assert!(!run(url, Mode::Cache, &stranger), "{url}");
        assert!(!run(url, Mode::Cache, &Access::default()), "{url}: the authority is unknown");
    }
}

#[test]
fn a_reader_gives_the_cache_nothing() {
    let casd = Casd::start();
    get(&casd.url());
    assert!(!get(&casd.url()).1);
}

#[test]
fn what_a_cache_did_is_counted() {
    let casd = Casd::start();
    let bench = Bench::new();
    let writer = remote(&bench, &casd.url(), Mode::CacheWrite);
    let made = executor(&bench, &writer).run(&action(&bench)).unwrap();
    let used = writer.used();
    assert_eq!((used.hits, used.misses, used.traffic.received), (0, 1, 0));
    assert_eq!(used.saved.as_millis(), 0);
    assert!(used.traffic.sent > 0);
    let bench = Bench::new();
    let reader = remote(&bench, &casd.url(), Mode::Cache);
    executor(&bench, &reader).run(&action(&bench)).unwrap();
    executor(&bench, &reader).run(&action(&bench)).unwrap();
    let used = reader.used();
    assert_eq!((used.hits, used.misses, used.traffic.sent), (1, 0, 0), "the store had the second");
    assert_eq!(used.saved.as_millis(), made.wall.as_millis());
    assert!(used.traffic.received > 0);
}

#[test]
fn other_environments_share_nothing() {
    let casd = Casd::start();
    fill(&casd.url());
    let bench = Bench::new();
    let cache = remote(&bench, &casd.url(), Mode::Cache);
    let mut other = action(&bench);
    other.root.key = Digest::of(b"another root");
    assert_eq!(executor(&bench, &cache).run(&other).unwrap().origin, None);
}

#[test]
fn a_rebuild_and_a_build_that_trusts_this_machine_read_no_cache() {
    let casd = Casd::start();
    let made = fill(&casd.url());
    let bench = Bench::new();
    let cache = remote(&bench, &casd.url(), Mode::Cache);
    let own =
        executor(&bench, &cache).rebuilding(Rebuild::Everything).run(&action(&bench)).unwrap();
    assert_ne!(own.outputs["run"], made.outputs["run"]);
    let bench = Bench::new();
    let fetched = executor(&bench, &cache).run(&action(&bench)).unwrap();
    assert_eq!(fetched.outputs["run"], made.outputs["run"]);
    let here = || bench.executor().sharing(Some(Arc::clone(&cache)), Trust::Here);
    let own = here().run(&action(&bench)).unwrap();
    assert_eq!(own.origin, None);
    assert_ne!(own.outputs["run"], made.outputs["run"], "a stored result of a cache ran again");
    assert_eq!(here().run(&action(&bench)).unwrap(), own, "and only once");
}

#[test]
fn a_flipped_bit_is_no_result() {
    let casd = Casd::start();
    fill(&casd.url());
    let harmed = proxy(casd.address, Harm::Flip(MARK.to_vec()));
    assert!(!get(&format!("grpc://{harmed}")).1);
}

#[test]
fn a_cut_connection_ends_in_a_run_here() {
    let casd = Casd::start();
    fill(&casd.url());
    let harmed = proxy(casd.address, Harm::Cut(MARK.to_vec()));
    assert!(!get(&format!("grpc://{harmed}")).1);
}

#[test]
fn a_slow_cache_is_used_and_a_silent_one_given_up() {
    let casd = Casd::start();
    fill(&casd.url());
    let slow = proxy(casd.address, Harm::Delay(Duration::from_millis(30)));
    assert!(get(&format!("grpc://{slow}")).1);
    let silent = proxy(casd.address, Harm::Silence);
    let began = Instant::now();
    assert!(!get(&format!("grpc://{silent}")).1);
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
}

#[test]
fn a_slow_link_that_brings_many_small_files_is_not_taken_for_silence() {
    let casd = Casd::start();
    let script = "for name in 1 2 3 4 5 6; do dd if=/dev/urandom of=$name bs=1k count=500; done";
    let action = |bench: &Bench| bench.script(script, &["1", "2", "3", "4", "5", "6"]);
    let (writer, reader) = (Bench::new(), Bench::new());
    let shared = remote(&writer, &casd.url(), Mode::CacheWrite);
    let made = executor(&writer, &shared).run(&action(&writer)).unwrap();

    // All files together take longer than the time without a sign of life, and none of them does.
    let retry = Retry { idle_timeout: Duration::from_secs(2), tries: 1, ..Retry::default() };
    let link = proxy(casd.address, Harm::Slow(1_000_000));
    let (url, mode) = (format!("grpc://{link}").parse().unwrap(), Mode::Cache);
    let slow = Remote::with(url, &Access::default(), mode, reader.report(), retry);
    let got = executor(&reader, &Arc::new(slow.unwrap())).run(&action(&reader)).unwrap();
    assert!(got.origin.is_some());
    assert_eq!(got.outputs, made.outputs);
}

#[test]
fn an_evicted_blob_ends_in_a_run_here_and_the_cache_is_used_on() {
    let casd = Casd::start();
    let made = fill(&casd.url());
    casd.evict(&made.output("d/large").unwrap().hex());
    let bench = Bench::new();
    let cache = remote(&bench, &casd.url(), Mode::CacheWrite);
    assert_eq!(executor(&bench, &cache).run(&action(&bench)).unwrap().origin, None);
    assert!(get(&casd.url()).1, "the run gave the cache its result");
}

#[test]
fn a_file_that_is_gone_when_it_is_read_makes_one_step_run_here() {
    let casd = Casd::start();
    let script = "echo other >small; dd if=/dev/zero of=large bs=1M count=5";
    let other = |bench: &Bench| bench.script(script, &["small", "large"]);
    let writer = Bench::new();
    let shared = remote(&writer, &casd.url(), Mode::CacheWrite);
    executor(&writer, &shared).run(&action(&writer)).unwrap();
    executor(&writer, &shared).run(&other(&writer)).unwrap();
    for method in ["/BatchReadBlobs", "/Read"] {
        let evicts = refuse(casd.address, Refusal { method, code: NOT_FOUND, times: 1 });
        let bench = Bench::new();
        let cache = remote(&bench, &format!("grpc://{}", evicts.address), Mode::Cache);
        let origin = |action| executor(&bench, &cache).run(&action).unwrap().origin;
        assert_eq!(origin(action(&bench)), None, "{method}");
        assert!(origin(other(&bench)).is_some(), "{method}: the cache is used on");
        let used = cache.used();
        assert_eq!((used.hits, used.misses), (1, 1), "{method}");
        assert!(evicts.calls() > 1, "{method}");
    }
}

#[test]
fn a_source_that_a_cache_has_lost_keeps_no_other_from_coming() {
    let casd = Casd::start();
    let (writer, reader) = (Bench::new(), Bench::new());
    let put = |text: &str| writer.store().put_bytes(text.as_bytes()).unwrap();
    let sources = ["one", "two", "three"].map(put);
    let shared = remote(&writer, &casd.url(), Mode::CacheWrite);
    shared.give_sources(writer.store(), &sources, &|_| Ok(())).unwrap();
    let loses = Refusal { method: "/BatchReadBlobs", code: NOT_FOUND, times: 1 };
    let loses = refuse(casd.address, loses);
    let cache = remote(&reader, &format!("grpc://{}", loses.address), Mode::Cache);
    assert_eq!(cache.take_sources(reader.store(), &sources).unwrap(), sources.len());
    assert!(sources.iter().all(|source| reader.store().contains(source)));
}

#[test]
fn a_file_of_zeros_is_compressed_both_ways() {
    const SIZE: u64 = 9 << 20;
    let server = BazelRemote::start();
    let [grpc, http] = server.urls();
    // A plain cache has no compression.
    for (url, is_compressed) in [(grpc, true), (http, false)] {
        let script = format!("dd if=/dev/zero of=zeros bs=1M count=9; : {is_compressed}");
        let (writer, reader) = (Bench::new(), Bench::new());
        let shares = |bench: &Bench, mode| {
            let cache = remote(bench, &url, mode);
            executor(bench, &cache).run(&bench.script(&script, &["zeros"])).unwrap();
            cache.used().traffic
        };
        let (sent, received) =
            (shares(&writer, Mode::CacheWrite).sent, shares(&reader, Mode::Cache).received);
        match is_compressed {
            true => assert!(sent.max(received) < SIZE / 100, "{sent} and {received}"),
            false => assert!(received >= SIZE, "{received}"),
        }
    }
}

#[test]
fn a_dead_cache_is_asked_once() {
    let url = {
        let casd = Casd::start();
        casd.url()
    };
    let bench = Bench::new();
    let cache = remote(&bench, &url, Mode::CacheWrite);
    for script in ["echo 1 >out", "echo 2 >out", "echo 3 >out"] {
        executor(&bench, &cache).run(&bench.script(script, &["out"])).unwrap();
    }
    assert_eq!(cache.used().misses, 1);
}

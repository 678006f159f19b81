//! A cache over plain HTTP, which two users share.

use crate::apache::Apache;
use crate::bench::Bench;
use crate::certificates::Certificates;
use crate::proxy::{Harm, proxy};
use osbuild::engine::executor::Executor;
use osbuild::engine::remote::{Mode, Remote, Trust};
use osbuild_remote::{Access, Retry};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The content of the small output of a step. Neither its name nor its log contains it.
const MARK: &str = "bytes that a network harms";

/// Runs a step with an empty store. Returns whether its result came from the cache.
fn run(url: &str, mode: Mode, access: &Access) -> bool {
    let bench = Bench::new();
    let retry = Retry {
        idle_timeout: Duration::from_secs(5),
        tries: 3,
        first_pause: Duration::from_millis(10),
        ..Retry::default()
    };
    let remote = Remote::with(url.parse().unwrap(), access, mode, bench.report(), retry).unwrap();
    let executor: Executor = bench.executor().sharing(Some(Arc::new(remote)), Trust::Everywhere);
    let script = format!("head -c 9M /dev/zero >large; echo '{MARK}' >small");
    let result = executor.run(&bench.script(&script, &["large", "small"])).unwrap();
    for output in result.outputs.values() {
        bench.store().read(&output.digest).unwrap();
    }
    result.origin.is_some()
}

#[test]
fn one_users_result_is_anothers_over_plain_http() {
    let (server, access) = (Apache::start(), Access::default());
    let url = server.url("http");
    assert!(!run(&url, Mode::Cache, &access), "the cache is empty");
    assert!(server.blobs().is_empty(), "a reader gives it nothing");
    assert!(!run(&url, Mode::CacheWrite, &access));
    assert!(run(&url, Mode::Cache, &access));
    for blob in server.blobs() {
        fs::write(blob, "other bytes").unwrap();
    }
    assert!(!run(&url, Mode::Cache, &access), "wrong bytes are no result");
}

#[test]
fn a_server_that_demands_a_certificate_gets_it_and_serves_nobody_else() {
    let certificates = Certificates::make();
    let server = Apache::with_tls(&certificates);
    let url = server.url("https");
    let (stranger, user) = (certificates.stranger(), certificates.user());
    assert!(!run(&url, Mode::CacheWrite, &stranger));
    assert!(server.blobs().is_empty());
    assert!(!run(&url, Mode::CacheWrite, &user));
    assert!(run(&url, Mode::Cache, &user));
    assert!(!run(&url, Mode::Cache, &stranger));
    assert!(!run(&url, Mode::Cache, &Access::default()), "the authority is unknown");
}

/// Whether a user with an empty store gets the result of another one through a network that harms
/// the bytes of the server.
fn is_fetched_through(server: &Apache, harm: Harm) -> bool {
    let link = proxy(server.address(), harm);
    run(&format!("http://{link}"), Mode::Cache, &Access::default())
}

/// A server that has the result of a step.
fn filled() -> Apache {
    let server = Apache::start();
    run(&server.url("http"), Mode::CacheWrite, &Access::default());
    server
}

#[test]
fn a_fault_of_plain_http_that_ends_is_tried_again() {
    let server = filled();
    for harm in [
        Harm::None,
        Harm::Delay(Duration::from_millis(30)),
        Harm::cut_once(MARK.as_bytes()),
        Harm::status(b"HTTP/1.1 503", 2),
        Harm::status(b"HTTP/1.1 429", 2),
    ] {
        let text = format!("{harm:?}");
        assert!(is_fetched_through(&server, harm), "{text}");
    }
}

#[test]
fn a_fault_of_plain_http_that_stays_ends_in_a_run_here() {
    let server = filled();
    for harm in [
        Harm::Cut(MARK.into()),
        Harm::Flip(MARK.into()),
        Harm::status(b"HTTP/1.1 503", usize::MAX),
        // The token of this user has expired.
        Harm::status(b"HTTP/1.1 401", usize::MAX),
        Harm::Silence,
    ] {
        let (text, began) = (format!("{harm:?}"), Instant::now());
        assert!(!is_fetched_through(&server, harm), "{text}");
        assert!(began.elapsed() < Duration::from_secs(25), "{text}: {:?}", began.elapsed());
    }
}

#[test]
fn a_blob_that_a_plain_cache_has_evicted_is_made_here_and_given_back() {
    let server = filled();
    let (url, access) = (server.url("http"), Access::default());
    for blob in server.blobs() {
        fs::remove_file(blob).unwrap();
    }
    assert!(!run(&url, Mode::CacheWrite, &access));
    assert!(run(&url, Mode::Cache, &access));
}

//! A cache over plain HTTP, which two users share.

use crate::apache::Apache;
use crate::bench::Bench;
use crate::certificates::Certificates;
use osbuild::engine::executor::Executor;
use osbuild::engine::remote::{Mode, Remote, Trust};
use osbuild_remote::{Access, Retry};
use std::fs;
use std::sync::Arc;

/// Runs a step with an empty store. Returns whether its result came from the cache.
fn run(url: &str, mode: Mode, access: &Access) -> bool {
    let bench = Bench::new();
    let retry = Retry { tries: 1, ..Retry::default() };
    let remote = Remote::with(url.parse().unwrap(), access, mode, bench.report(), retry).unwrap();
    let executor: Executor = bench.executor().sharing(Some(Arc::new(remote)), Trust::Everywhere);
    let script = "head -c 9M /dev/zero >large; echo small >small";
    let result = executor.run(&bench.script(script, &["large", "small"])).unwrap();
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

//! Real files, each test in a mount namespace of its own. They need root.

use super::*;

use std::fs;

use osbuild_abi::paths::PROXY_ENVIRONMENT;
use osbuild_protocol::NEVER_PROXIED;
use rustix::event::{Timespec, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::host::run_files;
use crate::host::watch::Watch;
use crate::sys::own_mounts;

const NOW: Duration = Duration::from_secs(100);
const REASON: &str = "containerd has failed 3 times in a row";
const A: &str = "http=http://a.example:3128";
const B: &str = "https=http://b.example:3128 no-proxy=example.org";

/// Runs a test on a thread where `/run` is as on a node, whose daemons run.
fn on_a_node(work: impl FnOnce(&mut DaemonEnvironment) + Send) {
    let inside = || {
        own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        mount("node", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).unwrap();
        let mut environment = DaemonEnvironment::default();
        environment.on_started(Daemon::Containerd);
        environment.on_started(Daemon::Kubelet);
        work(&mut environment);
    };
    let ended = std::thread::scope(|scope| scope.spawn(inside).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn proxy(words: &str) -> Proxy {
    match Setting::parse(&format!("proxy {words}")) {
        Ok(Setting::Proxy(proxy)) => proxy,
        other => panic!("{words}: {other:?}"),
    }
}

fn apply(environment: &mut DaemonEnvironment, source: Source, words: &str) {
    environment.apply_proxy(source, &proxy(words), NOW).unwrap();
}

/// Starts daemons again until nothing is due, each as soon as that is asked for. Returns which.
fn restarts(environment: &mut DaemonEnvironment) -> Vec<Daemon> {
    let mut restarted = Vec::new();
    while environment.deadline().is_some() {
        if let Step::Restart(daemon) = environment.on_due(|| true, NOW) {
            environment.on_exited(daemon);
            environment.on_started(daemon);
            restarted.push(daemon);
        }
    }
    restarted
}

/// What the host has: source, value and error of each setting.
fn observed(environment: &DaemonEnvironment) -> Vec<(Option<Source>, String, String)> {
    environment.observe().map(|one| (one.source, one.current, one.error)).collect()
}

fn set(source: Source, words: &str) -> [(Option<Source>, String, String); 1] {
    [(Some(source), words.to_owned(), String::new())]
}

const BOTH: [Daemon; 2] = [Daemon::Containerd, Daemon::Kubelet];

#[test]
fn both_daemons_start_again_and_pods_read_the_proxy() {
    on_a_node(|environment| {
        apply(environment, Source::Api, A);
        assert_eq!(environment.deadline(), Some(NOW + PAUSE));
        assert_eq!(observed(environment), set(Source::Api, ""));
        let never = NEVER_PROXIED.join(",");
        let text = format!("HTTP_PROXY=http://a.example:3128\nNO_PROXY={never}\n");
        assert_eq!(fs::read_to_string(PROXY_ENVIRONMENT).unwrap(), text);
        assert_eq!(restarts(environment), BOTH);
        assert_eq!(observed(environment), set(Source::Api, A));
        environment.withdraw_proxy(Source::Api, NOW).unwrap();
        assert!(!fs::exists(PROXY_ENVIRONMENT).unwrap());
        assert_eq!(restarts(environment), BOTH);
        assert!(observed(environment).is_empty() && environment.variables().is_empty());
    });
}

#[test]
fn the_kubelet_starts_again_once_containerd_accepts() {
    on_a_node(|environment| {
        apply(environment, Source::Api, A);
        let containerd = Step::Restart(Daemon::Containerd);
        assert_eq!(environment.on_due(|| true, NOW), containerd);
        assert_eq!(environment.on_due(|| true, NOW), Step::None, "the former one still accepts");
        environment.on_exited(Daemon::Containerd);
        environment.on_started(Daemon::Containerd);
        assert_eq!(environment.on_due(|| false, NOW), Step::None);
        assert_eq!(environment.deadline(), Some(NOW + TURN));
        assert_eq!(environment.on_due(|| true, NOW), Step::Restart(Daemon::Kubelet));
        assert_eq!(environment.deadline(), None);
    });
}

#[test]
fn a_change_that_is_withdrawn_at_once_restarts_nothing() {
    on_a_node(|environment| {
        apply(environment, Source::Api, A);
        environment.withdraw_proxy(Source::Api, NOW).unwrap();
        assert_eq!(restarts(environment), []);
    });
}

#[test]
fn a_daemon_that_starts_by_itself_has_the_newest_environment() {
    on_a_node(|environment| {
        apply(environment, Source::Api, A);
        for daemon in BOTH {
            environment.on_exited(daemon);
            environment.on_started(daemon);
        }
        assert_eq!(restarts(environment), []);
        assert_eq!(observed(environment), set(Source::Api, A));
    });
}

#[test]
fn the_document_is_in_effect_where_no_request_is() {
    on_a_node(|environment| {
        apply(environment, Source::Document, A);
        apply(environment, Source::Api, B);
        assert_eq!(restarts(environment), BOTH);
        assert_eq!(observed(environment), set(Source::Api, B));
        assert!(!environment.variables().iter().any(|(name, _)| *name == "HTTP_PROXY"));
        environment.withdraw_proxy(Source::Api, NOW).unwrap();
        assert_eq!(restarts(environment), BOTH);
        assert_eq!(observed(environment), set(Source::Document, A));
    });
}

#[test]
fn a_node_that_joins_reaches_its_api_server_without_the_proxy() {
    on_a_node(|environment| {
        let entries = ["192.0.2.10", ".example.internal"];
        keep_cluster(&entries.map(|entry| ProxyExclusion::parse(entry).unwrap())).unwrap();
        environment.on_cluster(cluster(), NOW).unwrap();
        assert_eq!(restarts(environment), [], "without a proxy there is nothing to exclude");
        apply(environment, Source::Api, A);
        let (_, excluded) = environment.variables().pop().unwrap();
        assert!(excluded.ends_with(",192.0.2.10,.example.internal"), "{excluded}");
        restarts(environment);
        keep_cluster(&[]).unwrap();
        environment.on_cluster(cluster(), NOW).unwrap();
        assert_eq!(restarts(environment), BOTH);
    });
}

#[test]
fn what_another_program_writes_for_pid_1_is_bounded_and_checked() {
    on_a_node(|_| {
        let lines: String = (0..100).map(|number| format!("a{number}.example\n* a\n")).collect();
        run_files::write("/run/osbuild/kubelet/no-proxy", &lines).unwrap();
        assert_eq!(cluster().len(), 8);
        run_files::write("/run/osbuild/kubelet/no-proxy", "*\n10.0.\na,b\n").unwrap();
        assert_eq!(cluster(), []);
    });
}

#[test]
fn an_environment_with_which_a_daemon_fails_is_taken_back() {
    on_a_node(|environment| {
        apply(environment, Source::Api, A);
        restarts(environment);
        assert!(environment.awaits_proof());
        environment.on_proved();
        assert!(!environment.is_unproven());
        assert_eq!(environment.take_back(REASON, NOW), None, "it is not new");

        apply(environment, Source::Api, B);
        restarts(environment);
        let lines = vec![format!("`proxy` is taken back: {REASON}")];
        let taken_back = TakenBack { lines, of_requests: true };
        assert_eq!(environment.take_back(REASON, NOW), Some(taken_back));
        assert_eq!(restarts(environment), BOTH);
        let expected = [(Some(Source::Api), A.to_owned(), REASON.to_owned())];
        assert_eq!(observed(environment), expected);
        assert!(fs::read_to_string(PROXY_ENVIRONMENT).unwrap().contains("a.example"));
        assert!(!environment.is_unproven());
        apply(environment, Source::Api, B);
        assert_eq!(observed(environment), set(Source::Api, ""), "it is asked for anew");
    });
}

#[test]
fn a_proxy_of_the_document_with_which_a_daemon_fails_stays_away_until_there_is_another() {
    on_a_node(|environment| {
        apply(environment, Source::Document, A);
        restarts(environment);
        let taken_back = environment.take_back(REASON, NOW).unwrap();
        assert!(!taken_back.of_requests);
        assert_eq!(observed(environment), [(None, String::new(), REASON.to_owned())]);
        environment.on_new_document();
        assert!(observed(environment).is_empty());
    });
}

#[test]
fn a_daemon_that_is_away_proves_nothing() {
    on_a_node(|environment| {
        apply(environment, Source::Api, A);
        restarts(environment);
        environment.on_exited(Daemon::Kubelet);
        assert!(!environment.awaits_proof());
        environment.on_proved();
        assert!(environment.is_unproven());
    });
}

#[test]
fn what_cannot_be_written_leaves_the_former_proxy() {
    on_a_node(|environment| {
        apply(environment, Source::Api, A);
        restarts(environment);
        mount("full", "/run/osbuild/proxy", "tmpfs", MountFlags::RDONLY, None).unwrap();
        assert!(environment.apply_proxy(Source::Api, &proxy(B), NOW).is_err());
        let held: Vec<String> = environment.of(Source::Api).map(|one| one.to_string()).collect();
        assert_eq!(held, [format!("proxy {A}")]);
        let (_, current, error) = observed(environment).remove(0);
        assert!(current.is_empty() && error.contains("Read-only"), "{error}");
    });
}

#[test]
fn a_file_that_another_program_changes_is_reported_and_written_again() {
    on_a_node(|environment| {
        fs::create_dir_all("/run/osbuild/ntp").unwrap();
        let watch = Watch::start().unwrap();
        let is_reported = || {
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut watch.polled()[..1], Some(&at_once)).unwrap() > 0
        };
        apply(environment, Source::Api, A);
        let expected = fs::read_to_string(PROXY_ENVIRONMENT).unwrap();
        let changes: [fn(); 2] = [
            || fs::write(PROXY_ENVIRONMENT, "HTTP_PROXY=http://stolen.example:1\n").unwrap(),
            || fs::remove_file(PROXY_ENVIRONMENT).unwrap(),
        ];
        for change in changes {
            watch.clear();
            assert!(environment.hold().is_empty() && !is_reported());
            change();
            assert!(is_reported());
            assert_eq!(environment.hold().len(), 1);
            assert_eq!(fs::read_to_string(PROXY_ENVIRONMENT).unwrap(), expected);
        }
    });
}

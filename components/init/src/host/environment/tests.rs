//! Real files, each test in a mount namespace of its own. They need root.

use super::*;

use std::fs;

use osbuild_abi::paths::{PROXY_ENVIRONMENT, TRUSTED_ROOTS};
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

fn root(name: &str, base64: &str) -> TrustedRoot {
    match Setting::parse(&format!("trusted-root {name} {base64}")) {
        Ok(Setting::TrustedRoot(root)) => root,
        other => panic!("{name} {base64}: {other:?}"),
    }
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

/// The source, value and error of each setting on the host.
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
fn both_daemons_start_again_with_other_authorities() {
    on_a_node(|environment| {
        let pem =
            |base64| format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n");
        let bundle = || fs::read_to_string(TRUSTED_ROOTS).unwrap();
        environment.apply_root(Source::Document, &root("b", "MIIB"), NOW).unwrap();
        environment.apply_root(Source::Api, &root("a", "MIIC,MIID"), NOW).unwrap();
        assert_eq!(bundle(), pem("MIIC") + &pem("MIID") + &pem("MIIB"));
        assert_eq!(restarts(environment), BOTH);
        let folders = "/etc/ssl/certs:/run/osbuild/trusted-roots".to_owned();
        assert_eq!(environment.variables(), [("SSL_CERT_DIR", folders)]);
        let [first] = set(Source::Api, "MIIC,MIID");
        let [second] = set(Source::Document, "MIIB");
        assert_eq!(observed(environment), [first, second]);

        // The variables stay the same, but a program reads the file once.
        environment.apply_root(Source::Api, &root("b", "MIIE"), NOW).unwrap();
        assert_eq!(restarts(environment), BOTH);
        environment.withdraw_root(Source::Api, root("b", "MIIE").name(), NOW).unwrap();
        environment.withdraw_root(Source::Api, root("a", "MIIC").name(), NOW).unwrap();
        assert_eq!(bundle(), pem("MIIB"));
        environment.withdraw_root(Source::Document, root("b", "MIIB").name(), NOW).unwrap();
        assert!(!fs::exists(TRUSTED_ROOTS).unwrap());
        assert_eq!(restarts(environment), BOTH);
        assert!(environment.variables().is_empty());
    });
}

#[test]
fn only_what_is_new_of_several_settings_is_taken_back() {
    on_a_node(|environment| {
        apply(environment, Source::Api, A);
        restarts(environment);
        environment.on_proved();
        environment.apply_root(Source::Api, &root("a", "MIIB"), NOW).unwrap();
        restarts(environment);
        let lines = vec![format!("`trusted-root a` is taken back: {REASON}")];
        let taken_back = TakenBack { lines, of_requests: true };
        assert_eq!(environment.take_back(REASON, NOW), Some(taken_back));
        assert_eq!(restarts(environment), BOTH);
        let [proxy] = set(Source::Api, A);
        assert_eq!(observed(environment), [proxy, (None, String::new(), REASON.to_owned())]);
    });
}

#[test]
fn the_number_of_authorities_is_bounded() {
    on_a_node(|environment| {
        for number in 0..MAX_ROOTS {
            let root = root(&format!("a{number}"), "MIIB");
            environment.apply_root(Source::Api, &root, NOW).unwrap();
        }
        assert!(environment.apply_root(Source::Api, &root("b", "MIIB"), NOW).is_err());
        assert!(environment.apply_root(Source::Document, &root("a0", "MIIC"), NOW).is_ok());
        assert_eq!(environment.observe().count(), MAX_ROOTS);
    });
}

/// A registry with TLS that has one manifest, until its standard input ends: it prints its port.
const REGISTRY: &str = "
import http.server, ssl, sys, threading
class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Type', 'application/vnd.oci.image.manifest.v1+json')
        self.send_header('Content-Length', str(len(sys.argv[2])))
        self.end_headers()
        self.wfile.write(sys.argv[2].encode())
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Registry)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
";
const MANIFEST: &str =
    r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}"#;

/// skopeo, a program in Go as the daemons are, trusts a registry by a daemon's variables alone.
#[test]
fn a_program_in_go_trusts_the_authorities_of_settings() {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let server = server.signed_by(&key, &issuer).unwrap().pem();
    let pair = tempfile::NamedTempFile::new().unwrap();
    fs::write(pair.path(), server + &key.serialize_pem()).unwrap();
    let mut registry = Command::new("python3")
        .args(["-c", REGISTRY, pair.path().to_str().unwrap(), MANIFEST])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(registry.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();

    on_a_node(move |environment| {
        let pull = |environment: &DaemonEnvironment| {
            let mut skopeo = Command::new("skopeo");
            skopeo
                .args(["inspect", "--raw"])
                .arg(format!("docker://127.0.0.1:{}/a:1", port.trim()));
            skopeo.env_clear().env("PATH", "/usr/bin:/bin").envs(environment.variables());
            skopeo.output().expect("`skopeo` is not installed")
        };
        let refused = String::from_utf8(pull(environment).stderr).unwrap();
        assert!(refused.contains("unknown authority"), "{refused}");
        environment.apply_root(Source::Api, &root("corporate", &base64), NOW).unwrap();
        let pulled = pull(environment);
        assert_eq!(String::from_utf8_lossy(&pulled.stdout).trim_end(), MANIFEST, "{pulled:?}");
    });
    drop(registry.stdin.take());
    registry.wait().unwrap();
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

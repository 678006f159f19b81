//! The `updater` pod. `updater [--settings FILE] [--root FILE] [--socket PATH] [--seen DIR]
//! [--firmware DIR] [--kubeconfig FILE] [--machine-id FILE] [--proxy FILE]` checks for a release
//! periodically. Each path defaults to that of the node. `updater grant POLICY` runs once in a
//! cluster, and grants reboots by the policy of this file. Both print one line per event on stderr,
//! and end only by a signal.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use osbuild_abi::paths;
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::UpdatePhase;
use osbuild_release::Document;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::time::sleep;
use updater::check::{CheckOutcome, GRANT_INTERVAL, Updater, check_or_resume};
use updater::cluster_files::ClusterFiles;
use updater::firmware::Firmware;
use updater::grantor::grant;
use updater::pace::Pace;
use updater::proxy;
use updater::report::Reporter;
use updater::settings::Settings;

const USAGE: &str = "usage: updater [--settings FILE] [--root FILE] [--socket PATH] [--seen DIR] \
                     [--firmware DIR] [--kubeconfig FILE] [--machine-id FILE] \
                     [--proxy FILE]\n       updater grant POLICY";

/// The pause after the first failure. Each further failure doubles it, up to the interval.
const FIRST_RETRY: Duration = Duration::from_secs(5);

/// Where the kubelet's kubeconfig is: of a node document, of kubeadm, of an earlier release.
const KUBECONFIGS: [&str; 3] =
    [paths::JOIN_KUBECONFIG, paths::KUBECONFIG, paths::EARLIER_KUBECONFIG];

/// The files of a cluster that settings name, and of one that kubeadm or an earlier release names.
const JOINS: [&str; 4] = [
    paths::JOIN_CA,
    paths::JOIN_BOOTSTRAP,
    paths::BOOTSTRAP_KUBECONFIG,
    paths::EARLIER_BOOTSTRAP_KUBECONFIG,
];

/// The longest pause of a node that its release's rollout holds: with its jitter, it is shorter
/// than the shortest maintenance window. A node keeps its own rhythm, so that not all nodes of a
/// wave download at once.
const HELD_INTERVAL: Duration = Duration::from_secs(50 * 60);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let ended = match words.as_slice() {
        [verb, policy] if verb == "grant" => block_on(grant(Path::new(policy))),
        _ => match Paths::parse(words.into_iter()) {
            Some(paths) => run(paths),
            None => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        },
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The paths from the command line.
struct Paths {
    settings: PathBuf,
    root: PathBuf,
    socket: PathBuf,
    seen: PathBuf,
    firmware: PathBuf,
    cluster: ClusterFiles,
    machine_id: PathBuf,
    proxy: PathBuf,
}

impl Paths {
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Paths> {
        let mut paths = Paths {
            settings: paths::UPDATE_SETTINGS.into(),
            root: paths::UPDATE_ROOT.into(),
            socket: paths::UPDATE_SOCKET.into(),
            seen: paths::UPDATE_SEEN.into(),
            firmware: paths::FIRMWARE_VARIABLES.into(),
            cluster: ClusterFiles {
                kubeconfigs: KUBECONFIGS.map(PathBuf::from).into(),
                joins: JOINS.map(PathBuf::from).into(),
                certificates: paths::CLIENT_CERTIFICATES.map(PathBuf::from).into(),
            },
            machine_id: paths::MACHINE_ID.into(),
            proxy: paths::PROXY_ENVIRONMENT.into(),
        };
        while let Some(word) = words.next() {
            let path = match word.as_str() {
                "--settings" => &mut paths.settings,
                "--root" => &mut paths.root,
                "--socket" => &mut paths.socket,
                "--seen" => &mut paths.seen,
                "--firmware" => &mut paths.firmware,
                "--machine-id" => &mut paths.machine_id,
                "--proxy" => &mut paths.proxy,
                "--kubeconfig" => {
                    let kubeconfigs = vec![words.next()?.into()];
                    paths.cluster = ClusterFiles { kubeconfigs, ..ClusterFiles::default() };
                    continue;
                }
                _ => return None,
            };
            *path = words.next()?.into();
        }
        Some(paths)
    }
}

fn run(paths: Paths) -> Outcome {
    proxy::follow(&paths.proxy)?;
    let settings = Settings::read(&paths.settings, &paths.root)?;
    eprintln!("follows {} of {} at {}", settings.channel, settings.recipe, settings.url);
    let Paths { socket, seen, cluster, machine_id, proxy, .. } = paths;
    let (firmware, pace) = (Firmware::new(&paths.firmware), Pace::DEFAULT);
    let reporter = Reporter::new(socket.clone());
    let refused = RefCell::default();
    let updater =
        Updater { settings, socket, cluster, machine_id, seen, firmware, pace, reporter, refused };
    block_on(check_forever(&updater, &proxy))
}

fn block_on(forever: impl Future<Output = ()>) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().explain("start")?;
    runtime.block_on(forever);
    Ok(())
}

async fn check_forever(updater: &Updater, proxy: &Path) {
    let interval = Duration::from_secs(updater.settings.interval_s);
    let (mut retry, mut last) = (FIRST_RETRY, String::new());
    let mut asked = None;
    updater.reporter.on_start();
    loop {
        if let Err(failure) = proxy::follow(proxy) {
            eprintln!("{failure}");
        }
        let outcome = check_or_resume(updater, &mut asked).await;
        let (phase, line) = described(&outcome);
        let pause = match phase {
            UpdatePhase::Blocked | UpdatePhase::Failed => retry.min(interval),
            UpdatePhase::Held | UpdatePhase::Waiting => interval.min(HELD_INTERVAL),
            _ => interval,
        };
        let is_settled = !matches!(phase, UpdatePhase::Blocked | UpdatePhase::Failed);
        retry = if is_settled { FIRST_RETRY } else { retry.saturating_mul(2).min(interval) };
        let pause = with_jitter(pause, random());
        updater.reporter.on_checked(phase, &line, pause);
        if line != last {
            eprintln!("{line}");
            last = line;
        }
        match outcome {
            Ok(CheckOutcome::Asks(document)) => {
                wait_for_grant(updater, &document, pause).await;
                asked = Some(*document);
            }
            _ if updater.is_asked_to_check(pause).await => {
                eprintln!("checks now, on request");
                last = String::new();
                updater.refused.take();
            }
            _ => {}
        }
    }
}

/// The phase and the line for a result of a check.
fn described(outcome: &Outcome<CheckOutcome>) -> (UpdatePhase, String) {
    match outcome {
        Ok(CheckOutcome::Idle(why)) => (UpdatePhase::Idle, why.clone()),
        Ok(CheckOutcome::Held(why)) => (UpdatePhase::Held, why.clone()),
        Ok(CheckOutcome::AwaitsTurn(why)) => (UpdatePhase::Waiting, why.clone()),
        Ok(CheckOutcome::Waits(why)) => (UpdatePhase::Blocked, why.clone()),
        Ok(CheckOutcome::Asks(document)) => (
            UpdatePhase::Installed,
            format!("{} is installed, and waits for the cluster's grant", document.version),
        ),
        Ok(CheckOutcome::Reboots(version)) => {
            (UpdatePhase::Installed, format!("{version} is installed: the node reboots into it"))
        }
        Err(failure) => (UpdatePhase::Failed, failure.to_string()),
    }
}

/// Waits until a reboot into this release is granted, at most for `pause`. The next check finds
/// whether the channel still offers it.
async fn wait_for_grant(updater: &Updater, document: &Document, pause: Duration) {
    let ends = Instant::now() + pause;
    while Instant::now() < ends {
        sleep(with_jitter(GRANT_INTERVAL.min(pause), random())).await;
        // The next check reports a cluster that cannot be asked.
        if updater.is_granted(&document.version).await.unwrap_or(false) {
            return;
        }
    }
}

/// The pause with a deviation of up to a tenth, so that nodes that started together spread their
/// requests.
fn with_jitter(pause: Duration, random: u32) -> Duration {
    pause.mul_f64(0.9 + 0.2 * f64::from(random) / f64::from(u32::MAX))
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    // It protects no secret; if it fails, the node only loses its jitter.
    let _ = getrandom(&mut bytes, GetRandomFlags::INSECURE);
    u32::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_deviates_by_a_tenth_at_most() {
        let pause = Duration::from_secs(3600);
        assert_eq!(with_jitter(pause, 0).as_secs(), 3240);
        assert_eq!(with_jitter(pause, u32::MAX).as_secs(), 3960);
    }
}

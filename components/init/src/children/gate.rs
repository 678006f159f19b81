//! `init gate NODE-NAME` succeeds when the kubelet is healthy and every declared pod runs, or has
//! succeeded if it runs once, without those that READY does not wait for. `init trial NODE-NAME`
//! succeeds when that has been so of all pods for a while.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use osbuild_abi::cmdline::GATE_HOLD;
use osbuild_abi::paths::POD_LIST;
use osbuild_abi::pods::{self, DeclaredPod, Runs};
use osbuild_failure::{Explain, Failure, Outcome};
use tonic::Status;

use super::api::Connection;
use super::cri::{CONTAINER_NAME, Container, ContainerState, POD_NAME, Sandbox, is_static};
use crate::boot::command_line::CommandLine;

/// The kubelet's `healthzPort`.
const HEALTH: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10248);
/// How long the kubelet may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often to look.
const INTERVAL: Duration = Duration::from_millis(200);
/// When to report for the first time what is missing. The interval doubles after each report.
const FIRST_REPORT: Duration = Duration::from_secs(30);
/// The longest interval between two reports.
const MAX_INTERVAL: Duration = Duration::from_secs(600);

/// Waits until the gate has been open for as long as the command line says, without a break.
pub async fn hold(node_name: &str) -> Outcome {
    let hold = CommandLine::read()?.gate_hold;
    let hold = hold.ok_or_else(|| Failure::new(format!("no `{GATE_HOLD}` on the command line")))?;
    wait(node_name, |_| true, hold).await
}

/// Waits until the node is ready.
pub async fn ready(node_name: &str) -> Outcome {
    wait(node_name, |pod| pod.runs != Runs::Unawaited, Duration::ZERO).await
}

/// Waits until the gate has been open for `hold` as far as these pods go, and reports what is
/// missing.
async fn wait(node_name: &str, counts: fn(&DeclaredPod) -> bool, hold: Duration) -> Outcome {
    let list = std::fs::read_to_string(POD_LIST).explain(format_args!("read {POD_LIST}"))?;
    let declared: Vec<DeclaredPod> = pods::parse(&list).filter(counts).collect();
    let mut containerd = Connection::open().await?;
    let mut interval = FIRST_REPORT;
    let mut last_report = Instant::now();
    let mut open_since = None;
    loop {
        match look(&mut containerd, &declared, node_name).await {
            Ok(()) if open_since.get_or_insert_with(Instant::now).elapsed() >= hold => {
                return Ok(());
            }
            Ok(()) => {}
            Err(missing) => {
                open_since = None;
                if last_report.elapsed() >= interval {
                    println!("not ready: {missing}");
                    last_report = Instant::now();
                    interval = (interval * 2).min(MAX_INTERVAL);
                }
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns whether the node is ready, and if not, why. Pods come first: as long as one is missing,
/// the kubelet is not asked.
async fn look(
    containerd: &mut Connection,
    declared: &[DeclaredPod<'_>],
    node_name: &str,
) -> Outcome {
    let text = |status: Status| status.message().to_owned();
    let containers = containerd.containers().await.map_err(text).explain("list the containers")?;
    let sandboxes = containerd.sandboxes().await.map_err(text).explain("list the sandboxes")?;
    let containers = of_static_pods(containers, &sandboxes);
    let codes = exit_codes(containerd, declared, node_name, &containers).await?;
    let missing = declared.iter().find_map(|pod| missing(pod, node_name, &containers, &codes));
    missing.map_or(Ok(()), |missing| Err(Failure::new(missing)))?;
    healthy(TIMEOUT).explain("ask the kubelet whether it is healthy")
}

/// The containers without those of pods that an API server gave the kubelet: such a pod may have
/// the name of a declared one.
fn of_static_pods(mut containers: Vec<Container>, sandboxes: &[Sandbox]) -> Vec<Container> {
    containers.retain(|one| is_static(one, sandboxes));
    containers
}

/// The exit codes, by id, of exited containers of pods that run once.
async fn exit_codes(
    containerd: &mut Connection,
    declared: &[DeclaredPod<'_>],
    node_name: &str,
    containers: &[Container],
) -> Outcome<HashMap<String, i32>> {
    let mut codes = HashMap::new();
    let once = declared.iter().filter(|pod| pod.runs == Runs::Once);
    let newest = once.flat_map(|pod| {
        pod.containers().filter_map(|name| newest(pod, name, node_name, containers))
    });
    for container in newest.filter(|container| container.state() == ContainerState::Exited) {
        let code = containerd.exit_code(container.id.clone()).await;
        let code = code
            .map_err(|status| status.message().to_owned())
            .explain("ask how a container has ended")?;
        codes.insert(container.id.clone(), code);
    }
    Ok(codes)
}

/// Which container of a pod does not run, or has not succeeded, as a sentence.
fn missing(
    pod: &DeclaredPod<'_>,
    node_name: &str,
    containers: &[Container],
    exit_codes: &HashMap<String, i32>,
) -> Option<String> {
    pod.containers().find_map(|name| {
        let of_pod = format!("container `{name}` of pod `{}`", pod.name);
        let Some(newest) = newest(pod, name, node_name, containers) else {
            return Some(format!("pod `{}` has no container `{name}` yet", pod.name));
        };
        match (newest.state(), exit_codes.get(&newest.id)) {
            (ContainerState::Running, _) | (ContainerState::Exited, Some(0)) => None,
            (ContainerState::Created, _) => Some(format!("{of_pod} is not started yet")),
            (ContainerState::Exited, Some(code)) => {
                Some(format!("{of_pod} has ended with exit code {code}"))
            }
            (ContainerState::Exited, None) => Some(format!("{of_pod} has ended")),
            (ContainerState::Unknown, _) => Some(format!("the state of {of_pod} is unknown")),
        }
    })
}

/// The container of this name that counts: one that runs, or else the newest. Those of earlier
/// boots have exited, even if a wrong clock dated them into the future.
fn newest<'a>(
    pod: &DeclaredPod<'_>,
    name: &str,
    node_name: &str,
    containers: &'a [Container],
) -> Option<&'a Container> {
    // The kubelet appends the node's name to that of a static pod.
    let full_name = format!("{}-{node_name}", pod.name);
    let has = |container: &Container, label: &str, value: &str| {
        container.labels.get(label).is_some_and(|found| found == value)
    };
    let of_this_name = containers
        .iter()
        .filter(|one| has(one, POD_NAME, &full_name) && has(one, CONTAINER_NAME, name));
    of_this_name.max_by_key(|one| (one.state() == ContainerState::Running, one.created_at))
}

/// Asks the kubelet, which may take `timeout` for each step of its answer.
pub fn healthy(timeout: Duration) -> Outcome {
    let mut stream = TcpStream::connect_timeout(&HEALTH, timeout).explain("connect")?;
    stream.set_read_timeout(Some(timeout)).explain("set a timeout")?;
    stream.write_all(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n").explain("ask")?;
    let mut answer = String::new();
    stream.take(64 << 10).read_to_string(&mut answer).explain("read the answer")?;
    match answer.split_ascii_whitespace().nth(1) {
        Some("200") => Ok(()),
        _ => Err(Failure::new(answer.lines().last().unwrap_or("the answer is empty").to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cri::SOURCE;
    use super::*;

    fn container(pod: &str, name: &str, state: ContainerState, created_at: i64) -> Container {
        let labels = [(POD_NAME, pod), (CONTAINER_NAME, name)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        Container { state: state.into(), created_at, labels: labels.into(), ..Container::default() }
    }

    fn why(containers: &[Container]) -> Option<String> {
        let pod = pods::parse("web nginx side").next().unwrap();
        missing(&pod, "node-1", containers, &HashMap::new())
    }

    #[test]
    fn a_pod_whose_containers_all_run_is_not_missing() {
        let side = container("web-node-1", "side", ContainerState::Running, 1);
        assert_eq!(
            why(&[container("web-node-1", "nginx", ContainerState::Running, 1), side]),
            None
        );
    }

    #[test]
    fn one_container_of_two_is_not_enough() {
        let message = why(&[container("web-node-1", "nginx", ContainerState::Running, 1)]);
        assert_eq!(message.unwrap(), "pod `web` has no container `side` yet");
    }

    #[test]
    fn the_newest_of_the_containers_that_do_not_run_counts() {
        let side = container("web-node-1", "side", ContainerState::Running, 1);
        let old = container("web-node-1", "nginx", ContainerState::Created, 1);
        let new = container("web-node-1", "nginx", ContainerState::Exited, 2);
        assert_eq!(why(&[new, old, side]).unwrap(), "container `nginx` of pod `web` has ended");
    }

    #[test]
    fn an_exited_container_from_the_future_hides_no_running_one() {
        let side = container("web-node-1", "side", ContainerState::Running, 1);
        let now = container("web-node-1", "nginx", ContainerState::Running, 5);
        let before = container("web-node-1", "nginx", ContainerState::Exited, 9);
        assert_eq!(why(&[before, now, side]), None);
    }

    #[test]
    fn a_pod_of_the_cluster_with_the_name_of_a_declared_one_does_not_count() {
        let sandbox = |id: &str, source: &str| Sandbox {
            id: id.to_owned(),
            annotations: [(SOURCE.to_owned(), source.to_owned())].into(),
            ..Sandbox::default()
        };
        let of = |id: &str| {
            let running = container("web-node-1", "nginx", ContainerState::Running, 1);
            Container { sandbox: id.to_owned(), ..running }
        };
        let sandboxes = [sandbox("own", "file"), sandbox("foreign", "api")];
        let all = vec![of("foreign"), of("own"), of("gone")];
        assert_eq!(of_static_pods(all, &sandboxes), [of("own")]);
    }

    #[test]
    fn a_pod_of_another_node_name_does_not_count() {
        let other =
            ["nginx", "side"].map(|name| container("web-node-2", name, ContainerState::Running, 1));
        assert!(why(&other).is_some());
    }

    #[test]
    fn a_pod_that_runs_once_is_not_missing_once_it_has_succeeded() {
        let message = |list: &str, state, code: Option<i32>| {
            let one =
                Container { id: "1".to_owned(), ..container("setup-node-1", "setup", state, 1) };
            let codes = code.map(|code| ("1".to_owned(), code)).into_iter().collect();
            missing(&pods::parse(list).next().unwrap(), "node-1", &[one], &codes)
        };
        assert_eq!(message("setup -once setup", ContainerState::Running, None), None);
        assert_eq!(message("setup -once setup", ContainerState::Exited, Some(0)), None);
        let failed = message("setup -once setup", ContainerState::Exited, Some(3)).unwrap();
        assert_eq!(failed, "container `setup` of pod `setup` has ended with exit code 3");
        // A pod that runs for ever has failed even with exit code 0.
        assert_eq!(
            message("setup setup", ContainerState::Exited, None).unwrap(),
            "container `setup` of pod `setup` has ended"
        );
    }

    #[test]
    fn a_container_that_is_not_started_does_not_count() {
        let both =
            ["nginx", "side"].map(|name| container("web-node-1", name, ContainerState::Created, 1));
        assert_eq!(why(&both).unwrap(), "container `nginx` of pod `web` is not started yet");
    }
}

//! `init gate NODE-NAME` ends well when the kubelet is healthy and every declared pod runs, or has
//! done its work if it runs once; `init trial NODE-NAME` when it has been so for a while.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use osbuild_abi::cmdline::GATE_HOLD;
use osbuild_abi::paths::POD_LIST;
use osbuild_abi::pods::{self, DeclaredPod};
use osbuild_failure::{Explain, Failure, Outcome};

use super::api::Connection;
use super::cri::{CONTAINER_NAME, Container, ContainerState, POD_NAME};
use crate::boot::command_line::CommandLine;

/// Where the kubelet answers whether it is healthy (its `healthzPort`).
const HEALTH: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10248);
/// How long one question to the kubelet may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to look.
const INTERVAL: Duration = Duration::from_millis(200);
/// When to say for the first time what is missing. Each further time comes after twice as long, up
/// to the longest.
const FIRST_WORD: Duration = Duration::from_secs(30);
/// The longest time between two reports.
const LONGEST_SILENCE: Duration = Duration::from_secs(600);

/// Waits until the gate has been open without a break for as long as the command line says.
pub async fn hold(node_name: &str) -> Outcome {
    let hold = CommandLine::read()?.gate_hold;
    let hold = hold.ok_or_else(|| Failure::new(format!("no `{GATE_HOLD}` on the command line")))?;
    wait(node_name, hold).await
}

/// Waits until the gate has been open for so long, and says now and then what is missing.
pub async fn wait(node_name: &str, hold: Duration) -> Outcome {
    let list = std::fs::read_to_string(POD_LIST).explain(format_args!("read {POD_LIST}"))?;
    let declared: Vec<DeclaredPod> = pods::parse(&list).collect();
    let mut containerd = Connection::open().await?;
    let mut silence = FIRST_WORD;
    let mut last_word = Instant::now();
    let mut open_since = None;
    loop {
        match look(&mut containerd, &declared, node_name).await {
            Ok(()) if open_since.get_or_insert_with(Instant::now).elapsed() >= hold => {
                return Ok(());
            }
            Ok(()) => {}
            Err(missing) => {
                open_since = None;
                if last_word.elapsed() >= silence {
                    println!("not ready: {missing}");
                    last_word = Instant::now();
                    silence = (silence * 2).min(LONGEST_SILENCE);
                }
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns whether the node is ready, and if not, why. Pods are looked at first: as long as one is
/// missing the kubelet is not bothered.
async fn look(
    containerd: &mut Connection,
    declared: &[DeclaredPod<'_>],
    node_name: &str,
) -> Outcome {
    let containers = containerd
        .containers()
        .await
        .map_err(|status| status.message().to_owned())
        .explain("list the containers")?;
    let codes = exit_codes(containerd, declared, node_name, &containers).await?;
    let missing = declared.iter().find_map(|pod| missing(pod, node_name, &containers, &codes));
    missing.map_or(Ok(()), |missing| Err(Failure::new(missing)))?;
    healthy(PATIENCE).explain("ask the kubelet whether it is healthy")
}

/// The exit codes, by id, of those containers of pods that run once which have ended.
async fn exit_codes(
    containerd: &mut Connection,
    declared: &[DeclaredPod<'_>],
    node_name: &str,
    containers: &[Container],
) -> Outcome<HashMap<String, i32>> {
    let mut codes = HashMap::new();
    let once = declared.iter().filter(|pod| pod.runs_once);
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

/// What of a pod does not run, or has not done its work, as a sentence.
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
            (ContainerState::Unknown, _) => Some(format!("nobody knows how {of_pod} is")),
        }
    })
}

/// The container of this name that counts: one that runs, or else the newest. Those of earlier
/// boots have ended, whatever the clock said that made them.
fn newest<'a>(
    pod: &DeclaredPod<'_>,
    name: &str,
    node_name: &str,
    containers: &'a [Container],
) -> Option<&'a Container> {
    // The kubelet adds the node's name to that of a static pod.
    let full_name = format!("{}-{node_name}", pod.name);
    let has = |container: &Container, label: &str, value: &str| {
        container.labels.get(label).is_some_and(|found| found == value)
    };
    let of_this_name = containers
        .iter()
        .filter(|one| has(one, POD_NAME, &full_name) && has(one, CONTAINER_NAME, name));
    of_this_name.max_by_key(|one| (one.state() == ContainerState::Running, one.created_at))
}

/// Asks the kubelet, which may take so long for each step of an answer.
pub fn healthy(timeout: Duration) -> Outcome {
    let mut stream = TcpStream::connect_timeout(&HEALTH, timeout).explain("connect")?;
    stream.set_read_timeout(Some(timeout)).explain("set a timeout")?;
    stream.write_all(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n").explain("ask")?;
    let mut answer = String::new();
    stream.take(64 << 10).read_to_string(&mut answer).explain("read the answer")?;
    match answer.split_ascii_whitespace().nth(1) {
        Some("200") => Ok(()),
        _ => Err(Failure::new(answer.lines().last().unwrap_or("it says nothing").to_owned())),
    }
}

#[cfg(test)]
mod tests {
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
        let said = why(&[container("web-node-1", "nginx", ContainerState::Running, 1)]);
        assert_eq!(said.unwrap(), "pod `web` has no container `side` yet");
    }

    #[test]
    fn of_those_that_do_not_run_the_newest_one_counts() {
        let side = container("web-node-1", "side", ContainerState::Running, 1);
        let old = container("web-node-1", "nginx", ContainerState::Created, 1);
        let new = container("web-node-1", "nginx", ContainerState::Exited, 2);
        assert_eq!(why(&[new, old, side]).unwrap(), "container `nginx` of pod `web` has ended");
    }

    #[test]
    fn a_container_that_an_earlier_boot_has_dated_into_the_future_hides_none_that_runs() {
        let side = container("web-node-1", "side", ContainerState::Running, 1);
        let now = container("web-node-1", "nginx", ContainerState::Running, 5);
        let before = container("web-node-1", "nginx", ContainerState::Exited, 9);
        assert_eq!(why(&[before, now, side]), None);
    }

    #[test]
    fn a_pod_of_another_node_name_does_not_count() {
        let other =
            ["nginx", "side"].map(|name| container("web-node-2", name, ContainerState::Running, 1));
        assert!(why(&other).is_some());
    }

    #[test]
    fn a_pod_that_runs_once_is_not_missing_while_it_runs_and_when_it_has_ended_well() {
        let said = |list: &str, state, code: Option<i32>| {
            let one =
                Container { id: "1".to_owned(), ..container("setup-node-1", "setup", state, 1) };
            let codes = code.map(|code| ("1".to_owned(), code)).into_iter().collect();
            missing(&pods::parse(list).next().unwrap(), "node-1", &[one], &codes)
        };
        assert_eq!(said("setup -once setup", ContainerState::Running, None), None);
        assert_eq!(said("setup -once setup", ContainerState::Exited, Some(0)), None);
        let failed = said("setup -once setup", ContainerState::Exited, Some(3)).unwrap();
        assert_eq!(failed, "container `setup` of pod `setup` has ended with exit code 3");
        // One that is to run for ever has failed however it has ended.
        assert_eq!(
            said("setup setup", ContainerState::Exited, None).unwrap(),
            "container `setup` of pod `setup` has ended"
        );
    }

    #[test]
    fn a_container_that_is_made_and_not_started_does_not_count() {
        let both =
            ["nginx", "side"].map(|name| container("web-node-1", name, ContainerState::Created, 1));
        assert_eq!(why(&both).unwrap(), "container `nginx` of pod `web` is not started yet");
    }
}

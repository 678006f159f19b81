//! `init pod-states NODE-NAME POD…` reports the states of static pods of settings, a line each. A
//! pod is `NAMESPACE/NAME/CONTAINERS`. containerd knows the containers, and the kubelet's log says
//! why there are none.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use osbuild_abi::paths::LOGS;
use osbuild_failure::{Explain, Outcome};
use osbuild_kubelet_log::{PodTrouble, Trouble};
use osbuild_protocol::{PodName, PodState};

use super::api::Connection;
use super::cri::{CONTAINER_NAME, Container, ContainerState, POD_NAME, POD_NAMESPACE, RESTARTS};
use crate::processes::program::Program;

/// How much of the end of the kubelet's log is read, in bytes.
const MAX_LOG: u64 = 128 << 10;
/// The reason of a pod without a container about which the kubelet has logged nothing.
const PENDING: (&str, &str) = ("Pending", "the kubelet has not started it yet");

/// A pod that is looked for.
struct Wanted<'a> {
    namespace: &'a str,
    name: PodName,
    /// The number of its containers.
    containers: usize,
    /// Its name in the cluster, which the kubelet makes.
    full_name: String,
}

/// Reports them.
pub async fn report(node_name: &str, pods: &[&str]) -> Outcome {
    let mut containerd = Connection::open().await?;
    let containers = containerd.containers().await;
    let containers =
        containers.map_err(|status| status.message().to_owned()).explain("list the containers")?;
    // Without its log the reason is missing.
    let log = end_of_log().unwrap_or_default();
    for wanted in pods.iter().filter_map(|pod| Wanted::parse(pod, node_name)) {
        let found = newest(&wanted, &containers);
        let ended = match ended(&found) {
            Some(one) => {
                let details = containerd.ending(one.id.clone()).await;
                details.ok().map(|ending| (label(one, CONTAINER_NAME).to_owned(), ending))
            }
            None => None,
        };
        println!("{}", state(&wanted, &found, ended, &log).encode());
    }
    Ok(())
}

impl<'a> Wanted<'a> {
    fn parse(pod: &'a str, node_name: &str) -> Option<Self> {
        let mut parts = pod.split('/');
        let (namespace, name) = (parts.next()?, PodName::parse(parts.next()?).ok()?);
        let containers = parts.next()?.parse().ok()?;
        let full_name = format!("{name}-{node_name}");
        Some(Self { namespace, name, containers, full_name })
    }
}

/// How a container has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Its exit code.
    pub exit_code: i32,
    /// The reason, as a word of containerd.
    pub reason: String,
    /// The same as a sentence, if there is one.
    pub message: String,
}

/// The containers of a pod that count: of each name one that runs, or else the newest.
fn newest<'a>(wanted: &Wanted, containers: &'a [Container]) -> Vec<&'a Container> {
    let mut found: Vec<&Container> = Vec::new();
    let of_pod = containers.iter().filter(|one| {
        label(one, POD_NAME) == wanted.full_name && label(one, POD_NAMESPACE) == wanted.namespace
    });
    let rank = |one: &Container| (one.state() == ContainerState::Running, one.created_at);
    for one in of_pod {
        let name = label(one, CONTAINER_NAME);
        match found.iter_mut().find(|other| label(other, CONTAINER_NAME) == name) {
            Some(other) if rank(other) < rank(one) => *other = one,
            Some(_) => {}
            None => found.push(one),
        }
    }
    found
}

/// The container that has ended last, if any has.
fn ended<'a>(found: &[&'a Container]) -> Option<&'a Container> {
    let ended = found.iter().filter(|one| one.state() == ContainerState::Exited);
    ended.max_by_key(|one| one.created_at).copied()
}

fn state(
    wanted: &Wanted,
    found: &[&Container],
    ended: Option<(String, Ending)>,
    log: &str,
) -> PodState {
    let running = found.iter().filter(|one| one.state() == ContainerState::Running).count();
    let restarts =
        found.iter().filter_map(|one| one.annotations.get(RESTARTS)?.parse::<u32>().ok());
    let restarts = restarts.fold(0, u32::saturating_add);
    let is_running = running >= wanted.containers;
    let (reason, message) = match ended {
        _ if is_running => Default::default(),
        Some((name, Ending { exit_code, reason, message })) => {
            let mut text = format!("the container `{name}` has ended with exit code {exit_code}");
            if !message.is_empty() {
                text = format!("{text}: {message}");
            }
            (reason, text)
        }
        None => log.lines().rev().find_map(|line| failure(line, wanted)).unwrap_or_else(|| {
            let (reason, message) = PENDING;
            (reason.to_owned(), message.to_owned())
        }),
    };
    PodState::new(wanted.name.clone(), is_running, restarts, &reason, &message)
}

fn label<'a>(container: &'a Container, key: &str) -> &'a str {
    container.labels.get(key).map_or("", String::as_str)
}

/// The reason and the message in a line of the kubelet's log about this pod.
fn failure(line: &str, wanted: &Wanted) -> Option<(String, String)> {
    let PodTrouble { pod, trouble, message } = osbuild_kubelet_log::read(line)?;
    if pod != format!("{}/{}", wanted.namespace, wanted.full_name) {
        return None;
    }
    let message = match trouble {
        Trouble::NoNetwork => {
            format!("the node has no network for pods but its own, `hostNetwork`: {message}")
        }
        Trouble::Refused(_) | Trouble::Failed(_) => message,
    };
    Some((trouble.reason().to_owned(), message))
}

fn end_of_log() -> io::Result<String> {
    let path = Path::new(LOGS).join(format!("{}.log", Program::Kubelet.name()));
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_LOG)))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULL: &str = concat!(
        r#"E1127 13:12:11.123456 1234 pod_workers.go:1324] "Error syncing pod, skipping" "#,
        r#"err="failed to \"StartContainer\" for \"web\" with ErrImagePull: "#,
        r#"\"failed to resolve reference \\\"registry.example/a:1\\\": not found\"" "#,
        r#"pod="default/web-node-1" podUID="d7""#,
    );
    const NETWORK: &str = concat!(
        r#"E1127 13:12:11.123456 1234 pod_workers.go:1324] "Error syncing pod, skipping" "#,
        r#"err="network is not ready: container runtime network not ready: NetworkReady=false "#,
        r#"reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not "#,
        r#"initialized" pod="default/web-node-1" podUID="d7""#,
    );

    const REFUSED: &str = concat!(
        r#"I1127 18:25:16.502697 98 allocation_manager.go:676] "Pod admission denied" podUID="8" "#,
        r#"pod="default/web-node-1" reason="OutOfmemory" message="Node has no memory""#,
    );

    fn wanted() -> Wanted<'static> {
        Wanted::parse("default/web/2", "node-1").unwrap()
    }

    fn container(name: &str, state: ContainerState, created_at: i64, restarts: &str) -> Container {
        let labels = [(POD_NAME, "web-node-1"), (POD_NAMESPACE, "default"), (CONTAINER_NAME, name)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let annotations = [(RESTARTS.to_owned(), restarts.to_owned())].into();
        let state = state.into();
        Container { state, created_at, labels: labels.into(), annotations, ..Container::default() }
    }

    fn line(containers: &[Container], ended: Option<Ending>, log: &str) -> String {
        let found = newest(&wanted(), containers);
        let ended = ended.map(|ending| ("a".to_owned(), ending));
        state(&wanted(), &found, ended, log).encode()
    }

    #[test]
    fn a_pod_runs_when_all_its_containers_do() {
        let all = [
            container("a", ContainerState::Exited, 9, "1"),
            container("a", ContainerState::Running, 5, "2"),
            container("b", ContainerState::Running, 5, "0"),
        ];
        assert_eq!(line(&all, None, PULL), "web running=1 restarts=2 reason= message=");
        assert!(line(&all[..2], None, "").starts_with("web running=0 restarts=2 reason=Pending "));
    }

    #[test]
    fn a_container_that_has_ended_says_why() {
        let all = [container("a", ContainerState::Exited, 5, "3")];
        assert!(ended(&newest(&wanted(), &all)).is_some());
        let ending =
            Ending { exit_code: 137, reason: "OOMKilled".to_owned(), message: String::new() };
        assert_eq!(
            line(&all, Some(ending), PULL),
            "web running=0 restarts=3 reason=OOMKilled \
             message=the%20container%20`a`%20has%20ended%20with%20exit%20code%20137"
        );
    }

    #[test]
    fn the_kubelets_log_says_why_there_is_no_container() {
        let pull = failure(PULL, &wanted()).unwrap();
        let message = "failed to resolve reference \"registry.example/a:1\": not found";
        assert_eq!(pull, ("ErrImagePull".to_owned(), message.to_owned()));
        let (reason, message) = failure(NETWORK, &wanted()).unwrap();
        assert_eq!(reason, "NetworkPluginNotReady");
        assert!(message.contains("`hostNetwork`"), "{message}");
        let (reason, message) = failure(REFUSED, &wanted()).unwrap();
        assert_eq!((reason.as_str(), message.as_str()), ("OutOfmemory", "Node has no memory"));
        for line in [PULL.replace("default/", "other/"), PULL.replace("node-1", "node-2")] {
            assert_eq!(failure(&line, &wanted()), None);
        }
    }

    #[test]
    fn a_container_of_another_pod_does_not_count() {
        let mut other = container("a", ContainerState::Running, 1, "0");
        other.labels.insert(POD_NAMESPACE.to_owned(), "kube-system".to_owned());
        assert!(newest(&wanted(), &[other]).is_empty());
    }
}

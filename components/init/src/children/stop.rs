//! `init stop-pods` stops all pods before the node ends: those of the cluster first, then the
//! static ones, which give the node its network. The kubelet has to be stopped before, or it would
//! start them again.

use std::collections::HashMap;

use osbuild_failure::{Explain, Failure, Outcome};

use super::api::Connection;
use super::cri::{Container, ContainerState, GRACE, SOURCE, Sandbox};

/// The grace period in seconds of a container without one of its own: Kubernetes' default.
const DEFAULT_GRACE: i64 = 30;
/// The maximum grace period in seconds: no pod can hold up the shutdown any longer.
const MAX_GRACE: i64 = 45;

/// Stops all pods. Those of one wave stop at the same time.
pub async fn pods() -> Outcome {
    let mut containerd = Connection::open().await?;
    let sandboxes = containerd.sandboxes().await.map_err(text).explain("list the pods")?;
    let containers = containerd.containers().await.map_err(text).explain("list the containers")?;
    for wave in waves(sandboxes, &containers) {
        let stops: Vec<_> = wave.into_iter().map(|pod| tokio::spawn(stop(pod))).collect();
        for stopped in stops {
            if let Err(failure) = stopped.await.explain("stop a pod")? {
                println!("{failure}");
            }
        }
    }
    Ok(())
}

/// A sandbox and its running containers, each with its grace period in seconds.
#[derive(Debug, PartialEq)]
struct Pod {
    sandbox: String,
    containers: Vec<(String, i64)>,
}

/// The pods of the cluster, then the static ones.
fn waves(sandboxes: Vec<Sandbox>, containers: &[Container]) -> [Vec<Pod>; 2] {
    let mut waves = [Vec::new(), Vec::new()];
    for sandbox in sandboxes.into_iter().filter(|sandbox| sandbox.state == 0) {
        let is_static = sandbox.annotations.get(SOURCE).is_some_and(|source| source == "file");
        let running =
            |one: &&Container| one.sandbox == sandbox.id && one.state() == ContainerState::Running;
        let containers = containers
            .iter()
            .filter(running)
            .map(|one| (one.id.clone(), grace(&one.annotations)))
            .collect();
        waves[usize::from(is_static)].push(Pod { sandbox: sandbox.id, containers });
    }
    waves
}

fn grace(annotations: &HashMap<String, String>) -> i64 {
    let wanted = annotations.get(GRACE).and_then(|text| text.parse().ok());
    wanted.unwrap_or(DEFAULT_GRACE).clamp(0, MAX_GRACE)
}

async fn stop(pod: Pod) -> Outcome {
    let mut containerd = Connection::open().await?;
    let mut stops = Vec::new();
    for (id, seconds) in pod.containers {
        let mut containerd = Connection::open().await?;
        stops.push(tokio::spawn(async move { containerd.stop_container(id, seconds).await }));
    }
    for stopped in stops {
        stopped.await.explain("stop a container")?.map_err(text).explain("stop a container")?;
    }
    containerd.stop_sandbox(pod.sandbox).await.map_err(text).explain("stop a pod")
}

fn text(status: tonic::Status) -> Failure {
    Failure::new(status.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(id: &str, source: &str, state: i32) -> Sandbox {
        let annotations = [(SOURCE.to_owned(), source.to_owned())].into();
        Sandbox { id: id.to_owned(), state, annotations, ..Sandbox::default() }
    }

    fn container(id: &str, sandbox: &str, state: ContainerState, seconds: &str) -> Container {
        let annotations = [(GRACE.to_owned(), seconds.to_owned())].into();
        Container {
            id: id.to_owned(),
            sandbox: sandbox.to_owned(),
            state: state.into(),
            annotations,
            ..Container::default()
        }
    }

    #[test]
    fn the_clusters_pods_stop_before_the_static_ones() {
        let [first, last] = waves(
            vec![sandbox("dhcp", "file", 0), sandbox("web", "api", 0), sandbox("gone", "api", 1)],
            &[],
        );
        assert_eq!(first, [Pod { sandbox: "web".to_owned(), containers: vec![] }]);
        assert_eq!(last, [Pod { sandbox: "dhcp".to_owned(), containers: vec![] }]);
    }

    #[test]
    fn only_running_containers_are_stopped_each_with_its_grace() {
        let running = container("a", "web", ContainerState::Running, "10");
        let ended = container("b", "web", ContainerState::Exited, "10");
        let [first, _] = waves(vec![sandbox("web", "api", 0)], &[running, ended]);
        assert_eq!(first[0].containers, [("a".to_owned(), 10)]);
    }

    #[test]
    fn no_grace_period_is_longer_than_the_maximum() {
        let grace_of = |text: &str| grace(&[(GRACE.to_owned(), text.to_owned())].into());
        assert_eq!(grace_of("86400"), MAX_GRACE);
        assert_eq!(grace_of("-5"), 0);
        assert_eq!(grace_of("soon"), DEFAULT_GRACE);
        assert_eq!(grace(&HashMap::new()), DEFAULT_GRACE);
    }
}

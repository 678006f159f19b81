//! `init stop-pods` stops all pods before the node ends: those of the cluster first, then the
//! static ones, which give the node its network. The kubelet has to be stopped before, or it would
//! start them again.

use std::collections::HashMap;

use osbuild_failure::{Explain, Failure, Outcome};

use super::api::Connection;
use super::cri::{Container, ContainerState, GRACE, Sandbox, is_static};

/// The grace period in seconds of a container without one of its own: Kubernetes' default.
const DEFAULT_GRACE: i64 = 30;
/// The maximum grace period in seconds: no pod can hold up the shutdown any longer.
const MAX_GRACE: i64 = 45;

/// Stops the containers of all pods. Those of one wave stop at the same time.
///
/// Sandboxes have nothing to finish, and end with the machine: their network would take a plugin
/// each to remove, and the kubelet removes what is left of it after the next boot.
pub async fn pods() -> Outcome {
    let mut containerd = Connection::open().await?;
    let sandboxes = containerd.sandboxes().await.map_err(text).explain("list the pods")?;
    let containers = containerd.containers().await.map_err(text).explain("list the containers")?;
    for wave in waves(&sandboxes, &containers) {
        let stops: Vec<_> = wave.into_iter().map(|one| tokio::spawn(stop(one))).collect();
        for stopped in stops {
            if let Err(failure) = stopped.await.explain("stop a container")? {
                println!("{failure}");
            }
        }
    }
    Ok(())
}

/// A running container, and its grace period in seconds.
type Running = (String, i64);

/// The containers of the cluster's pods, then those of the static ones.
fn waves(sandboxes: &[Sandbox], containers: &[Container]) -> [Vec<Running>; 2] {
    let mut waves = [Vec::new(), Vec::new()];
    let running = containers.iter().filter(|one| one.state() == ContainerState::Running);
    for container in running {
        let is_static = is_static(container, sandboxes);
        waves[usize::from(is_static)].push((container.id.clone(), grace(&container.annotations)));
    }
    waves
}

fn grace(annotations: &HashMap<String, String>) -> i64 {
    let wanted = annotations.get(GRACE).and_then(|text| text.parse().ok());
    wanted.unwrap_or(DEFAULT_GRACE).clamp(0, MAX_GRACE)
}

async fn stop((id, seconds): Running) -> Outcome {
    let mut containerd = Connection::open().await?;
    containerd.stop_container(id, seconds).await.map_err(text).explain("stop a container")
}

fn text(status: tonic::Status) -> Failure {
    Failure::new(status.message())
}

#[cfg(test)]
mod tests {
    use super::super::cri::SOURCE;
    use super::*;

    fn sandbox(id: &str, source: &str) -> Sandbox {
        let annotations = [(SOURCE.to_owned(), source.to_owned())].into();
        Sandbox { id: id.to_owned(), annotations, ..Sandbox::default() }
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
    fn containers_of_the_clusters_pods_stop_before_those_of_static_ones() {
        let sandboxes = [sandbox("dhcp", "file"), sandbox("web", "api")];
        let container = |id, pod| container(id, pod, ContainerState::Running, "10");
        let waves = waves(&sandboxes, &[container("a", "dhcp"), container("b", "web")]);
        assert_eq!(waves, [[("b".to_owned(), 10)], [("a".to_owned(), 10)]]);
    }

    #[test]
    fn only_running_containers_are_stopped_each_with_its_grace() {
        let running = container("a", "web", ContainerState::Running, "10");
        let ended = container("b", "web", ContainerState::Exited, "10");
        let [first, last] = waves(&[sandbox("web", "api")], &[running, ended]);
        assert_eq!((first, last), (vec![("a".to_owned(), 10)], vec![]));
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

//! The news of the pod of a debug container, as the kubelet's log has it.

use osbuild_kubelet_log::{PodTrouble, Trouble};

/// The start of its name, as the kubelet logs it.
const NAMESPACE: &str = "kube-system/";

/// The errors of the kubelet about images.
const OF_IMAGES: [&str; 4] =
    ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];
/// Those about containers that cannot be made. Neither of them goes away by itself soon.
const OF_CONTAINERS: [&str; 3] =
    ["CreateContainerError", "CreateContainerConfigError", "RunContainerError"];

/// The news in a line about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The kubelet tries again, and may succeed.
    Trouble(String),
    /// It will not start soon.
    Failure(String),
}

/// The news in the line about the pod with this name. The kubelet adds the name of the node.
pub fn read(line: &str, name: &str) -> Option<News> {
    let PodTrouble { pod, trouble, message } = osbuild_kubelet_log::read(line)?;
    let rest = pod.strip_prefix(NAMESPACE)?.strip_prefix(name)?;
    (rest.is_empty() || rest.starts_with('-')).then(|| news(&trouble, &message))
}

fn news(trouble: &Trouble, message: &str) -> News {
    match trouble {
        Trouble::Refused(_) => News::Failure(format!("the kubelet refuses the pod: {message}")),
        Trouble::NoNetwork => News::Failure(format!(
            "the node has no network for pods, which a container with the rights `node` does not \
             need: {message}"
        )),
        Trouble::Failed(reason) if OF_IMAGES.contains(&reason.as_str()) => {
            News::Failure(format!("the image cannot be pulled: {message}"))
        }
        Trouble::Failed(reason) if OF_CONTAINERS.contains(&reason.as_str()) => {
            News::Failure(format!("the container cannot be started: {message}"))
        }
        Trouble::Failed(reason) => News::Trouble(format!("{reason}: {message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "debug-07070707";

    fn line(error: &str) -> String {
        format!("\"Error syncing pod, skipping\" err=\"{error}\" pod=\"kube-system/{NAME}-a\"")
    }

    #[test]
    fn an_image_a_container_and_a_missing_network_are_failures() {
        for (error, text) in [
            ("a with ErrImagePull: b", "the image cannot be pulled: b"),
            ("a with RunContainerError: b", "the container cannot be started: b"),
            ("NetworkPluginNotReady", "rights `node` does not need: NetworkPluginNotReady"),
        ] {
            let Some(News::Failure(reason)) = read(&line(error), NAME) else {
                panic!("{error} is a failure")
            };
            assert!(reason.ends_with(text), "{reason}");
        }
        let refused = "\"Pod admission denied\" pod=\"kube-system/debug-07070707\" \
                       reason=\"OutOfpods\" message=\"there are 110\"";
        let reason = "the kubelet refuses the pod: there are 110".to_owned();
        assert_eq!(read(refused, NAME), Some(News::Failure(reason)));
    }

    #[test]
    fn what_the_kubelet_tries_again_is_no_failure() {
        let trouble = News::Trouble("CreatePodSandboxError: b".to_owned());
        assert_eq!(read(&line("a with CreatePodSandboxError: b"), NAME), Some(trouble));
    }

    #[test]
    fn lines_about_other_pods_say_nothing() {
        let line = line("a with ErrImagePull: b");
        for name in ["debug-0707070", "debug-070707070", "ebug-07070707", "dhcp"] {
            assert_eq!(read(&line, name), None, "{name}");
        }
        assert_eq!(read(&line.replace("kube-system", "default"), NAME), None);
    }
}

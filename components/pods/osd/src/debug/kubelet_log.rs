//! The kubelet's log on a pod that does not start. Without credentials, nothing else on the node
//! has the reason why an image cannot be pulled.

/// The start of the line about a pod that does not become what its manifest describes.
const CANNOT_SYNC: &str = "\"Error syncing pod, skipping\" err=\"";
/// The same of a pod that the kubelet refuses for good, for example because it lacks room.
const REFUSED: &str = "\"Pod admission denied\" ";
const REASON: &str = "message=\"";
/// The error in such a line while no network plugin is configured.
const NO_NETWORK: &str = "network is not ready";
/// The namespace of the pod.
const POD: &str = "pod=\"kube-system/";

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

/// The news in the line about the pod with this name.
pub fn read(line: &str, name: &str) -> Option<News> {
    if let Some((_, rest)) = line.split_once(REFUSED) {
        let (_, reason) = of_pod(rest, name)?.split_once(REASON)?;
        return Some(News::Failure(format!("the kubelet refuses the pod: {}", quoted(reason)?.0)));
    }
    let (_, rest) = line.split_once(CANNOT_SYNC)?;
    let (error, rest) = quoted(rest)?;
    of_pod(rest, name)?;
    if error.contains(NO_NETWORK) {
        return Some(News::Failure(format!(
            "the node has no network for pods, which a container with the rights `node` does not \
             need: {error}"
        )));
    }
    // `failed to "StartContainer" for "debug" with ErrImagePull: "…"`
    let Some((reason, detail)) =
        error.split_once(" with ").and_then(|(_, why)| why.split_once(": "))
    else {
        return Some(News::Trouble(error));
    };
    let detail = match detail.strip_prefix('"').and_then(quoted) {
        Some((detail, _)) => detail,
        None => detail.to_owned(),
    };
    Some(match reason {
        _ if OF_IMAGES.contains(&reason) => {
            News::Failure(format!("the image cannot be pulled: {detail}"))
        }
        _ if OF_CONTAINERS.contains(&reason) => {
            News::Failure(format!("the container cannot be started: {detail}"))
        }
        _ => News::Trouble(format!("{reason}: {detail}")),
    })
}

/// The rest of a line behind the name of its pod, if that is `name`. The kubelet adds the name of
/// the node.
fn of_pod<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, pod) = line.split_once(POD)?;
    pod.strip_prefix(name).filter(|rest| rest.starts_with(['-', '"']))
}

/// The text up to the next quotation mark that is not escaped, without the escapes of Go, and what
/// follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut unescaped, mut rest) = (String::new(), text.chars());
    loop {
        match rest.next()? {
            '"' => return Some((unescaped, rest.as_str())),
            '\\' => match rest.next()? {
                'n' | 't' | 'r' => unescaped.push(' '),
                other => unescaped.push(other),
            },
            other => unescaped.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines of the kubelet 1.35 about an image, a sandbox and the network of pods.
    const LINES: &str = include_str!("kubelet_lines.txt");
    const NAME: &str = "debug-07070707";

    fn lines() -> [&'static str; 4] {
        LINES.lines().collect::<Vec<_>>().try_into().unwrap()
    }

    #[test]
    fn a_line_about_the_image_is_the_reason_of_a_failure() {
        let [pull, ..] = lines();
        let reason = "the image cannot be pulled: failed to pull and unpack image \
                      \"registry.example/a:1\": failed to resolve reference \
                      \"registry.example/a:1\": registry.example/a:1: not found";
        assert_eq!(read(pull, NAME), Some(News::Failure(reason.to_owned())));
    }

    #[test]
    fn without_a_network_for_pods_the_reason_says_what_helps() {
        let [_, _, network, _] = lines();
        let Some(News::Failure(reason)) = read(network, NAME) else { panic!("it is a failure") };
        assert!(reason.contains("rights `node`") && reason.contains("cni plugin not initialized"));
    }

    #[test]
    fn a_pod_for_which_there_is_no_room_is_a_failure_with_the_resource() {
        let [.., refused] = lines();
        let Some(News::Failure(reason)) = read(refused, NAME) else { panic!("it is a failure") };
        assert!(reason.starts_with("the kubelet refuses the pod: Unexpected error"), "{reason}");
        assert!(reason.ends_with("[(res: ephemeral-storage, q: 903894630), ]"), "{reason}");
    }

    #[test]
    fn what_the_kubelet_tries_again_is_no_failure() {
        let [_, sandbox, ..] = lines();
        let trouble = "CreatePodSandboxError: Failed to create sandbox for pod: rpc error";
        assert_eq!(read(sandbox, NAME), Some(News::Trouble(trouble.to_owned())));
    }

    #[test]
    fn lines_about_other_pods_say_nothing() {
        let [pull, ..] = lines();
        for name in ["debug-0707070", "debug-070707070", "ebug-07070707", "dhcp"] {
            assert_eq!(read(pull, name), None, "{name}");
        }
        assert_eq!(read(&pull.replace("Error syncing", "Syncing"), NAME), None);
    }

    proptest! {
        #[test]
        fn a_line_that_is_cut_off_or_of_anything_is_read(at in 0..LINES.len(), text in "\\PC{0,80}")
        {
            read(&LINES[..at], NAME);
            read(&format!("{CANNOT_SYNC}{text}"), NAME);
        }
    }
}

//! Lines of the daemons' logs: the kubelet writes klog, containerd writes logrus
//! (`https://pkg.go.dev/k8s.io/klog/v2`, `https://pkg.go.dev/github.com/sirupsen/logrus`).

/// Errors that daemons log at every healthy start. They stay in the logs; on the console they would
/// teach people to overlook errors.
const EXPECTED: &[&str] = &[
    // containerd: a node has no CNI before its CNI pod runs.
    "failed to load cni during init",
    // The kubelet, in its first seconds: it has not asked containerd for its status yet.
    "Skipping pod synchronization",
    "Image garbage collection failed once",
    "checkpoint is not found",
    "failed to check if we have separate container filesystem",
    // The kubelet, on a node that has not joined: no API server has a newer Node object.
    "failed to check if node is newer",
    // The kubelet, before the pod that gives the node its network. Should that pod fail, the gate
    // says so.
    "no default routes found",
];

/// Whether a line reports an error: containerd writes logrus text, the kubelet klog, and Go itself
/// its panics.
pub fn is_error(line: &str) -> bool {
    has_error_level(line) && !EXPECTED.iter().any(|expected| line.contains(expected))
}

fn has_error_level(line: &str) -> bool {
    let is_klog = match line.as_bytes() {
        [b'E' | b'F', date @ ..] if date.len() > 4 => {
            date[..4].iter().all(u8::is_ascii_digit) && date[4] == b' '
        }
        _ => false,
    };
    is_klog
        || ["level=error", "level=fatal", "level=panic"].iter().any(|level| line.contains(level))
        || ["panic: ", "fatal error: "].iter().any(|start| line.starts_with(start))
}

/// How many characters of a message of logrus name its source: texts about a pod follow.
const MESSAGE: usize = 24;

/// The source of an error: the place in the kubelet's code with the pod that the error is about, or
/// the start of containerd's message. Of any other line it is the line.
pub fn source(line: &str) -> String {
    let place = line.split_once("] ").and_then(|(head, text)| {
        let place = head.rsplit(' ').next().filter(|place| place.contains(".go:"))?;
        let pod = text.split_once(" pod=\"").and_then(|(_, rest)| rest.split('"').next());
        Some(format!("{place} {}", pod.unwrap_or_default()))
    });
    place.unwrap_or_else(|| match line.split_once(" msg=\"") {
        Some((_, message)) => message.chars().take(MESSAGE).collect(),
        None => line.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_of_both_daemons_and_of_go_are_recognized() {
        assert!(is_error(
            r#"E1121 11:19:05.123456       1 kubelet.go:1685] "Failed to start ContainerManager""#
        ));
        assert!(is_error(r#"time="2026-11-21T11:19:05Z" level=error msg="get state""#));
        assert!(is_error("panic: runtime error: index out of range"));
    }

    #[test]
    fn errors_of_every_healthy_start_are_kept_off_the_console() {
        assert!(!is_error(
            r#"E1121 12:25:45.815177     139 kubelet.go:2530] "Skipping pod synchronization""#
        ));
        assert!(!is_error(
            r#"time="2026-11-21T12:25:26Z" level=error msg="failed to load cni during init""#
        ));
    }

    #[test]
    fn a_line_that_starts_with_e_need_not_be_an_error() {
        assert!(!is_error("E112x something"));
        assert!(!is_error("Error: not klog"));
        assert!(!is_error(r#"I1121 11:19:05.1 1 a.go:1] "Error""#));
        assert!(!is_error("E"));
    }

    #[test]
    fn errors_about_the_same_have_the_same_source() {
        let patch = |time: &str| {
            let head = format!("E1129 07:33:{time}     448 kubelet_node_status.go:474]");
            source(&format!("{head} \"Error updating node status, will retry\" err=\"at {time}\""))
        };
        assert_eq!(patch("15.878871"), patch("25.999060"));
        let sync = |pod: &str| {
            let head = "E1129 07:33:15.878871     448 pod_workers.go:1301]";
            source(&format!("{head} \"Error syncing pod, skipping\" err=\"x\" pod=\"{pod}\""))
        };
        assert_ne!(sync("default/a"), sync("default/b"));
        assert_eq!(sync("default/a"), "pod_workers.go:1301 default/a");
        let containerd = |pod: &str| {
            source(&format!(
                "time=\"t\" level=error msg=\"RunPodSandbox for &PodSandboxMetadata{{{pod}"
            ))
        };
        assert_eq!(containerd("a"), containerd("b"));
        assert_eq!(source("panic: a"), "panic: a");
    }

    proptest! {
        #[test]
        fn any_line_has_a_source(line in ".*") {
            prop_assert!(source(&line).len() <= line.len() + 1);
        }
    }
}

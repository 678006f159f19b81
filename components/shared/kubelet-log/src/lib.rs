//! The lines of the kubelet's log about pods that do not start. On a node without credentials for a
//! cluster, nothing else has the reason why an image cannot be pulled.
//!
//! A line is in klog's text format: a header, a message in quotation marks, and `KEY="VALUE"` with
//! the escapes of Go.

/// The message about a pod that does not become what its manifest describes.
const CANNOT_SYNC: &str = "\"Error syncing pod, skipping\" ";
/// The message about a pod that the kubelet refuses for good, for example because it lacks room.
const REFUSED: &str = "\"Pod admission denied\" ";
/// A part of the error while no network plugin is configured.
const NO_NETWORK: &str = "NetworkPluginNotReady";
/// The reason of an error that has none of its own.
const NO_REASON: &str = "Error";

/// A pod that does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTrouble {
    /// The pod, as `NAMESPACE/NAME`. The name of a static pod ends with that of the node.
    pub pod: String,
    /// Its trouble.
    pub trouble: Trouble,
    /// The error, for people.
    pub message: String,
}

/// The cause that keeps a pod from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No network plugin is configured, which a pod with the network of the node does not need.
    NoNetwork,
    /// The kubelet refuses it for good: the reason, one word such as `UnexpectedAdmissionError`.
    Refused(String),
    /// The kubelet tries again: the reason, one word such as `ErrImagePull`.
    Failed(String),
}

impl Trouble {
    /// The reason: one word.
    pub fn reason(&self) -> &str {
        match self {
            Self::NoNetwork => NO_NETWORK,
            Self::Refused(reason) | Self::Failed(reason) => reason,
        }
    }
}

/// Reads a line of the log. `None` comes of one about anything else.
pub fn read(line: &str) -> Option<PodTrouble> {
    if let Some((_, rest)) = line.split_once(REFUSED) {
        let trouble = Trouble::Refused(value(rest, "reason")?);
        return Some(PodTrouble {
            pod: value(rest, "pod")?,
            trouble,
            message: value(rest, "message")?,
        });
    }
    let (_, rest) = line.split_once(CANNOT_SYNC)?;
    let (pod, error) = (value(rest, "pod")?, value(rest, "err")?);
    if error.contains(NO_NETWORK) {
        return Some(PodTrouble { pod, trouble: Trouble::NoNetwork, message: error });
    }
    let (reason, message) = match parts(&error) {
        Some((reason, message)) => (reason.to_owned(), message),
        None => (NO_REASON.to_owned(), error),
    };
    Some(PodTrouble { pod, trouble: Trouble::Failed(reason), message })
}

/// The reason and the message of an error such as `failed to "StartContainer" for "debug" with
/// ErrImagePull: "…"`.
fn parts(error: &str) -> Option<(&str, String)> {
    let (_, rest) = error.split_once(" with ")?;
    let (reason, message) = rest.split_once(": ")?;
    let quoted = message.strip_prefix('"').and_then(quoted);
    Some((reason, quoted.map_or_else(|| message.to_owned(), |(message, _)| message)))
}

/// The value of a key. Keys in the values of others do not count.
fn value(line: &str, key: &str) -> Option<String> {
    let mut rest = line;
    loop {
        let (found, after) = rest.split_once("=\"")?;
        let (text, after) = quoted(after)?;
        if found.trim_start() == key {
            return Some(text);
        }
        rest = after;
    }
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

    /// Lines of the kubelet 1.35 about an image, a sandbox, the network of pods, and a node without
    /// room.
    const LINES: &str = include_str!("lines.txt");
    const POD: &str = "kube-system/debug-07070707-node-1";

    fn lines() -> [&'static str; 4] {
        LINES.lines().collect::<Vec<_>>().try_into().unwrap()
    }

    #[test]
    fn a_line_about_an_image_has_the_error_of_the_registry() {
        let [pull, ..] = lines();
        let message = "failed to pull and unpack image \"registry.example/a:1\": failed to resolve \
                       reference \"registry.example/a:1\": registry.example/a:1: not found";
        let trouble = Trouble::Failed("ErrImagePull".to_owned());
        let (pod, message) = (POD.to_owned(), message.to_owned());
        assert_eq!(read(pull), Some(PodTrouble { pod, trouble, message }));
    }

    #[test]
    fn a_sandbox_a_missing_network_and_a_missing_room_have_their_reasons() {
        let [_, sandbox, network, room] = lines().map(|line| read(line).unwrap());
        assert_eq!(sandbox.trouble, Trouble::Failed("CreatePodSandboxError".to_owned()));
        assert_eq!(sandbox.message, "Failed to create sandbox for pod: rpc error");
        assert_eq!(network.trouble, Trouble::NoNetwork);
        assert!(network.message.ends_with("cni plugin not initialized"), "{network:?}");
        assert_eq!(room.trouble, Trouble::Refused("UnexpectedAdmissionError".to_owned()));
        assert_eq!(room.pod, "kube-system/debug-07070707-node-b664f271");
        assert!(room.message.ends_with("[(res: ephemeral-storage, q: 903894630), ]"), "{room:?}");
    }

    #[test]
    fn a_key_in_an_error_is_part_of_the_error() {
        let line = r#""Error syncing pod, skipping" err="a pod=\"b/c\" \n d" pod="e/f""#;
        let found = read(line).unwrap();
        assert_eq!((found.pod.as_str(), found.message.as_str()), ("e/f", "a pod=\"b/c\"   d"));
        assert_eq!(found.trouble.reason(), "Error");
    }

    #[test]
    fn other_lines_say_nothing() {
        let [pull, ..] = lines();
        assert_eq!(read(&pull.replace("Error syncing", "Syncing")), None);
        assert_eq!(read(""), None);
    }

    proptest! {
        #[test]
        fn a_line_that_is_cut_off_or_of_anything_is_read(at in 0..LINES.len(), text in "\\PC{0,80}")
        {
            read(&LINES[..at]);
            read(&format!("{CANNOT_SYNC}{text}"));
        }
    }
}

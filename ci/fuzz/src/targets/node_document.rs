//! The node document, which pods and sticks leave on DATA.

use crate::target::{Memory, Outcome, Target};
use osbuild_document::Document;
use osbuild_protocol::Setting;

pub const TARGET: Target =
    Target { name: "node_document", seeds, run, memory: Memory::per_byte(1024) };

fn seeds() -> Vec<Vec<u8>> {
    let example = include_bytes!("../../../../components/shared/document/example.toml");
    vec![
        example.to_vec(),
        b"[kubelet]\nlabels = { a = \"b\" }\ntaints = [\"a=b:NoExecute\"]\n".to_vec(),
        b"[kubelet]\nlabel = 1\n".to_vec(),
        b"[kubelet.config]\nmaxPods = 50\nevictionHard = { \"pid.available\" = \"5%\" }\n".to_vec(),
    ]
}

/// A refusal names a line of the document. Whatever is accepted fits on one line of a command line.
fn run(input: &[u8]) -> Outcome {
    let Ok(text) = std::str::from_utf8(input) else { return Outcome::Refused };
    match Document::parse(text) {
        Err(refusal) => {
            assert!((1..=text.matches('\n').count() + 1).contains(&refusal.line), "{refusal}");
            assert!(!refusal.reason.contains('\n'), "{refusal}");
            Outcome::Refused
        }
        Ok(document) => {
            for setting in document.settings() {
                assert_eq!(Setting::parse(&setting.line()), Ok(setting));
            }
            let kubelet = document.kubelet;
            let providers = kubelet.credential_providers.iter();
            let mut paths = providers.flat_map(|one| [one.config.as_str(), one.folder.as_str()]);
            let on_a_line = |text: &str| !text.contains(char::is_control);
            assert!(paths.all(on_a_line));
            assert!(kubelet.labels.iter().all(|label| on_a_line(&label.to_string())));
            Outcome::Accepted
        }
    }
}

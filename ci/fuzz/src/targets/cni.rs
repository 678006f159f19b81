//! Network configurations of pods (CNI), which pods write, and the line about one.

use init::cni;
use osbuild_protocol::CniState;

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target = Target { name: "cni", seeds, run, memory: Memory::per_byte(256) };

fn run(input: &[u8]) -> Outcome {
    if let Some(state) = str::from_utf8(input).ok().and_then(CniState::decode) {
        let line = state.encode();
        assert_eq!(CniState::decode(&line).map(|again| again.encode()), Some(line));
    }
    let found = cni::read("10-a.conf", input).or_else(|_| cni::read("10-a.conflist", input));
    let Ok(found) = &found else { return Outcome::Refused };
    assert!(!found.plugins.is_empty());
    for plugin in &found.plugins {
        assert!(!plugin.is_empty() && !plugin.contains('/') && !plugin.starts_with('.'));
    }
    Outcome::Accepted
}

fn seeds() -> Vec<Vec<u8>> {
    let list = br#"{"name": "a", "cniVersion": "1.0.0", "plugins": [{"type": "ptp"}]}"#;
    let state = CniState { plugins: vec!["ptp".to_owned()], ..CniState::default() };
    vec![list.to_vec(), br#"{"name": "a", "type": "ptp"}"#.to_vec(), state.encode().into_bytes()]
}

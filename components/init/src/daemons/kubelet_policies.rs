//! The policies by which the kubelet assigns processors and memory to containers, and what it
//! remembers of these. A kubelet with another policy, of another release or on another number of
//! processors rejects it and never starts; nobody can log in to a node and delete it.

use std::path::Path;

use osbuild_folder::small_file::read;
use serde_json::Value;

/// A policy.
pub struct Policy {
    /// Its name in the kubelet's configuration.
    pub setting: &'static str,
    /// Its value without that setting (`pkg/kubelet/apis/config/v1beta1/defaults.go`).
    pub default: &'static str,
    state: &'static str,
}

/// All policies of which the kubelet remembers something.
pub const ALL: [Policy; 2] = [
    Policy {
        setting: "cpuManagerPolicy",
        default: "none",
        state: "/var/lib/kubelet/cpu_manager_state",
    },
    Policy {
        setting: "memoryManagerPolicy",
        default: "None",
        state: "/var/lib/kubelet/memory_manager_state",
    },
];

/// Removes all of it: its containers ended with the last boot. A slot on trial would break the
/// other slot's kubelet with it.
pub fn forget() {
    ALL.iter().for_each(|policy| remove(Path::new(policy.state)));
}

/// Removes what another policy has left, of this boot's kubelet without its drop-ins or before a
/// change of them. The kubelet assigns processors and memory to its pods again.
pub fn forget_others(values: &[String]) {
    for (policy, value) in ALL.iter().zip(values) {
        forget_other(Path::new(policy.state), value);
    }
}

fn forget_other(state: &Path, value: &str) {
    // The kubelet names a state that cannot be read.
    let Ok(Some(text)) = read(state) else { return };
    let remembered: Value = serde_json::from_str(&text).unwrap_or_default();
    if remembered["policyName"] != value {
        remove(state);
    }
}

fn remove(state: &Path) {
    // It may be missing; and the kubelet names a file that cannot be removed.
    let _ = std::fs::remove_file(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_state_of_the_same_policy_stays() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("cpu_manager_state");
        let of_none = r#"{"policyName":"none","defaultCpuSet":"","checksum":1353318690}"#;
        for (text, value, stays) in
            [(of_none, "none", true), (of_none, "static", false), ("{\"pol", "none", false)]
        {
            std::fs::write(&state, text).unwrap();
            forget_other(&state, value);
            assert_eq!(state.exists(), stays, "{text} with {value}");
        }
        forget_other(&state, "static");
    }
}

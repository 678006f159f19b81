//! The policies by which the kubelet assigns processors and memory to containers, and what it
//! remembers of these. A kubelet with another policy, of another release or on another number of
//! processors rejects it and never starts; nobody can log in to a node and delete it.

use osbuild_folder::Folder;
use serde_json::Value;

/// The size of the largest state, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// A policy.
pub struct Policy {
    /// Its name in the kubelet's configuration.
    pub setting: &'static str,
    /// Its value without that setting (`pkg/kubelet/apis/config/v1beta1/defaults.go`).
    pub default: &'static str,
    /// The name of the file of its state in the kubelet's folder.
    state: &'static str,
}

/// All policies of which the kubelet remembers something.
pub const ALL: [Policy; 2] = [
    Policy { setting: "cpuManagerPolicy", default: "none", state: "cpu_manager_state" },
    Policy { setting: "memoryManagerPolicy", default: "None", state: "memory_manager_state" },
];

/// Removes all of it from the kubelet's folder: its containers ended with the last boot. A slot on
/// trial would break the other slot's kubelet with it.
pub fn forget(kubelet: &Folder) {
    ALL.iter().for_each(|policy| remove(kubelet, policy.state));
}

/// Removes what another policy has left, of this boot's kubelet without its drop-ins or before a
/// change of them. The kubelet assigns processors and memory to its pods again.
pub fn forget_others(kubelet: &Folder, values: &[String]) {
    for (policy, value) in ALL.iter().zip(values) {
        forget_other(kubelet, policy.state, value);
    }
}

fn forget_other(kubelet: &Folder, state: &str, value: &str) {
    // The kubelet names a state that cannot be read.
    let Ok(Some(text)) = kubelet.read_text(state, MAX_SIZE) else { return };
    let remembered: Value = serde_json::from_str(&text).unwrap_or_default();
    if remembered["policyName"] != value {
        remove(kubelet, state);
    }
}

fn remove(kubelet: &Folder, state: &str) {
    // It may be missing; and the kubelet names a file that cannot be removed.
    let _ = kubelet.remove(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(&place.path().canonicalize().unwrap(), "aside").unwrap();
        (place, folder)
    }

    #[test]
    fn only_the_state_of_the_same_policy_stays() {
        let (place, kubelet) = folder();
        let state = place.path().join("cpu_manager_state");
        let of_none = r#"{"policyName":"none","defaultCpuSet":"","checksum":1353318690}"#;
        for (text, value, stays) in
            [(of_none, "none", true), (of_none, "static", false), ("{\"pol", "none", false)]
        {
            std::fs::write(&state, text).unwrap();
            forget_other(&kubelet, "cpu_manager_state", value);
            assert_eq!(state.exists(), stays, "{text} with {value}");
        }
        forget_other(&kubelet, "cpu_manager_state", "static");
    }

    #[test]
    fn a_link_is_neither_followed_nor_left_at_boot() {
        let (place, kubelet) = folder();
        let [other, state] = ["other", "cpu_manager_state"].map(|name| place.path().join(name));
        std::fs::write(&other, r#"{"policyName":"static"}"#).unwrap();
        std::os::unix::fs::symlink("other", &state).unwrap();
        forget_other(&kubelet, "cpu_manager_state", "none");
        assert!(state.exists());
        forget(&kubelet);
        assert!(state.symlink_metadata().is_err() && other.exists());
    }
}

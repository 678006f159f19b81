//! The plugins that give pods a network and storage, the clients of containerd, and the BPF
//! programs of the kernel, as the child `init node-plugins` finds them. It looks when a client asks
//! for the state of the node, at most once in an interval.

use std::time::Duration;

use osbuild_protocol::{BpfPrograms, CniState, RuntimeClients, StorageDrivers};

/// The shortest time between two looks.
const INTERVAL: Duration = Duration::from_secs(10);

/// The last report, and when to look again.
#[derive(Debug, Default)]
pub struct NodePlugins {
    /// When to look next, since boot.
    due: Duration,
    /// Whether a child looks.
    is_looking: bool,
    cni: Option<CniState>,
    storage_drivers: Option<StorageDrivers>,
    bpf_programs: Option<BpfPrograms>,
    runtime_clients: Option<RuntimeClients>,
}

impl NodePlugins {
    /// Whether a child is to look now. `now` is the time since boot.
    pub fn is_due(&self, now: Duration) -> bool {
        !self.is_looking && now >= self.due
    }

    /// A child looks, or could not be started.
    pub fn on_asked(&mut self, is_looking: bool, now: Duration) {
        (self.is_looking, self.due) = (is_looking, now + INTERVAL);
    }

    /// The child has ended with this report. Nothing is known after one without a line.
    pub fn on_report(&mut self, report: &str) {
        self.is_looking = false;
        self.cni = report.lines().find_map(|line| CniState::decode(line.strip_prefix("cni ")?));
        self.storage_drivers = StorageDrivers::decode(report.lines());
        self.bpf_programs = BpfPrograms::decode(report.lines());
        self.runtime_clients = RuntimeClients::decode(report.lines());
    }

    /// The network configuration of pods, if it was looked at.
    pub fn cni(&self) -> Option<&CniState> {
        self.cni.as_ref()
    }

    /// The storage drivers of pods, if they were looked at.
    pub fn storage_drivers(&self) -> Option<&StorageDrivers> {
        self.storage_drivers.as_ref()
    }

    /// The BPF programs of the kernel, if they were looked at.
    pub fn bpf_programs(&self) -> Option<&BpfPrograms> {
        self.bpf_programs.as_ref()
    }

    /// The clients of containerd, if they were looked at.
    pub fn runtime_clients(&self) -> Option<&RuntimeClients> {
        self.runtime_clients.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_child_looks_at_a_time_and_once_in_an_interval() {
        let mut plugins = NodePlugins::default();
        let at = Duration::from_secs;
        assert!(plugins.is_due(at(1)) && plugins.cni().is_none());
        plugins.on_asked(true, at(1));
        assert!(!plugins.is_due(at(60)));
        let state = CniState { name: "pods".to_owned(), ..CniState::default() };
        let drivers = StorageDrivers { left_out: 7, ..StorageDrivers::default() };
        let programs = BpfPrograms { left_out: 8, ..BpfPrograms::default() };
        let clients = RuntimeClients { left_out: 9, ..RuntimeClients::default() };
        let lines = [drivers.encode(), clients.encode(), programs.encode()].concat();
        plugins.on_report(&format!("cni {}\n{lines}", state.encode()));
        assert_eq!(plugins.runtime_clients(), Some(&clients));
        assert_eq!(plugins.bpf_programs(), Some(&programs));
        assert_eq!((plugins.cni(), plugins.storage_drivers()), (Some(&state), Some(&drivers)));
        assert!(!plugins.is_due(at(10)) && plugins.is_due(at(11)));
        plugins.on_asked(true, at(11));
        plugins.on_report("");
        assert_eq!(plugins.cni(), None);
        plugins.on_asked(false, at(60));
        assert!(!plugins.is_due(at(61)) && plugins.is_due(at(70)));
    }
}

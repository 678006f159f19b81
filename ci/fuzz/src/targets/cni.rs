//! Network configurations of pods (CNI), which pods write, the line about one, and those about
//! storage drivers, BPF programs and clients of the container runtime.

use init::cni;
use osbuild_protocol::{
    BpfProgram, BpfPrograms, ClientProcess, CniState, RuntimeClient, RuntimeClients, StorageDriver,
    StorageDrivers,
};

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target = Target { name: "cni", seeds, run, memory: Memory::per_byte(256) };

fn run(input: &[u8]) -> Outcome {
    let text = str::from_utf8(input).unwrap_or_default();
    if let Some(drivers) = StorageDrivers::decode(text.lines()) {
        let lines = drivers.encode();
        let again = StorageDrivers::decode(lines.lines()).map(|again| again.encode());
        assert_eq!(again, Some(lines));
    }
    if let Some(programs) = BpfPrograms::decode(text.lines()) {
        let lines = programs.encode();
        let again = BpfPrograms::decode(lines.lines()).map(|again| again.encode());
        assert_eq!(again, Some(lines));
    }
    if let Some(clients) = RuntimeClients::decode(text.lines()) {
        let lines = clients.encode();
        let again = RuntimeClients::decode(lines.lines()).map(|again| again.encode());
        assert_eq!(again, Some(lines));
    }
    if let Some(state) = CniState::decode(text) {
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
    let driver = StorageDriver { name: "a.csi".to_owned(), ..StorageDriver::default() };
    let drivers = StorageDrivers { left_out: 1, drivers: vec![driver] };
    let one = br#"{"name": "a", "type": "ptp"}"#;
    let program = BpfProgram {
        maps: vec![1, 2],
        targets: vec!["xdp eth0".to_owned()],
        ..BpfProgram::default()
    };
    let programs = BpfPrograms { left_out: 1, programs: vec![program] };
    let process = Some(ClientProcess { pod: "a/b".to_owned(), ..ClientProcess::default() });
    let client = RuntimeClient { pid: 1, connections: 1, process };
    let clients = RuntimeClients { left_out: 1, clients: vec![client] };
    let lines = [state.encode(), drivers.encode(), programs.encode(), clients.encode()];
    let lines = lines.map(String::into_bytes);
    [list.to_vec(), one.to_vec()].into_iter().chain(lines).collect()
}

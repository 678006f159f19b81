//! Writes what was observed, as far as it differs from what the store has.

use super::ObservedType;
use super::observation;
use super::rows::Rows;
use crate::settings::spec;
use crate::shared::SharedStore;
use osbuild_cosi::v1::ObservationStatusSpec;
use osbuild_resources::{
    Content, Error, Expected, Key, Kind, Owner, Phase, Query, Resource, Spec, Store,
};
use prost::Message;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// The owner of what is observed.
const OWNER: &str = "observed";

/// Changes that are written at once, and the pause after them. The history of a kind has a hundred:
/// a client that reads at its own pace would lose its place if more came together.
const CHUNK: usize = 32;
const PAUSE: Duration = Duration::from_millis(5);

/// The store, and how the observation of each type went.
pub struct Publisher {
    store: Arc<SharedStore>,
    observations: Mutex<BTreeMap<String, ObservationStatusSpec>>,
}

/// A difference between what was observed and what the store has.
enum Change {
    Destroy(Key),
    Update(Arc<Resource>, Spec),
    Create(Key, Spec),
}

impl Publisher {
    /// Publishes in this store.
    pub fn new(store: Arc<SharedStore>) -> Publisher {
        Publisher { store, observations: Mutex::default() }
    }

    /// Has the store hold exactly these resources of a type. If the reason is given why they cannot
    /// be observed, there are none: an old one would be taken for true.
    pub fn publish<M: Message + Serialize>(
        &self,
        one: &ObservedType,
        observed: Result<Rows<M>, String>,
    ) {
        let mut observation = ObservationStatusSpec::default();
        let rows = observed.unwrap_or_else(|error| {
            observation.error = error;
            Rows::at_most(0)
        });
        observation.left_out = rows.left_out;
        if let Err(error) = self.replace(&one.kind(), rows.into_specs()) {
            observation.error = error.to_string();
        }
        self.note(one.names.plural, observation);
    }

    /// Publishes how the observation of a type went, and prints a new error.
    fn note(&self, type_name: &str, observation: ObservationStatusSpec) {
        let error = observation.error.clone();
        let mut observations = self.observations.lock().unwrap_or_else(PoisonError::into_inner);
        let before = observations.insert(type_name.to_owned(), observation);
        if !error.is_empty() && before.is_none_or(|before| before.error != error) {
            eprintln!("error: cannot observe {type_name}: {error}");
        }
        if let Err(error) = self.replace(&observation::TYPE.kind(), observations.clone()) {
            eprintln!("error: cannot write how observations went: {error}");
        }
    }

    fn replace<M: Message + Serialize>(
        &self,
        kind: &Kind,
        rows: BTreeMap<String, M>,
    ) -> Result<(), Error> {
        let changes = self.store.read(|store| differences(store, kind, rows));
        let mut outcome = Ok(());
        for (index, changes) in changes.chunks(CHUNK).enumerate() {
            if index > 0 {
                sleep(PAUSE);
            }
            self.store.write_beside(kind, |store| {
                // One that fails keeps none of the others from being written.
                let outcomes = changes.iter().map(|one| one.carry_out(store));
                outcome = outcomes.fold(outcome.clone(), Result::and);
                Ok(())
            })?;
        }
        outcome
    }
}

impl Change {
    fn carry_out(&self, store: &mut Store) -> Result<(), Error> {
        let (owner, now) = (Owner(OWNER.to_owned()), SystemTime::now());
        match self {
            // Plugins may have something to undo first: then the next observation destroys it.
            Change::Destroy(key) => store.withdraw(key, &owner, now),
            Change::Update(found, spec) => {
                let content = Content { spec: spec.clone(), ..found.content.clone() };
                let expected = Expected { version: Some(found.version), owner, phase: None };
                store.update(content, expected, now).map(drop)
            }
            Change::Create(key, spec) => {
                store.create(Content::new(key.clone(), spec.clone()), owner, now).map(drop)
            }
        }
    }
}

/// The differences, those first that make room.
fn differences<M: Message + Serialize>(
    store: &Store,
    kind: &Kind,
    mut rows: BTreeMap<String, M>,
) -> Vec<Change> {
    let query = Query::default();
    let mut changes = Vec::new();
    let mut updates = Vec::new();
    for found in store.list(kind, &query) {
        let key = &found.content.key;
        // One that is being torn down is destroyed before there is another in its place.
        let row = rows.remove(key.id()).filter(|_| found.content.phase == Phase::Running);
        match row {
            None => changes.push(Change::Destroy(key.clone())),
            // The YAML says the same, and takes longer to write.
            Some(row) if row.encode_to_vec() == found.content.spec.proto => {}
            Some(row) => updates.push(Change::Update(found, spec::both(&row))),
        }
    }
    changes.extend(updates);
    changes.extend(rows.into_iter().filter_map(|(id, row)| {
        let key = Key::new(kind.clone(), &id).ok()?;
        Some(Change::Create(key, spec::both(&row)))
    }));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::STORE;
    use crate::observed::{
        TYPES, address, bpf_program, device, link, route, runtime_client, sbom_item,
    };
    use osbuild_cosi::v1::{
        AddressStatusSpec, BpfProgramSpec, DeviceInfoSpec, LinkStatusSpec, RouteStatusSpec,
        RuntimeClientSpec, SbomItemSpec,
    };

    const ADDRESS: &str = "2001:db8:1111:2222:3333:4444:5555:6666";

    fn publisher() -> Publisher {
        Publisher::new(Arc::new(SharedStore::new().unwrap()))
    }

    /// As many rows as there may be, and one more, with identifiers of 15 bytes and more.
    fn full<M: Clone>(one: &ObservedType, row: &M) -> Rows<M> {
        let mut rows = Rows::at_most(one.max_count);
        for number in 0..=one.max_count {
            let id = format!("cali0123456{number:04}/{ADDRESS}/128/{ADDRESS}/1024");
            rows.insert(0, id, row.clone());
        }
        rows
    }

    fn link() -> LinkStatusSpec {
        LinkStatusSpec {
            index: 70_000,
            r#type: "ether".into(),
            kind: "veth".into(),
            hardware_address: "02:00:00:00:00:fe".into(),
            mtu: 65_535,
            up: true,
            carrier: true,
            state: "lower-layer-down".into(),
            master: "cali0123456789a".into(),
            addresses: 12,
            parent: "cali0123456789a".into(),
            vlan_id: 4094,
            bond_mode: "active-backup".into(),
            active_port: "cali0123456789a".into(),
            port_state: "backup".into(),
        }
    }

    fn address() -> AddressStatusSpec {
        let flags = ["temporary", "tentative", "manage-temporary", "no-prefix-route", "permanent"];
        AddressStatusSpec {
            address: format!("{ADDRESS}/128"),
            link: "cali0123456789a".into(),
            family: "ipv6".into(),
            scope: "global".into(),
            flags: flags.map(str::to_owned).into(),
            origin: "router-advertisement".into(),
        }
    }

    fn route() -> RouteStatusSpec {
        RouteStatusSpec {
            destination: format!("{ADDRESS}/128"),
            gateway: ADDRESS.into(),
            link: "cali0123456789a".into(),
            metric: u32::MAX,
            protocol: "router-advertisement".into(),
            r#type: "unreachable".into(),
            family: "ipv6".into(),
            source: ADDRESS.into(),
        }
    }

    fn device() -> DeviceInfoSpec {
        DeviceInfoSpec {
            kind: "disk".into(),
            vendor: "TOSHIBA".into(),
            model: "SAMSUNG MZVL21T0HCLR-00B00".into(),
            serial: "S676NF0R908202".into(),
            wwid: format!("nvme.144d-{}-00000001", "53".repeat(60)),
            drivers: vec!["nvme".into()],
            bytes: 1 << 40,
            transport: "nvme".into(),
            parent: "pci/0000:03:00.0".into(),
            ..DeviceInfoSpec::default()
        }
    }

    /// The device filter of a container.
    fn bpf_program() -> BpfProgramSpec {
        let pod = "pod0a6dd1ac-74c4-2d55-9f2b-7a6dd1ac74c4";
        BpfProgramSpec {
            r#type: "cgroup_device".into(),
            tag: "0a6dd1ac74c42d55".into(),
            since_milliseconds: 61_007,
            translated_bytes: 560,
            jited_bytes: 356,
            target_count: 1,
            targets: vec![format!("cgroup /kubepods/burstable/{pod}/{}", "53".repeat(32))],
            ..BpfProgramSpec::default()
        }
    }

    fn runtime_client() -> RuntimeClientSpec {
        let pod = "pod0a6dd1ac-74c4-2d55-9f2b-7a6dd1ac74c4";
        RuntimeClientSpec {
            pid: 4_194_303,
            program: "/usr/local/bin/node-problem-detector".into(),
            pod: "kube-system/node-problem-detector-0123a".into(),
            cgroup: format!("/kubepods/burstable/{pod}/{}", "53".repeat(32)),
            since_milliseconds: 61_007,
            connections: 2,
            ended: false,
        }
    }

    fn package() -> SbomItemSpec {
        let name = "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc";
        let version = "v0.0.0-20250730193827-2d320260d730";
        SbomItemSpec {
            r#type: "golang".into(),
            name: name.into(),
            version: version.into(),
            components: ["containerd", "kubeadm", "kubelet", "runc"].map(str::to_owned).into(),
            url: format!("pkg:golang/{name}@{version}"),
        }
    }

    #[test]
    fn as_much_as_may_be_observed_has_room_and_leaves_clients_theirs() {
        let publisher = publisher();
        publisher.publish(&link::TYPE, Ok(full(&link::TYPE, &link())));
        publisher.publish(&address::TYPE, Ok(full(&address::TYPE, &address())));
        publisher.publish(&route::TYPE, Ok(full(&route::TYPE, &route())));
        publisher.publish(&device::TYPE, Ok(full(&device::TYPE, &device())));
        let programs = full(&bpf_program::TYPE, &bpf_program());
        publisher.publish(&bpf_program::TYPE, Ok(programs));
        publisher.publish(&sbom_item::TYPE, Ok(full(&sbom_item::TYPE, &package())));
        let clients = full(&runtime_client::TYPE, &runtime_client());
        publisher.publish(&runtime_client::TYPE, Ok(clients));
        let query = Query::default();
        let store = &publisher.store;
        let [bpf, sbom, client] = [&bpf_program::TYPE, &sbom_item::TYPE, &runtime_client::TYPE];
        for one in [&link::TYPE, &address::TYPE, &route::TYPE, &device::TYPE, bpf, sbom, client] {
            let kind = one.kind();
            assert_eq!(store.read(|store| store.list(&kind, &query).count()), one.max_count);
            let found = &publisher.observations.lock().unwrap()[one.names.plural];
            assert_eq!((found.left_out, found.error.as_str()), (1, ""));
        }
        let kind = Kind::new("system", "Things.example").unwrap();
        let create = |id: usize, bytes: usize| {
            let spec = Spec { proto: vec![0; bytes], ..Spec::default() };
            let content = Content::new(Key::new(kind.clone(), &id.to_string()).unwrap(), spec);
            let create =
                |store: &mut Store| store.create(content, Owner::default(), SystemTime::UNIX_EPOCH);
            store.write(&kind, create).map(drop)
        };
        let larges = STORE.bytes / (1 << 20) - 1;
        (0..larges).for_each(|id| create(id, 1 << 20).unwrap());
        let full = (larges..).find_map(|id| create(id, 1 << 19).err());
        assert!(matches!(full, Some(Error::Exhausted(_))), "{full:?}");
        // Clients have taken all that is theirs, and a status still changes.
        let mut changed = Rows::at_most(route::TYPE.max_count);
        changed.insert(0, "eth0".to_owned(), RouteStatusSpec { metric: 7, ..route() });
        publisher.publish(&route::TYPE, Ok(changed));
        let kind = route::TYPE.kind();
        let ids: Vec<_> = store.read(|store| {
            store.list(&kind, &query).map(|one| one.content.key.id().to_owned()).collect()
        });
        assert_eq!(ids, ["eth0"]);
    }

    #[test]
    fn what_cannot_be_observed_any_more_is_gone_with_the_reason() {
        let publisher = publisher();
        let mut rows = Rows::at_most(1);
        rows.insert(0, "eth0".to_owned(), link());
        publisher.publish(&link::TYPE, Ok(rows));
        publisher.publish::<LinkStatusSpec>(&link::TYPE, Err("no answer".to_owned()));
        let yaml = |one: &ObservedType| -> Vec<String> {
            let (kind, query) = (one.kind(), Query::default());
            let yaml = |one: Arc<Resource>| one.content.spec.yaml.clone();
            publisher.store.read(|store| store.list(&kind, &query).map(yaml).collect())
        };
        assert_eq!(yaml(&link::TYPE), [""; 0]);
        assert_eq!(yaml(&observation::TYPE), ["leftOut: 0\nerror: no answer\n"]);
    }

    #[test]
    fn one_that_a_plugin_holds_is_torn_down_and_keeps_no_other_from_changing() {
        let publisher = publisher();
        let rows = |ids: &[&str]| {
            let mut rows = Rows::at_most(9);
            ids.iter().for_each(|id| rows.insert(0, (*id).to_owned(), link()));
            publisher.publish(&link::TYPE, Ok(rows));
        };
        let kind = link::TYPE.kind();
        let key = |id: &str| Key::new(kind.clone(), id).unwrap();
        let get = |id: &str| publisher.store.read(|store| store.get(&key(id)));
        let hold = |finalizers: &[&str]| {
            let found = get("eth0").unwrap();
            let finalizers = finalizers.iter().map(|name| (*name).to_owned()).collect();
            let content = Content { finalizers, ..found.content.clone() };
            let (version, owner) = (Some(found.version), found.owner.clone());
            let expected = Expected { version, owner, phase: None };
            let write = |store: &mut Store| store.update(content, expected, SystemTime::UNIX_EPOCH);
            publisher.store.write_beside(&kind, write).unwrap();
        };
        rows(&["eth0", "eth1"]);
        hold(&["plugin"]);
        rows(&["eth2"]);
        assert_eq!(get("eth0").unwrap().content.phase, Phase::TearingDown);
        assert!(get("eth1").is_err() && get("eth2").is_ok());
        rows(&["eth0", "eth2"]);
        assert_eq!(get("eth0").unwrap().content.phase, Phase::TearingDown);
        hold(&[]);
        rows(&["eth0", "eth2"]);
        rows(&["eth0", "eth2"]);
        assert_eq!(get("eth0").unwrap().content.phase, Phase::Running);
    }

    #[test]
    fn what_is_the_same_is_not_written_again() {
        let publisher = publisher();
        let version = || {
            let mut rows = Rows::at_most(1);
            rows.insert(0, "eth0".to_owned(), link());
            publisher.publish(&link::TYPE, Ok(rows));
            let key = Key::new(link::TYPE.kind(), "eth0").unwrap();
            publisher.store.read(|store| store.get(&key)).unwrap().version.to_string()
        };
        assert_eq!([version(), version()], ["1", "1"]);
    }

    #[test]
    fn the_room_for_what_is_observed_is_small_beside_that_of_clients() {
        let rooms = TYPES.iter().map(|one| one.room().bytes);
        assert!(rooms.sum::<usize>() < STORE.bytes / 8 * 3);
    }
}

//! The files on DATA in which `osd` keeps settings, generations, and who may call.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use osbuild_resources::{Content, Key, Kind, Owner, Spec};
use pod_osd::keeper::{Kept, KeptAccess, encode};
use pod_osd::shared::SharedStore;

use crate::target::{Memory, Outcome, Target};

/// See the module. The same bytes are read as both files. Few bytes are a resource that a message
/// has room for.
pub const TARGET: Target =
    Target { name: "kept", seeds, run, memory: Memory { base: 1 << 20, per_byte: 1024 } };

/// Accepted contents are read again as they were written.
fn run(input: &[u8]) -> Outcome {
    let mut outcome = Outcome::Refused;
    if let Ok(Kept { resources, generations }) = Kept::decode(input) {
        let resources: Vec<_> = resources.into_iter().map(Arc::new).collect();
        let again = Kept::decode(&encode(&resources, &generations)).expect("it was written");
        assert!(again.resources.iter().eq(resources.iter().map(AsRef::as_ref)));
        assert!(again.generations.iter().eq(generations.iter()));
        assert_eq!(again.generations.last(), generations.last());
        outcome = Outcome::Accepted;
    }
    if let Ok(kept) = KeptAccess::decode(input) {
        let again = KeptAccess::decode(&kept.encode()).expect("it was written");
        assert_eq!((again.resources, again.are_lost), (kept.resources, kept.are_lost));
        outcome = Outcome::Accepted;
    }
    outcome
}

fn seeds() -> Vec<Vec<u8>> {
    let store = SharedStore::new().expect("the node has random numbers");
    create(&store, "KernelParameters.osbuild", "{key: vm.swappiness, value: '10'}\n", &[]);
    let secrets = [("password", "correct horse")];
    create(&store, "RegistryCredentials.osbuild", "{registry: a.example, username: b}\n", &secrets);
    store.record_generation("admin \"alice\"");
    create(&store, "Vaults.later", "{name: a}\n", &[("seal", "hunter2")]);
    store.record_generation("local");
    create(&store, "Revocations.osbuild", "user: bob\n", &[]);
    let resources = store.kept_access().iter().map(|one| (**one).clone()).collect();
    let access = KeptAccess { resources, are_lost: true }.encode();
    // Earlier releases have no digest, which is 34 bytes long.
    let unsealed = access[34..].to_vec();
    vec![encode(&store.kept(), &store.generations()), access, unsealed, Vec::new()]
}

fn create(store: &SharedStore, type_name: &str, yaml: &str, secrets: &[(&str, &str)]) {
    let kind = Kind::new("system", type_name).expect("both names are short");
    let mut spec = Spec { proto: vec![8, 1], yaml: yaml.to_owned(), ..Spec::default() };
    secrets.iter().for_each(|(field, value)| spec.secrets.insert(*field, *value));
    let mut content = Content::new(Key::new(kind.clone(), "a").expect("it is short"), spec);
    content.labels.insert("rack".to_owned(), "7".to_owned());
    content.finalizers.insert("other".to_owned());
    let (owner, now) = (Owner("me".to_owned()), UNIX_EPOCH + Duration::from_secs(1_790_000_000));
    store.write(&kind, |store| store.create(content, owner, now)).expect("the store is empty");
}

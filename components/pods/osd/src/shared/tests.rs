//! Tests of the shared store.

use super::*;
use crate::generations::Generation;
use osbuild_resources::{Key, Owner, Spec};

#[test]
fn a_kind_that_nobody_watches_any_more_leaves_nothing_behind() {
    let store = Arc::new(SharedStore::new().unwrap());
    let watch = |name| {
        let target = Target::Kind(Kind::new("system", name).unwrap(), Query::default());
        store.watch(&Caller::local(), target, &Start::Now, false).unwrap().1
    };
    let (first, second, other) = (watch("a"), watch("a"), watch("b"));
    let watched = || store.lock().changed.len();
    drop(first);
    assert_eq!(watched(), 2);
    drop(second);
    assert_eq!(watched(), 1);
    drop(other);
    assert_eq!(watched(), 0);
    assert_eq!(store.watches.available_permits(), MAX_WATCHES);
}

#[test]
fn what_is_tried_is_not_kept_until_it_is_confirmed() {
    let store = SharedStore::new().unwrap();
    let create = |type_name: &str, id: &str| {
        let kind = Kind::new("system", type_name).unwrap();
        let content = Content::new(Key::new(kind.clone(), id).unwrap(), Spec::default());
        let now = SystemTime::now();
        store.write(&kind, |store| store.create(content, Owner::default(), now)).unwrap();
    };
    let kept = || {
        let ids = store.kept().into_iter().map(|one| one.content.key.id().to_owned());
        ids.collect::<Vec<_>>()
    };
    create("Hostnames.osbuild", "first");
    store.begin_try("local");
    assert_eq!(store.last_tried(), None);
    let opened = Instant::now();
    create("Hostnames.osbuild", "second");
    assert!(store.last_tried().unwrap() >= opened);
    create("Things.example", "other");
    assert_eq!(kept(), ["first", "other"]);
    store.begin_try("local");
    assert_eq!(kept(), ["first", "other"], "the try is the same one");
    store.take_back().unwrap();
    assert_eq!((kept(), store.is_trying()), (vec!["first".to_owned(), "other".to_owned()], false));
    store.begin_try("local");
    create("Hostnames.osbuild", "third");
    store.confirm_try(&store.to_confirm()).unwrap();
    assert_eq!(kept(), ["first", "third", "other"]);
    store.take_back().unwrap();
    assert_eq!(kept(), ["first", "third", "other"]);

    store.begin_try("local");
    let to_confirm = store.to_confirm();
    create("Hostnames.osbuild", "while it is confirmed");
    store.confirm_try(&to_confirm).unwrap();
    assert_eq!((kept().len(), store.is_trying()), (3, false), "it is taken back");
}

/// A host name that a finalizer of a plugin holds.
fn held(store: &SharedStore) -> Key {
    let kind = Kind::new("system", "Hostnames.osbuild").unwrap();
    let key = Key::new(kind.clone(), "held").unwrap();
    let (content, now) = (Content::new(key.clone(), Spec::default()), SystemTime::now());
    store.write(&kind, |store| store.create(content, Owner::default(), now)).unwrap();
    let put = |held: &mut Finalizers, store: &mut Store| held.put(store, &key, &plugins());
    store.change_finalizers(&kind, put).unwrap();
    key
}

fn plugins() -> BTreeSet<String> {
    ["plugin".to_owned()].into()
}

fn release_and_destroy(store: &SharedStore, key: &Key) {
    let take = |held: &mut Finalizers, store: &mut Store| held.take(store, key, &plugins());
    store.change_finalizers(key.kind(), take).unwrap();
    store.write(key.kind(), |store| store.destroy(key, &Owner::default())).unwrap();
}

#[test]
fn a_finalizer_released_in_a_try_is_not_kept() {
    let store = SharedStore::new().unwrap();
    let key = held(&store);
    store.begin_try("local");
    release_and_destroy(&store, &key);
    let kept = store.kept();
    assert_eq!((kept.len(), &kept[0].content.key), (1, &key));
    assert!(kept[0].content.finalizers.is_empty());
    store.take_back().unwrap();
    let back = store.read(|store| store.get(&key)).unwrap();
    assert!(back.content.finalizers.is_empty(), "nobody could remove it");
}

#[test]
fn a_generation_has_no_finalizers() {
    let store = SharedStore::new().unwrap();
    let key = held(&store);
    store.record_generation("me");
    release_and_destroy(&store, &key);
    assert!(store.go_back(|settings| settings.len() == 1, |_| false).unwrap());
    let back = store.read(|store| store.get(&key)).unwrap();
    assert!(back.content.finalizers.is_empty());
    let generations = store.generations();
    assert!(generations.get(1).unwrap().settings[0].content.finalizers.is_empty());
}

#[test]
fn a_generation_of_a_later_release_is_restored_without_its_unknown_types() {
    let store = SharedStore::new().unwrap();
    let create = |type_name: &str, id: &str| {
        let kind = Kind::new("system", type_name).unwrap();
        let content = Content::new(Key::new(kind.clone(), id).unwrap(), Spec::default());
        let now = SystemTime::now();
        store.write(&kind, |store| store.create(content, Owner::default(), now)).unwrap()
    };
    let settings = vec![create("Hostnames.osbuild", "name"), create("Vaults.osbuild", "mine")];
    let (time, caller) = (SystemTime::now(), "me".to_owned());
    let generation = Generation { number: 1, time, caller, settings };
    store.restore_generations(Generations::of_earlier(vec![generation], 1));
    store.record_generation("osd");
    assert_eq!(store.generations().last(), 1, "nothing has changed");
    create("Vaults.osbuild", "other");
    create("Motds.osbuild", "node");
    store.record_generation("me");
    let restored = store.restore_generation(PartOf::default(), 1, false, |_| Ok(())).unwrap();
    assert_eq!(restored.iter().map(|one| one.key.id()).collect::<Vec<_>>(), ["node"]);
    let kept = store.kept();
    let ids: Vec<_> = kept.iter().map(|one| one.content.key.id()).collect();
    assert_eq!(ids, ["name", "mine", "other"]);
}

//! The finalizers that plugins have put on the resources of others.

use osbuild_resources::{Error, Expected, Key, Resource, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

/// Finalizers of plugins by the resources that they are on. They do not outlast the process, as the
/// plugins do not either.
#[derive(Debug, Default)]
pub struct Finalizers(BTreeMap<Key, BTreeSet<String>>);

impl Finalizers {
    /// Puts finalizers on a resource.
    pub fn put(
        &mut self,
        store: &mut Store,
        key: &Key,
        finalizers: &BTreeSet<String>,
    ) -> Result<(), Error> {
        change(store, key, |found| found.extend(finalizers.iter().cloned()))?;
        self.0.retain(|key, _| store.get(key).is_ok());
        self.0.entry(key.clone()).or_default().extend(finalizers.iter().cloned());
        Ok(())
    }

    /// Takes finalizers from a resource. One that is gone has none.
    pub fn take(
        &mut self,
        store: &mut Store,
        key: &Key,
        finalizers: &BTreeSet<String>,
    ) -> Result<(), Error> {
        match change(store, key, |found| found.retain(|one| !finalizers.contains(one))) {
            Ok(()) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        if let Some(held) = self.0.get_mut(key) {
            held.retain(|one| !finalizers.contains(one));
            if held.is_empty() {
                self.0.remove(key);
            }
        }
        Ok(())
    }

    /// The resource without them.
    pub fn without(&self, resource: &Arc<Resource>) -> Arc<Resource> {
        let Some(held) = self.0.get(&resource.content.key) else { return Arc::clone(resource) };
        let mut resource = Resource::clone(resource);
        resource.content.finalizers.retain(|one| !held.contains(one));
        Arc::new(resource)
    }
}

/// Changes the finalizers of a resource of any owner, unless they stay the same.
fn change(
    store: &mut Store,
    key: &Key,
    change: impl FnOnce(&mut BTreeSet<String>),
) -> Result<(), Error> {
    let found = store.get(key)?;
    let mut content = found.content.clone();
    change(&mut content.finalizers);
    if content == found.content {
        return Ok(());
    }
    let owner = found.owner.clone();
    let expected = Expected { version: Some(found.version), owner, phase: None };
    store.update(content, expected, SystemTime::now()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::STORE;
    use osbuild_resources::{Content, Cookie, Kind, Owner, Spec};

    #[test]
    fn a_resource_is_copied_only_for_the_finalizers_of_plugins() {
        let kind = Kind::new("system", "Things.example").unwrap();
        let mut store = Store::new(Cookie([0; 8]), STORE);
        for id in ["held", "free"] {
            let mut content = Content::new(Key::new(kind.clone(), id).unwrap(), Spec::default());
            content.finalizers.insert("other".to_owned());
            store.create(content, Owner::default(), SystemTime::UNIX_EPOCH).unwrap();
        }
        let [held, free] = ["held", "free"].map(|id| Key::new(kind.clone(), id).unwrap());
        let mut finalizers = Finalizers::default();
        finalizers.put(&mut store, &held, &BTreeSet::from(["plugin".to_owned()])).unwrap();
        let without = finalizers.without(&store.get(&held).unwrap());
        assert_eq!(without.content.finalizers, BTreeSet::from(["other".to_owned()]));
        let free = store.get(&free).unwrap();
        assert!(Arc::ptr_eq(&finalizers.without(&free), &free));
    }
}

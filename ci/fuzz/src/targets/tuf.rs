//! The metadata of a TUF repository, as updaters and `osbuild verify` read them: with the types of
//! the crate `tough`, and roots with our own.

use std::sync::{Arc, LazyLock};

use osbuild::plan::Date;
use osbuild::produce::sign::{ReleaseKey, ReleaseSigner};
use osbuild::ship::tuf::{Root, sign_root};
use tough::schema::{self, Signed};

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target = Target { name: "tuf", seeds, run, memory: Memory::per_byte(256) };

/// A root of trust, and its successor.
static ROOTS: LazyLock<[Root; 2]> = LazyLock::new(|| {
    let key = || Arc::new(ReleaseKey::generate().expect("a key can be generated"));
    let until = Date { year: 2999, month: 1, day: 1 };
    let (old, new, release) = (key(), key(), key().public());
    let first =
        sign_root(until, &(Arc::clone(&old) as _), release, None).expect("a root can be signed");
    let before = (&first, &(old as Arc<dyn ReleaseSigner>));
    let second =
        sign_root(until, &(new as _), release, Some(before)).expect("a root can be signed");
    [first, second]
});

fn run(input: &[u8]) -> Outcome {
    // The first input makes them; their memory does not count.
    allocation_counter::opt_out(|| _ = LazyLock::force(&ROOTS));
    let [first, second] = &*ROOTS;
    let root = Root::parse(input);
    if let Ok(root) = &root {
        assert!(root.version() > 0);
        let _ = (root.until(), root.release_keys());
    }
    if let Ok(next) = first.next(input) {
        assert_eq!(
            next.release_keys(),
            second.release_keys(),
            "only the old key can sign a successor"
        );
    }
    let others = [
        serde_json::from_slice::<Signed<schema::Timestamp>>(input).is_ok(),
        serde_json::from_slice::<Signed<schema::Snapshot>>(input).is_ok(),
        serde_json::from_slice::<Signed<schema::Targets>>(input).is_ok(),
    ];
    if root.is_ok() || others.contains(&true) { Outcome::Accepted } else { Outcome::Refused }
}

fn seeds() -> Vec<Vec<u8>> {
    let of = |role: &str| {
        let text = format!(
            r#"{{"signed":{{"_type":"{role}","spec_version":"1.0.0","version":3,
                "expires":"2030-01-01T00:00:00Z","meta":{{"targets.json":{{"version":3}}}},
                "targets":{{"a":{{"length":9,"hashes":{{"sha256":"{0}"}}}}}}}},
                "signatures":[{{"keyid":"{0}","sig":"00"}}]}}"#,
            "07".repeat(32)
        );
        text.into_bytes()
    };
    let roots = ROOTS.iter().map(|root| root.bytes.clone());
    roots.chain(["timestamp", "snapshot", "targets"].map(of)).collect()
}

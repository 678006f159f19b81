//! Texts and bookmarks in requests to `osd`, of which a client may send any.

use osbuild_resources::{
    Bookmark, Cookie, IdQuery, Key, Kind, Limits, Number, Phase, Query, Start, Store, Target as Of,
    Version,
};

use crate::target::{Memory, Outcome, Target};

/// See the module. The same text is read as each of them. Classes of Unicode make most of a regular
/// expression's memory, and few bytes name many of them.
pub const TARGET: Target =
    Target { name: "resources", seeds, run, memory: Memory { base: 8 << 20, per_byte: 0 } };

/// A store without any change.
const LIMITS: Limits = Limits { resources: 1, kinds: 1, bytes: 1, history_bytes: 1 };

fn run(input: &[u8]) -> Outcome {
    let kind = Kind::new("system", "Routes.osbuild").expect("both names are short");
    let mine = input.strip_prefix(b"cookie00").and_then(|position| position.try_into().ok());
    let start = Start::Bookmark(Bookmark::from_client(input.to_vec()));
    let watched = Store::new(Cookie(*b"cookie00"), LIMITS).watch(
        Of::Kind(kind.clone(), Query::default()),
        &start,
        false,
    );
    assert_eq!(watched.is_ok(), mine.map(u64::from_be_bytes) == Some(0));
    let Ok(text) = std::str::from_utf8(input) else { return Outcome::Refused };
    if let Ok(Some(version)) = Version::parse(text) {
        assert_eq!(Version::parse(&version.to_string()), Ok(Some(version)));
    }
    if let Ok(phase) = text.parse::<Phase>() {
        assert_eq!(phase.name(), text);
    }
    if let Some(number) = Number::parse(text) {
        assert_eq!(Number::parse(&format!(" {text}\n")), Some(number));
    }
    if let Ok(key) = Key::new(kind, text) {
        assert_eq!(key.id(), text);
    }
    Outcome::of(&IdQuery::new(text))
}

fn seeds() -> Vec<Vec<u8>> {
    let texts =
        [r"^net\.ipv4\.\w+$", "12", "undefined", "tearingDown", "-3 GiB", "[^a-z]{2,9}|b*?"];
    let mut seeds: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).into();
    seeds.push([*b"cookie00", [0; 8]].concat());
    seeds
}

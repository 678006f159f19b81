//! Whether a service runs an action as this machine does. Its input root has to be the whole file
//! system of the action: on a service that runs actions in a folder of the worker, each step would
//! find the compilers of the worker. So the first action of a build looks around, there and here,
//! and the service executes steps only if both see the same.

use crate::engine::action::{Action, InputTree};
use crate::engine::store::Store;
use crate::error::Result;
use std::collections::BTreeMap;

/// The output of a probe.
pub(super) const SEEN: &str = "seen";

/// The upper limit of that output in bytes: a few hundred names.
pub(super) const MAX_SEEN: u64 = 1 << 20;

/// Prints what an action sees, but for what no step may depend on: the host's name, the number of
/// processors, process numbers, limits. It uses the shell's own commands, which each root has, and
/// `ls` for modes.
const SCRIPT: &str = r#"
{
    umask
    export -p
    for name in /* /build/* /build/.* /tmp/* /toolchain/* /usr/* /usr/bin/*; do echo "$name"; done
    ls -ldn /build /build/one /build/folder /build/folder/two /build/home |
        while read -r mode rest; do echo "$mode"; done
    [ one -nt folder/two ] || [ one -ot folder/two ] || echo "equal times"
    while read -r key value rest; do
        case $key in Uid: | Gid: | CapEff:) echo "$key $value" ;; esac
    done </proc/self/status
    while read -r name rest; do echo "network: $name"; done </proc/net/dev
    read -r line </dev/null || echo "an empty /dev/null"
    echo text >/tmp/file && read -r line </tmp/file && echo "$line"
} >seen 2>&1
"#;

/// The action that looks around in the root of `action`.
pub(super) fn probe(store: &Store, action: &Action) -> Result<Action> {
    let mut input = InputTree::new();
    input.add_file("one", store.put_bytes(b"one")?, false)?;
    input.add_file("folder/two", store.put_bytes(b"two")?, true)?;
    Ok(Action {
        name: "probe of workers".to_owned(),
        argv: ["/usr/bin/sh", "-c", SCRIPT].map(str::to_owned).to_vec(),
        env: BTreeMap::new(),
        input,
        outputs: vec![SEEN.to_owned()],
        root: action.root.clone(),
        toolchains: Vec::new(),
    })
}

/// The first line in which two outputs of a probe differ: the one there, and the one here. `None`
/// if they are equal.
pub(super) fn difference(there: &[u8], here: &[u8]) -> Option<(String, String)> {
    let line = |line: Option<&[u8]>| {
        let text = String::from_utf8_lossy(line.unwrap_or(b"nothing")).into_owned();
        text.chars().filter(|letter| !letter.is_control()).take(100).collect::<String>()
    };
    let mut lines = (there.split(|byte| *byte == b'\n'), here.split(|byte| *byte == b'\n'));
    loop {
        match (lines.0.next(), lines.1.next()) {
            (None, None) => return None,
            (there, here) if there != here => return Some((line(there), line(here))),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_other_line_is_named() {
        assert_eq!(difference(b"a\nb\n", b"a\nb\n"), None);
        let pair = |one: &str, other: &str| Some((one.to_owned(), other.to_owned()));
        assert_eq!(difference(b"a\nc\x07\nd\n", b"a\nb\ne\n"), pair("c", "b"));
        assert_eq!(difference(b"a", b"a\nb"), pair("nothing", "b"));
    }
}

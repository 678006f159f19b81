//! Messages and hints as a new user meets them: what they name exists, and mistakes are named.

use crate::diff::uki;
use crate::keys::keys;
use crate::scratch::RECIPE;
use crate::workshop::open;
use std::fs;

#[test]
fn keys_that_do_not_exist_are_named_by_every_verb() {
    let scratch = open();
    fs::write(scratch.project().join("node.toml"), "").unwrap();
    fs::create_dir(scratch.project().join("folder")).unwrap();
    for words in [
        &["keys", "show", "nix"][..],
        &["keys", "issue", "nix", "a", "--role", "reader"],
        &["keys", "rotate", "nix"],
        &["keys", "rotate", "nix", "--role", "release"],
        &["keys", "rotate", "nix", "--role", "root"],
        &["keys", "rotate", "nix", "--role", "api"],
        &["keys", "revoke", "nix", "--uki", "node.toml"],
        &["keys", "enroll", "nix"],
        &["node", "sign", "node.toml", "--key", "nix"],
        &["results", "export", RECIPE, "--to", "results", "--key", "nix"],
        &["results", "import", "folder", "--key", "nix"],
        &["verify", "node.toml", "--key", "nix"],
        &["sign", RECIPE, "--attach", "folder", "--key", "nix"],
        &["build", RECIPE, "--key", "nix"],
        &["release", RECIPE, "--key", "nix"],
    ] {
        let ran = scratch.osbuild(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("error: there are no keys `nix`\n"), "{}", ran.stderr);
        assert!(ran.stderr.ends_with("\nhint: cargo osbuild keys new nix\n"), "{}", ran.stderr);
        assert!(!keys(&scratch, "nix").exists(), "{words:?}");
    }
}

//! Messages and hints as a new user meets them: what they name exists, and mistakes are named.

use crate::builds::done;
use crate::diff::{NEW, OLD, disk, uki};
use crate::keys::keys;
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::open;
use osbuild_slots::State;
use std::fs;

/// The options that hints of this output name alone, without a command that has them.
fn options_in_hints(ran: &Ran) -> Vec<&str> {
    let hints = ran.stderr.lines().filter_map(|line| line.strip_prefix("hint: "));
    let code = hints.flat_map(|hint| hint.split('`').skip(1).step_by(2));
    let options = code.filter(|code| code.starts_with("--"));
    options.filter_map(|option| option.split([' ', '=']).next()).collect()
}

#[test]
fn no_hint_names_an_option_that_the_verb_lacks() {
    let scratch = open();
    scratch.fill_store(|_| false);
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["keys", "new", "other"]));
    fs::remove_file(keys(&scratch, "mine").join("release.key")).unwrap();
    fs::write(scratch.project().join("node.toml"), "").unwrap();
    for (verb, arguments) in [
        (&["node", "sign"][..], &["node.toml", "--key", "mine"][..]),
        (&["results", "export"], &[RECIPE, "--to", "results", "--key", "mine"]),
        (&["results", "export"], &[RECIPE, "--to", "results", "--key", "other", "--offline"]),
        (&["sources", "export"], &[RECIPE, "sources", "--offline"]),
        (&["build"], &[RECIPE, "--unsigned", "--offline"]),
        (&["release"], &[RECIPE, "--key", "mine"]),
    ] {
        let ran = scratch.osbuild(&[verb, arguments].concat());
        assert!(ran.code != Some(0) && ran.stderr.contains("\nhint: "), "{verb:?}: {ran:?}");
        let help = scratch.osbuild(&[verb, &["--help"]].concat()).stdout;
        for option in options_in_hints(&ran) {
            let is_there = help.split_whitespace().any(|word| word == option);
            assert!(is_there, "{verb:?} has no {option}: {}", ran.stderr);
        }
    }
    let ran = scratch.osbuild(&["release", RECIPE, "--key", "mine"]);
    assert_eq!(options_in_hints(&ran), ["--attach"], "{}", ran.stderr);
}

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

/// Asserts that the command is refused, and that the problem, without the usage that follows it,
/// names both alternatives.
#[track_caller]
fn lacks_one_of(words: &[&str], both: [&str; 2]) {
    let ran = Scratch::new().osbuild(words);
    assert_eq!(ran.code, Some(2), "{words:?}: {}", ran.stderr);
    let problem = ran.stderr.split("Usage:").next().unwrap();
    assert!(both.iter().all(|one| problem.contains(one)), "{words:?}: {problem}");
}

#[test]
fn revoke_without_an_argument_names_both() {
    lacks_one_of(&["keys", "revoke", "mine"], ["--uki", "--certificate"]);
}

#[test]
fn a_missing_argument_is_named_with_its_alternative() {
    lacks_one_of(&["results", "import", "folder"], ["--key", "--root"]);
    for verb in ["build", "lock", "summary"] {
        lacks_one_of(&[verb], ["RECIPE", "--all"]);
    }
}

#[test]
fn a_project_without_keys_has_a_note_and_no_line() {
    let scratch = Scratch::new();
    let ran = scratch.osbuild(&["keys", "show"]);
    done(&ran);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("there are no keys: `cargo osbuild keys new NAME`"), "{ran:?}");
    let json = scratch.osbuild(&["keys", "show", "--json"]);
    assert_eq!(json.stdout, "{\"keys\":[]}\n");
}

#[test]
fn a_step_that_is_taken_for_a_recipe_is_shown_with_its_equals_sign() {
    let ran = Scratch::new().osbuild(&["build", RECIPE, "--rebuild", "kernel"]);
    assert_eq!(ran.code, Some(2));
    let end = "\nhint: cargo osbuild build small --rebuild=kernel\n";
    assert!(ran.stderr.ends_with(end), "{}", ran.stderr);
}

#[test]
fn a_truncated_file_is_named_with_what_is_wrong() {
    let scratch = Scratch::new();
    let cut = |name: &str, bytes: Vec<u8>| {
        fs::write(scratch.project().join(name), &bytes[..bytes.len() / 2]).unwrap();
        scratch.osbuild(&["inspect", name])
    };
    let ran = cut("node.efi", uki(&OLD));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("`node.efi`"), "{}", ran.stderr);
    let state = State { priority: 1, tries: 15, successful: false };
    let ran = cut("image.raw", disk(&NEW, state));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""), "{}", ran.stderr);
    let hint = "\nhint: the end of the image is missing: copy, download or build it again\n";
    assert!(ran.stderr.contains("`image.raw`") && ran.stderr.ends_with(hint), "{}", ran.stderr);
}

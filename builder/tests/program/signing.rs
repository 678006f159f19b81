//! Signed builds as a user meets them, and that private keys do not leak.

use crate::builds::done;
use crate::keys::{keys, tool};
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::{open, products};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild_formats::pe;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn uki(scratch: &Scratch) -> PathBuf {
    scratch.project().join("out").join(RECIPE).join("node.efi")
}

#[test]
fn the_first_signed_build_makes_keys_marked_for_development() {
    let scratch = open();
    let ran = scratch.osbuild(&["build", RECIPE, "--key", "dev"]);
    done(&ran);
    assert!(ran.stderr.lines().any(|line| line.starts_with("keys dev ")), "{}", ran.stderr);
    assert!(
        ran.stderr.lines().any(|line| line.starts_with("signature ") && line.contains("dev db")),
        "{}",
        ran.stderr
    );
    let folder = keys(&scratch, "dev");
    let subject =
        tool(&folder, "openssl", &["openssl", "x509", "-noout", "-subject", "-in", "db.crt"]);
    assert!(
        subject.contains("OU = development only") && subject.contains("CN = dev db"),
        "{subject}"
    );
    let image = uki(&scratch).display().to_string();
    tool(&folder, "sbsigntool", &["sbverify", "--cert", "db.crt", &image]);
    let again = scratch.osbuild(&["build", RECIPE, "--key", "dev"]);
    assert!(again.stderr.contains("was up to date"), "{}", again.stderr);
}

#[test]
fn two_first_builds_at_once_make_one_set_of_keys() {
    let scratch = open();
    let build = || scratch.command(&[], &["build", RECIPE, "--key", "dev"]).spawn().unwrap();
    let both = [build(), build()];
    for mut build in both {
        assert!(build.wait().unwrap().success());
    }
    let image = uki(&scratch).display().to_string();
    tool(&keys(&scratch, "dev"), "sbsigntool", &["sbverify", "--cert", "db.crt", &image]);
}

#[test]
fn the_plan_of_a_build_names_its_certificate() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE, "--key", "dev"]));
    let shown = scratch.osbuild(&["keys", "show", "dev", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let db =
        json["keys"].as_array().unwrap().iter().find(|key| key["role"] == "db").unwrap().clone();
    let plan: toml::Table = scratch.read(&format!("out/{RECIPE}/plan.toml")).parse().unwrap();
    let sha256 = db["sha256"].as_str().unwrap();
    assert_eq!(plan["signing"]["certificate"].as_str().unwrap(), format!("sha256:{sha256}"));
    assert_eq!(
        (plan["signing"]["key"].as_str(), plan["signing"]["signer"].as_str()),
        (Some("dev"), Some("dev db"))
    );
    assert_eq!(plan["signing"]["until"].to_string(), db["until"].as_str().unwrap());
}

#[test]
fn a_second_signed_build_is_identical() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE, "--key", "dev"]));
    let before = products(&scratch);
    fs::remove_dir_all(scratch.project().join("out")).unwrap();
    done(&scratch.osbuild(&["build", RECIPE, "--key", "dev"]));
    assert_eq!(products(&scratch), before);
}

#[test]
fn the_command_line_overrides_the_recipes_keys() {
    let scratch = open();
    let recipe = format!("{}\n[signing]\nkey = \"mine\"\n", scratch.read("recipes/small.toml"));
    fs::write(scratch.project().join("recipes/small.toml"), recipe).unwrap();
    let ran = scratch.osbuild(&["build", RECIPE]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("error: there are no keys `mine`\n"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("hint: cargo osbuild keys new mine\n"), "{}", ran.stderr);
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["build", RECIPE]));
    let mut signed = fs::read(uki(&scratch)).unwrap();
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    let unsigned = fs::read(uki(&scratch)).unwrap();
    assert!(pe::certificates(&unsigned).unwrap().is_empty() && unsigned != signed);
    pe::detach(&mut signed).unwrap();
    assert!(signed == unsigned, "the signature is not all that was added");
    assert!(!scratch.read(&format!("out/{RECIPE}/plan.toml")).contains("[signing]"));
    let both = scratch.osbuild(&["build", RECIPE, "--unsigned", "--key", "dev"]);
    assert_eq!(both.code, Some(2), "{}", both.stderr);
}

#[test]
fn expired_keys_are_marked_and_do_not_sign() {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "old", "--as-of", "2015-01-01", "--years", "1"]));
    let shown = scratch.osbuild(&["keys", "show"]);
    assert_eq!(shown.stdout.matches("EXPIRED on 2016-01-01").count(), 5, "{}", shown.stdout);
    let ran = scratch.osbuild(&["build", RECIPE, "--key", "old"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.starts_with("error: the certificate of the keys `old` has expired\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn keys_that_are_not_valid_yet_do_not_sign() {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "early", "--as-of", "2099-01-01", "--years", "1"]));
    let ran = scratch.osbuild(&["build", RECIPE, "--key", "early"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.starts_with(
            "error: the certificate of the keys `early` is not valid yet\n  caused by: its first \
             day is 2099-01-01\n"
        ),
        "{}",
        ran.stderr
    );
}

/// Pieces of a private key's secret half that must not leak, as bytes and as text.
fn secrets(pem: &str) -> Vec<Vec<u8>> {
    let lines: Vec<&str> = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(lines.concat()).unwrap();
    // An RSA key begins with the public half, which is also in the certificate.
    let public = if der.len() > 100 { 336 } else { 16 };
    let bytes = der[public..].chunks_exact(24).map(<[u8]>::to_vec);
    let text = STANDARD.encode(&der).into_bytes();
    let text = text[public.div_ceil(48) * 64..]
        .chunks(64)
        .chain([&text[text.len() - 32..]])
        .map(<[u8]>::to_vec);
    bytes.chain(text).filter(|secret| secret.len() >= 24).step_by(3).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files(&entry.path(), found),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

#[test]
fn a_private_key_is_in_its_file_only() {
    let scratch = open();
    let mut printed = Vec::new();
    let mut run = |args: &[&str]| {
        let ran: Ran = scratch.osbuild(args);
        printed.push((format!("{args:?}"), [ran.stdout, ran.stderr].concat().into_bytes()));
    };
    run(&["build", RECIPE, "--key", "dev", "-v"]);
    run(&["release", RECIPE, "--allow-dev-key", "--key", "dev", "-v"]);
    run(&["keys", "show", "--json"]);
    run(&["keys", "enroll", "dev", "--vars", "/usr/share/OVMF/OVMF_VARS_4M.fd"]);
    run(&["inspect", &format!("out/{RECIPE}/image.raw")]);
    let folder = keys(&scratch, "dev");
    let private =
        ["PK.key", "KEK.key", "db.key", "release.key", "root.key"].map(|name| folder.join(name));
    let secrets: Vec<Vec<u8>> =
        private.iter().flat_map(|path| secrets(&fs::read_to_string(path).unwrap())).collect();
    assert!(secrets.len() > 50);
    // An error about a damaged key, or one that does not belong to the certificate, does not quote
    // it.
    let good = fs::read_to_string(&private[2]).unwrap();
    for bad in [
        good.replace("PRIVATE KEY", "SECRET KEY"),
        good.replacen("MI", "AA", 1),
        fs::read_to_string(&private[0]).unwrap(),
    ] {
        fs::write(&private[2], bad).unwrap();
        run(&["build", RECIPE, "--key", "dev", "-v"]);
    }
    let mut found = Vec::new();
    files(&scratch.path(""), &mut found);
    assert!(
        found.iter().any(|file| file.ends_with("image.raw"))
            && found.iter().any(|file| file.starts_with(scratch.path("cache")))
    );
    let kept = found
        .into_iter()
        .filter(|file| !private.contains(file))
        .map(|file| (file.display().to_string(), fs::read(file).unwrap()));
    for (place, bytes) in kept.chain(printed) {
        let found = secrets.iter().find(|secret| memchr::memmem::find(&bytes, secret).is_some());
        assert!(found.is_none(), "{place} has a part of a private key");
    }
}

#[test]
fn a_key_readable_by_others_or_owned_by_another_user_is_refused() {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    let folder = keys(&scratch, "mine");
    let key = folder.join("db.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let ran = scratch.osbuild(&["build", RECIPE, "--key", "mine"]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains("can be read by other users\n"),
        "{}",
        ran.stderr
    );
    fs::copy(folder.join("PK.key"), &key).unwrap();
    let ran = scratch.osbuild(&["build", RECIPE, "--key", "mine"]);
    assert!(
        ran.code == Some(1)
            && ran.stderr.starts_with("error: the certificate is for another key\n"),
        "{}",
        ran.stderr
    );
}

//! The Debian mirrors of the host's apt: the real `apt-get` verifies their packages with the host's
//! options.

use crate::archive::Archive;
use crate::scratch::{RECIPE, Ran, Scratch};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A project on a host whose apt has only this entry and no trusted keys. `@` is the archive's
/// folder, `%` that of the keys, and `!` an inline key.
fn host(file: &str, entry: &str) -> Scratch {
    let mut scratch = Scratch::new();
    let archive = Archive::serve(&mut scratch);
    archive.publish(&[("ca-certificates", "1", "")]);
    archive.hold("ca-certificates", "1", b"ca-certificates 1");
    let [parts, keys] = ["parts", "keys"].map(|name| scratch.path(name));
    fs::create_dir(&parts).unwrap();
    sign(&scratch.path("archive"), &keys);
    let armored = fs::read_to_string(keys.join("armored")).unwrap();
    let inline = armored
        .lines()
        .map(|line| if line.is_empty() { " .".to_owned() } else { format!(" {line}") });
    let entry = entry.replace('!', &inline.collect::<Vec<_>>().join("\n"));
    let entry = entry
        .replace('@', &scratch.path("archive").display().to_string())
        .replace('%', &keys.display().to_string());
    fs::write(parts.join(file), entry).unwrap();
    let config = format!(
        "Dir::Etc::sourcelist \"/dev/null\";\nDir::Etc::sourceparts \"{}\";\n",
        parts.display()
    );
    fs::write(scratch.path("apt.conf"), config).unwrap();
    scratch
}

/// Fetches a package on such a host.
fn build(file: &str, entry: &str) -> Ran {
    let scratch = host(file, entry);
    scratch.fill_store_without("ca-certificates");
    scratch.osbuild(&["sources", "export", RECIPE, "exported"])
}

/// Signs each suite with a new key, and writes its public half to `keys`, beside that of another
/// key.
fn sign(archive: &Path, keys: &Path) {
    let home = keys.join("home");
    fs::create_dir_all(&home).unwrap();
    let gpg = |words: &[&str]| {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(&home).args([
            "--batch",
            "--quiet",
            "--no-permission-warning",
            "--passphrase",
            "",
        ]);
        let output = command.args(["--pinentry-mode", "loopback"]).args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let at = |name: &str| keys.join(name).display().to_string();
    for name in ["right", "other"] {
        gpg(&["--quick-generate-key", name, "ed25519", "sign", "never"]);
        gpg(&["--output", &at(&format!("{name}.gpg")), "--export", name]);
    }
    gpg(&["--armor", "--output", &at("armored"), "--export", "right"]);
    for suite in ["bookworm", "bookworm-backports"] {
        let folder = archive.join("dists").join(suite);
        let [to, from] =
            ["InRelease", "Release"].map(|name| folder.join(name).display().to_string());
        gpg(&["--local-user", "right", "--output", &to, "--clearsign", &from]);
    }
    let _ =
        Command::new("gpgconf").arg("--homedir").arg(&home).args(["--kill", "gpg-agent"]).status();
}

const STANZA: &str = "Types: deb\nURIs: file:@\nSuites: bookworm\nComponents: main\n";

#[test]
fn a_mirror_is_verified_with_the_hosts_key_for_it() {
    for (file, entry) in [
        ("a.list", "deb [signed-by=%/right.gpg] file:@ bookworm main\n".to_owned()),
        ("a.sources", format!("{STANZA}Signed-By: %/right.gpg\n")),
        ("a.sources", format!("{STANZA}Signed-By:\n!\n")),
        ("a.list", "deb [trusted=yes] file:@ bookworm main\n".to_owned()),
        (
            "a.sources",
            format!(
                "# one\n\n{}Trusted: yes\n",
                STANZA.replace("bookworm", "trixie trixie-backports")
            ),
        ),
    ] {
        let ran = build(file, &entry);
        // apt has fetched and verified the package, but its bytes differ from those in the
        // project's lock.
        let expected = ["packages arm64 ", "ca-certificates 1 arm64 does not match the lock"];
        assert!(
            ran.code == Some(4) && expected.iter().all(|part| ran.stderr.contains(part)),
            "{entry}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_default_release_of_the_host_does_not_matter() {
    let scratch = host("a.sources", &format!("{STANZA}Trusted: yes\n"));
    let config = scratch.path("apt.conf");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(config, text + "APT::Default-Release \"trixie\";\n").unwrap();
    scratch.fill_store_without("ca-certificates");
    let ran = scratch.osbuild(&["sources", "export", RECIPE, "exported"]);
    let fetched = "error: ca-certificates 1 arm64 does not match the lock\n";
    assert!(ran.code == Some(4) && ran.stderr.contains(fetched), "{}", ran.stderr);
}

#[test]
fn a_mirror_signed_with_another_key_is_refused() {
    for entry in [format!("{STANZA}Signed-By: %/other.gpg\n"), STANZA.to_owned()] {
        let ran = build("a.sources", &entry);
        assert!(
            ran.code == Some(1)
                && ran.stderr.contains("is not signed")
                && ran.stderr.contains("NO_PUBKEY"),
            "{entry}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_host_without_a_debian_mirror_gets_a_hint_to_add_one() {
    let ran = build("a.sources", &STANZA.replace("bookworm", "noble"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("error: the host's apt has no Debian mirror\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: builder/docs/hosts.md shows how"), "{}", ran.stderr);
}

#[test]
fn doctor_says_whether_the_host_has_a_mirror_and_a_c_compiler() {
    let row = |entry: &str, name: &str| {
        let shown = host("a.sources", entry).osbuild(&["doctor"]).stdout;
        let (_, rest) = shown.split_once(&format!(" {name} ")).unwrap_or_else(|| panic!("{shown}"));
        let word = shown[..shown.len() - rest.len()].lines().last().unwrap();
        (word.split(' ').next().unwrap().to_owned(), rest.to_owned())
    };
    assert_eq!(row(STANZA, "Debian mirror").0, "ok");
    assert_eq!(row(STANZA, "cc").0, "ok");
    let (word, rest) = row(&STANZA.replace("bookworm", "noble"), "Debian mirror");
    assert_eq!(word, "fails");
    let lines: Vec<&str> = rest.lines().skip(1).take(3).collect();
    assert_eq!(lines[0], "  the host's apt has no Debian mirror");
    assert!(lines[2].starts_with("  hint: builder/docs/hosts.md shows how"), "{rest}");
}

//! A release that is signed on a machine without a network, by openssl.

use crate::builds::done;
use crate::keys::{keys, tool};
use crate::releases::{files, folder, release, released};
use crate::scratch::RECIPE;
use std::fs;
use std::path::{Path, PathBuf};

/// Signs each file of `to_sign` with openssl, as on a machine without a network, and returns their
/// number.
fn sign_offline(safe: &Path, to_sign: &Path, signatures: &Path) -> usize {
    let Ok(left) = fs::read_dir(to_sign) else { return 0 };
    let left: Vec<PathBuf> = left.map(|entry| entry.unwrap().path()).collect();
    for path in &left {
        let (name, message) =
            (path.file_name().unwrap().to_str().unwrap(), path.display().to_string());
        let out = signatures.join(format!("{name}.sig")).display().to_string();
        let (key, options): (_, &[&str]) = match path.extension().unwrap().to_str() {
            Some("sha256") => ("db.key", &["-pkeyopt", "digest:sha256"]),
            _ => ("release.key", &["-rawin"]),
        };
        let words = [
            &["openssl", "pkeyutl", "-sign", "-inkey", key, "-in", &message, "-out", &out],
            options,
        ]
        .concat();
        tool(safe, "openssl", &words);
    }
    left.len()
}

#[test]
fn a_release_is_signed_offline_in_rounds() {
    let scratch = released();
    let with_keys = files(&folder(&scratch));
    fs::remove_dir_all(scratch.project().join("out")).unwrap();
    let (safe, signatures) = (scratch.path("safe"), scratch.path("signatures"));
    [&safe, &signatures].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    for name in ["db.key", "release.key", "root.key"] {
        fs::rename(keys(&scratch, "mine").join(name), safe.join(name)).unwrap();
    }
    let absent = release(&scratch, &[]);
    assert!(absent.code == Some(1) && absent.stderr.contains("--unsigned"), "{}", absent.stderr);
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    let out = scratch.project().join("out").join(RECIPE);
    assert_eq!(sign_offline(&safe, &out.join("to-sign"), &signatures), 3);
    let attach = ["--attach", signatures.to_str().unwrap()];
    for left in [1, 3] {
        let ran = release(&scratch, &attach);
        assert!(
            ran.code == Some(4) && ran.stderr.contains(" has to be signed in another round\n"),
            "{}",
            ran.stderr
        );
        assert!(!folder(&scratch).join("metadata").exists());
        assert_eq!(
            sign_offline(&safe, &out.join("release-to-sign"), &signatures),
            left,
            "{}",
            ran.stderr
        );
    }
    done(&release(&scratch, &attach));
    assert!(files(&folder(&scratch)) == with_keys);
}

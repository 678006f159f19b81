//! The certificates of authorities that sign those of a private registry, where the clients of
//! containers keep them (containers-certs.d(5)).

use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use oci_client::client::{Certificate, CertificateEncoding};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The end of a certificate in PEM.
const END: &str = "-----END CERTIFICATE-----";

/// The folders of this machine, which all of its users share.
const SHARED: [&str; 2] = ["/etc/containers/certs.d", "/etc/docker/certs.d"];

/// The folders with a folder for each registry, from the values of `XDG_CONFIG_HOME` and `HOME`:
/// the user's before those of the machine.
pub fn folders(config_home: Option<OsString>, home: Option<OsString>) -> Vec<PathBuf> {
    let set = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    let own = set(config_home).or_else(|| Some(set(home)?.join(".config")));
    let own = own.map(|config| config.join("containers/certs.d"));
    own.into_iter().chain(SHARED.map(PathBuf::from)).collect()
}

/// The certificates in the files `*.crt` of the first folder that has one for `registry`, which is
/// its host with its port. They count besides those of the machine.
///
/// # Errors
/// A file cannot be read, or has no certificate in PEM.
pub fn find(folders: &[PathBuf], registry: &str) -> Result<Vec<Certificate>> {
    match folders.iter().map(|folder| folder.join(registry)).find(|folder| folder.is_dir()) {
        Some(folder) => of_folder(&folder),
        None => Ok(Vec::new()),
    }
}

fn of_folder(folder: &Path) -> Result<Vec<Certificate>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).at("read", folder)? {
        let path = entry.at("read", folder)?.path();
        files.extend(path.extension().is_some_and(|end| end == "crt").then_some(path));
    }
    files.sort();
    let mut found = Vec::new();
    for path in files {
        let text = fs::read(&path).at("read", &path).map_err(Error::of_usage)?;
        let certificates = certificates(&String::from_utf8_lossy(&text));
        if certificates.is_empty() {
            let error = Error::usage(format!("`{}` has no certificate in PEM", path.display()));
            return Err(error.cause("it is for connections to a registry"));
        }
        found.extend(certificates);
    }
    Ok(found)
}

/// Each certificate of a text in PEM.
fn certificates(text: &str) -> Vec<Certificate> {
    let whole = |part: &&str| part.trim_end().ends_with(END);
    let one = |part: &str| Certificate {
        encoding: CertificateEncoding::Pem,
        data: part.as_bytes().to_vec(),
    };
    text.split_inclusive(END).filter(whole).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(name: &str) -> String {
        rcgen::generate_simple_self_signed([name.to_owned()]).unwrap().cert.pem()
    }

    #[test]
    fn the_users_folder_is_before_those_of_the_machine() {
        let home = || Some(OsString::from("/users/one"));
        assert_eq!(folders(None, home())[0], Path::new("/users/one/.config/containers/certs.d"));
        let config = Some(OsString::from("/config"));
        assert_eq!(folders(config, home())[0], Path::new("/config/containers/certs.d"));
        let relative = Some(OsString::from("config"));
        assert_eq!(folders(relative, None), SHARED.map(PathBuf::from));
    }

    #[test]
    fn every_certificate_of_every_file_counts_for_its_registry_alone() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("registry.example:5000");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("a.crt"), pem("a") + "# another one\n" + &pem("b")).unwrap();
        fs::write(own.join("c.crt"), pem("c")).unwrap();
        fs::write(own.join("client.cert"), "something else").unwrap();
        let folders = [folder.path().to_owned()];
        assert_eq!(find(&folders, "registry.example:5000").unwrap().len(), 3);
        assert_eq!(find(&folders, "registry.example").unwrap().len(), 0);
    }

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("registry.example");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("ca.crt"), "der").unwrap();
        let error = find(&[folder.path().to_owned()], "registry.example").unwrap_err();
        assert!(error.to_string().contains("ca.crt` has no certificate in PEM"), "{error}");
    }
}

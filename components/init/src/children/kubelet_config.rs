//! `init kubelet-config` reads what others have written for the kubelet, so that PID 1 does not
//! have to: it leaves the name in the kubelet's client certificate in [`CERTIFIED_NAME`], and the
//! kubelet's configuration in [`STANDALONE`] and [`JOINED`]. What it cannot read it says, and goes
//! on without: the kubelet says the same when it starts.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use osbuild_abi::paths::{CLIENT_CA, KUBECONFIG, KUBELET_CONFIG, KUBELET_CONFIG_DIR};
use osbuild_failure::{Explain, Failure, Outcome};
use rustix::fs::OFlags;
use x509_cert::Certificate;
use x509_cert::der::DecodePem;
use x509_cert::der::oid::ObjectIdentifier;

use super::kubeconfig::Kubeconfig;
use super::kubelet_settings::Settings;
use crate::kubelet_config::{CERTIFIED_NAME, JOINED, STANDALONE};
use crate::{memory, name, node_name, run_files};

/// The certificate that the kubelet has got from its cluster, with its key. It counts before the
/// one in the kubeconfig.
const ROTATED: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
/// What the common name of a node's certificate starts with.
const NODE_USER: &str = "system:node:";
/// The attribute `commonName` (RFC 5280, appendix A.1).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// The largest file that is read, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Reads everything and leaves what was found.
pub fn write() -> Outcome {
    let name =
        certified_name(Path::new(ROTATED), Path::new(KUBECONFIG)).unwrap_or_else(|failure| {
            println!("{failure}");
            None
        });
    run_files::write(CERTIFIED_NAME, &name.unwrap_or_default())?;
    let settings = Settings::read(Path::new(KUBELET_CONFIG), Path::new(KUBELET_CONFIG_DIR))?;
    settings.weakened(node_name::has_credentials()).iter().for_each(|line| println!("{line}"));
    let memory = memory::total_mib();
    let client_ca = Path::new(CLIENT_CA).is_file().then_some(CLIENT_CA);
    for (path, config) in
        [(STANDALONE, settings.standalone(memory)), (JOINED, settings.joined(memory, client_ca))]
    {
        run_files::write(path, &config.to_string())?;
    }
    Ok(())
}

/// The name of the node in the certificate that the kubelet is going to use.
fn certified_name(rotated: &Path, kubeconfig: &Path) -> Outcome<Option<String>> {
    if let Some(pem) = read(rotated)? {
        return node_of(&pem).explain(format_args!("read {}", rotated.display()));
    }
    let Some(config) = Kubeconfig::read(kubeconfig)? else { return Ok(None) };
    let read = || format!("read the client certificate of {}", kubeconfig.display());
    config
        .client_certificate()
        .and_then(|pem| pem.map_or(Ok(None), |pem| node_of(&pem)))
        .explain(read())
}

/// The node that the first certificate of a PEM file is for.
fn node_of(pem: &str) -> Outcome<Option<String>> {
    const END: &str = "-----END CERTIFICATE-----";
    let block = pem.find("-----BEGIN CERTIFICATE-----").and_then(|start| {
        let end = pem[start..].find(END)?;
        Some(&pem[start..start + end + END.len()])
    });
    let certificate =
        Certificate::from_pem(block.ok_or_else(|| Failure::new("it has no certificate"))?)
            .explain("decode it")?;
    let attributes = certificate.tbs_certificate.subject.0.iter().flat_map(|set| set.0.iter());
    let names = attributes
        .filter(|one| one.oid == COMMON_NAME)
        .filter_map(|one| std::str::from_utf8(one.value.value()).ok());
    Ok(names.filter_map(|one| one.strip_prefix(NODE_USER)).find_map(|node| name::check(node).ok()))
}

/// The text of a regular file, if it is there.
pub fn read(path: &Path) -> Outcome<Option<String>> {
    let what = || format!("read {}", path.display());
    let about = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        about => about.explain(what())?,
    };
    if !about.is_file() {
        return Err(Failure::new(format!("{} is not a file", path.display())));
    }
    // Should it be something else by now, opening must not wait for anybody.
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .explain(what())?;
    let mut text = String::new();
    file.take(MAX_SIZE).read_to_string(&mut text).explain(what())?;
    Ok(Some(text))
}

/// The first line of an error that has several.
pub fn first_line(error: &str) -> Failure {
    Failure::new(error.lines().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use tempfile::TempDir;

    /// For `O = system:nodes, CN = system:node:edge-7`, made with openssl.
    const EDGE_7: &str = "-----BEGIN CERTIFICATE-----
MIIBvTCCAWOgAwIBAgIUJ671S0HO5L3bnzJALjhvTN058DgwCgYIKoZIzj0EAwIw
NDEVMBMGA1UECgwMc3lzdGVtOm5vZGVzMRswGQYDVQQDDBJzeXN0ZW06bm9kZTpl
ZGdlLTcwHhcNMjYxMTIzMjEyMTM2WhcNMjYxMTI0MjEyMTM2WjA0MRUwEwYDVQQK
DAxzeXN0ZW06bm9kZXMxGzAZBgNVBAMMEnN5c3RlbTpub2RlOmVkZ2UtNzBZMBMG
ByqGSM49AgEGCCqGSM49AwEHA0IABFomLxsb+3uweQe+q5Jn0GLM3TiVUdZ3psHm
PGfYXQBVhDq+w3fobL4SiOExK9NLD6EOyeahohlpesWmRy0nOhmjUzBRMB0GA1Ud
DgQWBBSLDwzTMbBoXFQ2SOyYUI0wTNm/PTAfBgNVHSMEGDAWgBSLDwzTMbBoXFQ2
SOyYUI0wTNm/PTAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIGd5
mOJyCwpSeKk/xIytDzwLMQJNsDVH0QoGCib+eZGtAiEAhGJvo/NFOUG/vB//appF
JFqCckZ8CIyktxJc1LYP8oM=
-----END CERTIFICATE-----
";

    /// The folder of a node's kubeconfig and certificates.
    struct Files(TempDir);

    impl Files {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = Files(tempfile::tempdir().unwrap());
            files
                .iter()
                .for_each(|(name, text)| fs::write(folder.0.path().join(name), text).unwrap());
            folder
        }

        fn name(&self) -> Outcome<Option<String>> {
            certified_name(&self.0.path().join("rotated.pem"), &self.0.path().join("kubeconfig"))
        }
    }

    fn kubeconfig(user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
             contexts:\n- context: {{cluster: c, user: other}}\n  name: there\n- context:\n    cluster: c\n    user: me\n  name: here\n\
             users:\n- name: other\n  user: {{client-certificate: other.pem}}\n- name: me\n  user:\n    {user}\n"
        )
    }

    #[test]
    fn the_name_is_in_the_certificate_that_the_kubelet_has_got_whether_its_key_is_before_or_behind_it()
     {
        let key = "-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n";
        for pem in [format!("{EDGE_7}{key}"), format!("{key}{EDGE_7}")] {
            let files = Files::new(&[("rotated.pem", &pem), ("kubeconfig", "not read")]);
            assert_eq!(files.name(), Ok(Some("edge-7".to_owned())));
        }
    }

    #[test]
    fn the_name_is_in_the_certificate_of_the_kubeconfigs_user_as_a_file_or_inside() {
        let inside = kubeconfig(&format!("client-certificate-data: {}", STANDARD.encode(EDGE_7)));
        let beside = kubeconfig("client-certificate: me.pem");
        for text in [inside, beside] {
            assert_eq!(
                Files::new(&[("kubeconfig", &text), ("me.pem", EDGE_7)]).name(),
                Ok(Some("edge-7".to_owned()))
            );
        }
    }

    #[test]
    fn no_certificate_is_no_name() {
        assert_eq!(Files::new(&[]).name(), Ok(None));
        assert_eq!(Files::new(&[("kubeconfig", &kubeconfig("token: abc"))]).name(), Ok(None));
        assert_eq!(Files::new(&[("kubeconfig", "kind: Config\n")]).name(), Ok(None));
    }

    #[test]
    fn what_cannot_be_read_is_said_and_waits_for_nobody() {
        for (name, text) in [
            ("rotated.pem", ""),
            ("rotated.pem", "no PEM"),
            ("kubeconfig", "{"),
            ("kubeconfig", "- a\n"),
        ] {
            assert!(Files::new(&[(name, text)]).name().is_err(), "{name}: {text}");
        }
        let files = Files::new(&[]);
        rustix::fs::mkfifoat(rustix::fs::CWD, files.0.path().join("kubeconfig"), 0o600.into())
            .unwrap();
        assert!(files.name().unwrap_err().to_string().ends_with("is not a file"));
    }
}

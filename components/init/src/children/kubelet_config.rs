//! `init kubelet-config` reads what pods have written for the kubelet, so that PID 1 does not have
//! to. It writes the name in the kubelet's client certificate to [`CERTIFIED_NAME`], and the
//! kubelet's configuration to [`STANDALONE`] and [`JOINED`]. It reports a file that it cannot read
//! and goes on without it: the kubelet reports the same when it starts.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild_abi::paths::{CLIENT_CA, KUBECONFIG, KUBELET_CONFIG, KUBELET_CONFIG_DIR};
use osbuild_failure::{Explain, Failure, Outcome};
use serde::Deserialize;
use x509_cert::Certificate;
use x509_cert::der::DecodePem;
use x509_cert::der::oid::ObjectIdentifier;

use super::kubelet_settings::Settings;
use super::small_file::{first_line, read};
use crate::boot::memory;
use crate::daemons::kubelet_config::{CERTIFIED_NAME, JOINED, STANDALONE};
use crate::daemons::node_name;
use crate::host::run_files;
use crate::name;

/// The certificate from the cluster, with its key. It takes precedence over the one in the
/// kubeconfig.
const ROTATED: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
/// The prefix of the common name of a node's certificate.
const NODE_USER: &str = "system:node:";
/// The attribute `commonName` (RFC 5280, appendix A.1).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Reads everything and writes the files.
pub fn apply() -> Outcome {
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

/// The name of the node in the certificate that the kubelet will use.
fn certified_name(rotated: &Path, kubeconfig: &Path) -> Outcome<Option<String>> {
    if let Some(pem) = read(rotated)? {
        return node_of(&pem).explain(format_args!("read {}", rotated.display()));
    }
    let Some(text) = read(kubeconfig)? else { return Ok(None) };
    let pem =
        certificate_in(&text, kubeconfig).explain(format_args!("read {}", kubeconfig.display()))?;
    pem.map_or(Ok(None), |pem| {
        node_of(&pem)
            .explain(format_args!("read the client certificate of {}", kubeconfig.display()))
    })
}

/// The fields of a kubeconfig that are read here (`k8s.io/client-go/tools/clientcmd/api/v1`).
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Kubeconfig {
    #[serde(default)]
    current_context: String,
    #[serde(default)]
    contexts: Vec<NamedContext>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    #[serde(default)]
    user: String,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
}

/// The client certificate of a kubeconfig's current context, in PEM.
fn certificate_in(text: &str, file: &Path) -> Outcome<Option<String>> {
    let config: Kubeconfig =
        serde_saphyr::from_str(text).map_err(|error| first_line(&error.to_string()))?;
    let context = config
        .contexts
        .into_iter()
        .find(|one| one.name == config.current_context)
        .map(|one| one.context);
    let Some(user) =
        context.and_then(|context| config.users.into_iter().find(|one| one.name == context.user))
    else {
        return Ok(None);
    };
    match user.user {
        User { client_certificate_data: Some(data), .. } => {
            let pem = STANDARD.decode(data.trim()).explain("decode its certificate")?;
            String::from_utf8(pem).explain("decode its certificate").map(Some)
        }
        // A relative path is relative to the kubeconfig's folder.
        User { client_certificate: Some(path), .. } => {
            read(&file.parent().unwrap_or(Path::new("/")).join(path))
        }
        User { .. } => Ok(None),
    }
}

/// The node's name in the first certificate of a PEM file.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
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
             contexts:\n- context: {{cluster: c, user: other}}\n  name: there\n\
             - context:\n    cluster: c\n    user: me\n  name: here\n\
             users:\n- name: other\n  user: {{client-certificate: other.pem}}\n\
             - name: me\n  user:\n    {user}\n"
        )
    }

    #[test]
    fn the_name_is_read_from_the_rotated_certificate_in_any_order_with_its_key() {
        let key = "-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n";
        for pem in [format!("{EDGE_7}{key}"), format!("{key}{EDGE_7}")] {
            let files = Files::new(&[("rotated.pem", &pem), ("kubeconfig", "not read")]);
            assert_eq!(files.name(), Ok(Some("edge-7".to_owned())));
        }
    }

    #[test]
    fn the_name_is_read_from_the_kubeconfigs_certificate_inline_or_in_a_file() {
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
    fn without_a_certificate_there_is_no_name() {
        assert_eq!(Files::new(&[]).name(), Ok(None));
        assert_eq!(Files::new(&[("kubeconfig", &kubeconfig("token: abc"))]).name(), Ok(None));
        assert_eq!(Files::new(&[("kubeconfig", "kind: Config\n")]).name(), Ok(None));
    }

    #[test]
    fn an_unreadable_file_is_an_error_and_is_not_waited_for() {
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

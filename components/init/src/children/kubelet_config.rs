//! `init kubelet-config` reads what pods have written for the kubelet, so that PID 1 does not have
//! to. It writes the name in the kubelet's client certificate to [`CERTIFIED_NAME`], the kubelet's
//! configuration to [`STANDALONE`] and [`JOINED`], its flags from the node document to [`FLAGS`],
//! its policies to [`POLICIES`], how long it delays a shutdown to [`SHUTDOWN_GRACE`], the files
//! with which it joins the cluster that settings name, and the file of its credential providers. It
//! reports a file that it cannot read and goes on without it: the kubelet reports the same when it
//! starts.

use std::path::Path;
use std::time::Duration;

use osbuild_abi::paths::{
    DOCUMENT_CLIENTS, JOIN_BOOTSTRAP, JOIN_CA, JOIN_KUBECONFIG, KUBELET_CONFIG, KUBELET_CONFIG_DIR,
    NODE_DOCUMENT,
};
use osbuild_document::{Document, Kubelet};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::small_file::read;
use osbuild_protocol::{ClusterJoin, KubeletField, Setting};
use x509_cert::Certificate;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{self, Decode};

use super::document_settings::Registered;
use super::kubelet_settings::Settings;
use super::node_certificate::Origin;
use super::{
    client_certificate, document_settings, node_certificate, node_document, proxy_exclusions,
};
use crate::boot::memory;
use crate::daemons::credentials::{self, Credentials};
use crate::daemons::kubelet_config::{
    CERTIFIED_NAME, FLAGS, JOINED, MAX_SHUTDOWN_GRACE, POLICIES, SHUTDOWN_GRACE, STANDALONE,
};
use crate::daemons::node_name;
use crate::host::cluster_join;
use crate::host::credential_providers;
use crate::host::environment;
use crate::host::kubelet_fields::{self, Argument};
use crate::host::run_files;
use crate::host::settings::{document, image};
use crate::name;
use osbuild_kubeconfig::Kubeconfig;

/// The prefix of the common name of a node's certificate.
const NODE_USER: &str = "system:node:";
/// The attribute `commonName` (RFC 5280, appendix A.1).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Reads everything and writes the files. `arguments` are labels, taints, credential providers and
/// the swap in the form of [`Setting`], and fields of the kubelet's configuration in that of
/// [`Argument`].
pub fn apply(arguments: &[&str]) -> Outcome {
    let (mut requested, mut fields) = (Vec::new(), Vec::new());
    for word in arguments {
        match Setting::parse(word) {
            Ok(setting) => requested.push(setting),
            Err(_) => fields.push(Argument::parse(word)?),
        }
    }
    let kubeconfig = Path::new(credentials::kubeconfig());
    // It takes precedence over the one in the kubeconfig.
    let certificates = Path::new(node_certificate::FOLDER);
    let rotated = certificates.join(node_certificate::CLIENT);
    let name = certified_name(&rotated, kubeconfig).unwrap_or_else(|failure| {
        println!("{failure}");
        None
    });
    run_files::write(CERTIFIED_NAME, &name.unwrap_or_default())?;
    let folder = Path::new(NODE_DOCUMENT).parent().unwrap_or(Path::new("/"));
    let cluster = cluster_join::requested();
    let has_joined = || has_joined(kubeconfig, certificates, cluster.as_ref());
    let document = node_document::in_effect(folder, has_joined);
    let (in_effect, refusal) = (document.as_ref().ok(), document.as_ref().err());
    let clients = in_effect.and_then(|document| document.api.as_ref());
    run_files::set(DOCUMENT_CLIENTS, clients.map(|api| api.clients.as_str()))?;
    document::write(&in_effect.map(Document::settings).unwrap_or_default())?;
    let kubelet = in_effect.map(|document| document.kubelet.clone()).unwrap_or_default();
    let of_image: Vec<Setting> = image::settings().filter_map(Result::ok).collect();
    let registered = Registered::new(&of_image, &kubelet, &requested);
    let cluster = cluster.or_else(|| in_effect.and_then(|document| document.cluster.clone()));
    let cluster = join(cluster, refusal)?;
    let has_providers = write_providers(in_effect, &requested)?;
    let flags = || document_settings::flags(&kubelet, &registered, has_providers);
    let flags = in_effect.map(|_| flags());
    // Without them the node does not join.
    run_files::set(FLAGS, flags.map(|flags| flags.join("\n")).as_deref())?;
    let bootstrap = Credentials::observe().and_then(|credentials| credentials.bootstrap);
    let kubeconfigs: Vec<&Path> =
        std::iter::once(kubeconfig).chain(bootstrap.map(Path::new)).collect();
    let exclusions = proxy_exclusions::all(cluster.as_ref(), &kubelet, &kubeconfigs);
    environment::keep_cluster(&exclusions)?;
    let mut settings = Settings::read(Path::new(KUBELET_CONFIG), Path::new(KUBELET_CONFIG_DIR))?;
    settings.weakened(node_name::has_credentials()).iter().for_each(|line| println!("{line}"));
    let configuration = document_settings::configuration(cluster.as_ref(), &kubelet, &registered);
    settings.set(&configuration);
    let swap = in_effect.and_then(|document| document.swap);
    settings.set(&document_settings::swap(&of_image, swap, &requested));
    let fields = kubelet_fields::overlay(allowed_fields(&kubelet), &fields);
    settings.set(&document_settings::fields(fields.values()));
    kubelet_fields::write_overridden(&settings.overridden(fields.keys()))?;
    keep_shutdown_grace(settings.shutdown_grace())?;
    for (path, drop_ins) in POLICIES.into_iter().zip([false, true]) {
        run_files::write(path, &settings.policies(drop_ins).join("\n"))?;
    }
    let memory = memory::total_mib();
    let client_ca = credentials::client_ca();
    for (path, config) in
        [(STANDALONE, settings.standalone(memory)), (JOINED, settings.joined(memory, client_ca))]
    {
        run_files::write(path, &config.to_string())?;
    }
    Ok(())
}

/// The fields of the kubelet's configuration that the document has and the image allows. PID 1
/// reports the others.
fn allowed_fields(kubelet: &Kubelet) -> Vec<KubeletField> {
    let allowed = kubelet_fields::allowed().unwrap_or_else(|failure| {
        println!("{failure}");
        String::new()
    });
    let fields = kubelet.config.iter();
    fields.filter(|field| kubelet_fields::permits(&allowed, field.key())).cloned().collect()
}

/// Writes the kubelet's file of credential providers, of the document and of requests. Returns
/// whether there is one.
fn write_providers(document: Option<&Document>, requested: &[Setting]) -> Outcome<bool> {
    let document = document.map(|document| document.credential_providers.as_slice());
    let requested = requested.iter().filter_map(|setting| match setting {
        Setting::CredentialProvider(provider) => Some(provider.clone()),
        _ => None,
    });
    credential_providers::write(document.unwrap_or_default(), requested)
}

/// Whether the node is in a cluster: it has a kubeconfig, or a certificate from the cluster that
/// requests name. The kubeconfig of such a cluster is in memory, so it is missing at each boot.
fn has_joined(kubeconfig: &Path, certificates: &Path, requested: Option<&ClusterJoin>) -> bool {
    kubeconfig.exists() || requested.is_some_and(|cluster| Origin::is_in(certificates, cluster))
}

/// Writes the kubelet's files for the cluster, and removes those that it does not need. Says why
/// the node does not join the cluster, if it does not: `refusal` is that of the document, for want
/// of which it joins none. Returns the cluster whose certificates can be read.
fn join(cluster: Option<ClusterJoin>, refusal: Option<&Failure>) -> Outcome<Option<ClusterJoin>> {
    let roots = cluster.as_ref().map(|join| client_certificate::roots(&join.authority().to_pem()));
    let unreadable = roots.and_then(Outcome::err).map(|failure| failure.to_string());
    let joined = cluster.clone().filter(|_| unreadable.is_none());
    let (kubeconfig, reason) =
        joined.as_ref().map(certified_kubeconfig).transpose()?.unwrap_or_default();
    let bootstrap = joined.as_ref().and_then(document_settings::bootstrap_kubeconfig);
    let authority = joined.as_ref().map(|join| join.authority().to_pem());
    run_files::set(JOIN_KUBECONFIG, kubeconfig.as_deref())?;
    run_files::set(JOIN_BOOTSTRAP, bootstrap.map(|config| config.to_string()).as_deref())?;
    run_files::set(JOIN_CA, authority.as_deref())?;
    let reason = unreadable.or(reason).or(refusal.map(Failure::to_string));
    if let Some((cluster, reason)) = cluster.as_ref().zip(reason.as_ref()) {
        println!("the node does not join {}: {reason}", cluster.server());
    }
    cluster_join::write_error(reason.as_deref())?;
    Ok(joined)
}

/// The kubeconfig with the node's certificate, if that is from this cluster, or else why the node
/// does not join it. The certificate is another one after a move to another cluster, and after a
/// rotation of the CA.
fn certified_kubeconfig(cluster: &ClusterJoin) -> Outcome<(Option<String>, Option<String>)> {
    let folder = Path::new(node_certificate::FOLDER);
    let origin = Origin::settle(folder, cluster)?;
    let reason = node_certificate::prepare(folder, cluster, origin)?;
    let pair = folder.join(node_certificate::CLIENT).display().to_string();
    let kubeconfig = || document_settings::certified_kubeconfig(cluster, &pair).to_string();
    Ok(((origin == Origin::Cluster).then(kubeconfig), reason))
}

/// Passes on how long a shutdown has to wait for the kubelet.
fn keep_shutdown_grace(grace: Duration) -> Outcome {
    let (seconds, max) = (grace.as_secs_f64().ceil(), MAX_SHUTDOWN_GRACE.as_secs());
    if grace > MAX_SHUTDOWN_GRACE {
        println!(
            "warning: pods get {seconds} s to end before a shutdown, which waits {max} s at most: \
             the kubelet does not end them in order"
        );
    }
    run_files::write(SHUTDOWN_GRACE, &format!("{seconds}"))
}

/// The name of the node in the certificate that the kubelet will use.
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

/// The node's name in the first certificate of a PEM file. `Certificate::from_pem` does not return
/// if one ends too early, as after a power cut, so the text is decoded first.
fn node_of(pem: &str) -> Outcome<Option<String>> {
    const END: &str = "-----END CERTIFICATE-----";
    let block = pem.find("-----BEGIN CERTIFICATE-----").and_then(|start| {
        let end = pem[start..].find(END)?;
        Some(&pem[start..start + end + END.len()])
    });
    let block = block.ok_or_else(|| Failure::new("it has no certificate"))?;
    let (_, document) = der::Document::from_pem(block).explain("decode it")?;
    let certificate = Certificate::from_der(document.as_bytes()).explain("decode it")?;
    let attributes = certificate.tbs_certificate.subject.0.iter().flat_map(|set| set.0.iter());
    let names = attributes
        .filter(|one| one.oid == COMMON_NAME)
        .filter_map(|one| std::str::from_utf8(one.value.value()).ok());
    Ok(names.filter_map(|one| one.strip_prefix(NODE_USER)).find_map(|node| name::check(node).ok()))
}

#[cfg(test)]
mod tests {
    use super::super::node_certificate::tests::cluster_with_certificate;
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
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
    fn the_rotated_certificate_gives_the_name_before_or_after_its_key() {
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
    fn a_certificate_that_ends_too_early_is_an_error_within_a_time() {
        let der: Vec<u8> = STANDARD
            .decode(EDGE_7.lines().filter(|line| !line.starts_with('-')).collect::<String>())
            .unwrap();
        let (done, outcomes) = std::sync::mpsc::channel();
        for length in [0, 1, 4, 5, 60, der.len() - 1] {
            let text = STANDARD.encode(&der[..length]);
            let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
            let done = done.clone();
            std::thread::spawn(move || done.send(node_of(&pem).is_err()));
            let outcome = outcomes.recv_timeout(Duration::from_secs(10));
            assert_eq!(outcome, Ok(true), "{length} bytes");
        }
    }

    #[test]
    fn a_refused_document_at_boot_leaves_a_node_in_the_cluster_of_requests() {
        let [(own, certificate), (other, _)] =
            [cluster_with_certificate(), cluster_with_certificate()];
        for (name, requested, stays) in [
            (node_certificate::CLIENT, Some(&own), true),
            (node_certificate::FORMER_CLIENT, Some(&own), true),
            (node_certificate::CLIENT, Some(&other), false),
            (node_certificate::CLIENT, None, false),
        ] {
            let files = Files::new(&[("node.toml", "labels = 1\n"), (name, &certificate)]);
            let folder = files.0.path();
            // The kubeconfig of a cluster that requests name is in memory.
            let has_joined = || has_joined(&folder.join("kubelet.conf"), folder, requested);
            let document = node_document::in_effect(folder, has_joined);
            assert_eq!(document.is_ok(), stays, "{name}, {requested:?}");
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

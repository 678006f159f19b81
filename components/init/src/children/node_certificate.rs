//! The certificates that the kubelet has from a cluster, compared with the cluster that it joins.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use osbuild_failure::{Explain, Outcome};
use osbuild_folder::small_file::read;
use osbuild_protocol::ClusterJoin;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::client_certificate;

/// The kubelet's folder of certificates.
pub const FOLDER: &str = "/var/lib/kubelet/pki";
/// The certificate with which it is a client of the API server, with its key; the one with which it
/// serves. Both are links to files that are named after the time.
pub const CLIENT: &str = "kubelet-client-current.pem";
const SERVING: &str = "kubelet-server-current.pem";
/// The same of the cluster before, to which the node may come back.
pub const FORMER_CLIENT: &str = "osbuild-client-former.pem";
const FORMER_SERVING: &str = "osbuild-server-former.pem";
/// Each link, and that of the cluster before. One CA has signed both of a cluster.
const LINKS: [(&str, &str); 2] = [(CLIENT, FORMER_CLIENT), (SERVING, FORMER_SERVING)];

/// The origin of the node's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The cluster. It may have expired.
    Cluster,
    /// Another cluster, or a CA that the cluster has replaced.
    Another,
    /// There is no certificate, or none that can be read.
    Nowhere,
}

impl Origin {
    /// Compares the certificate in `folder` with the CA of the cluster, and prints why it cannot.
    /// The one of the cluster before is back if that is from the cluster.
    ///
    /// # Errors
    /// That cannot be put back.
    pub fn settle(folder: &Path, cluster: &ClusterJoin) -> Outcome<Self> {
        let origin = Self::observe(&folder.join(CLIENT), cluster);
        if origin == Self::Cluster
            || Self::observe(&folder.join(FORMER_CLIENT), cluster) != Self::Cluster
        {
            return Ok(origin);
        }
        println!("the node has a certificate from an earlier time in {}", cluster.server());
        take_back(folder)?;
        Ok(Self::Cluster)
    }

    /// Whether [`settle`](Self::settle) would find a certificate from the cluster in `folder`.
    /// Changes nothing.
    pub fn is_in(folder: &Path, cluster: &ClusterJoin) -> bool {
        let paths = [CLIENT, FORMER_CLIENT].map(|name| folder.join(name));
        paths.iter().any(|path| Self::observe(path, cluster) == Self::Cluster)
    }

    fn observe(path: &Path, cluster: &ClusterJoin) -> Self {
        let compare = || -> Outcome<Self> {
            let Some(chain) = read(path)? else { return Ok(Origin::Nowhere) };
            let authority = cluster.authority().to_pem();
            Ok(match client_certificate::is_signed_by(&chain, &authority)? {
                true => Origin::Cluster,
                false => Origin::Another,
            })
        };
        compare()
            .explain(format_args!("compare {} with the CA of the cluster", path.display()))
            .unwrap_or_else(|failure| {
                println!("{failure}");
                Origin::Nowhere
            })
    }
}

/// Has the certificate in `folder` fit the cluster that the node joins. One from elsewhere is set
/// aside if there is a token to request another with: as long as it is valid, the kubelet would use
/// it and request none. Returns why the node does not join, if it does not.
pub fn prepare(folder: &Path, cluster: &ClusterJoin, origin: Origin) -> Outcome<Option<String>> {
    let server = cluster.server();
    match (origin, cluster.token().is_some()) {
        (Origin::Cluster, _) | (Origin::Nowhere, true) => {}
        (Origin::Another, true) => {
            println!(
                "the node's certificate is from another cluster or CA: the node requests a new \
                 one from {server}"
            );
            set_aside(folder)?;
        }
        (Origin::Another, false) => {
            return Ok(Some(
                "the node's certificate is from another cluster or CA, and there is no token"
                    .to_owned(),
            ));
        }
        (Origin::Nowhere, false) => {
            return Ok(Some("the node has no certificate, and there is no token".to_owned()));
        }
    }
    Ok(None)
}

/// Puts the certificates aside, in the place of those before.
fn set_aside(folder: &Path) -> Outcome {
    for (name, former) in LINKS {
        let [path, former] = [name, former].map(|name| folder.join(name));
        let moved = match fs::rename(&path, &former) {
            Err(error) if error.kind() == ErrorKind::NotFound => remove(&former),
            moved => moved,
        };
        moved.explain(format_args!("set {} aside", path.display()))?;
    }
    Ok(())
}

/// Exchanges the certificates with those before.
fn take_back(folder: &Path) -> Outcome {
    for (name, former) in LINKS {
        let [path, former] = [name, former].map(|name| folder.join(name));
        let moved = match (path.is_symlink(), former.is_symlink()) {
            (true, true) => exchange(&path, &former),
            (false, true) => fs::rename(&former, &path),
            (true, false) => fs::rename(&path, &former),
            (false, false) => Ok(()),
        };
        moved.explain(format_args!("take {} back", path.display()))?;
    }
    Ok(())
}

fn exchange(one: &Path, other: &Path) -> std::io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
pub(super) mod tests {
    #[test]
    fn others_find_the_certificates_of_clients() {
        let paths = [CLIENT, FORMER_CLIENT].map(|name| Path::new(FOLDER).join(name));
        assert_eq!(
            osbuild_abi::paths::CLIENT_CERTIFICATES.map(Path::new),
            paths.each_ref().map(|path| path.as_path())
        );
    }

    use super::*;
    use osbuild_document::Document;
    use osbuild_protocol::{Authorities, BootstrapToken, ClusterDomain, ServerUrl};
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa,
        KeyPair,
    };
    use std::os::unix::fs::symlink;

    const EXAMPLE: &str = include_str!("../../../shared/document/example.toml");

    /// A folder of certificates as the kubelet keeps them.
    fn pki() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (link, file) in [(CLIENT, "kubelet-client-1.pem"), (SERVING, "kubelet-server-1.pem")] {
            fs::write(folder.path().join(file), "").unwrap();
            symlink(file, folder.path().join(link)).unwrap();
        }
        folder
    }

    fn links(folder: &Path) -> usize {
        [CLIENT, SERVING].iter().filter(|name| folder.join(name).is_symlink()).count()
    }

    #[test]
    fn a_certificate_from_elsewhere_is_set_aside_if_another_can_be_requested() {
        let cluster = Document::parse(EXAMPLE).unwrap().cluster.unwrap();
        let (server, authority) = (cluster.server().clone(), cluster.authority().clone());
        let (dns, domain) = (cluster.dns().to_vec(), cluster.domain().clone());
        let without_token = ClusterJoin::new(server, authority, None, dns, domain).unwrap();
        for (cluster, origin, left, joins) in [
            (&cluster, Origin::Another, 0, true),
            (&without_token, Origin::Another, 2, false),
            (&cluster, Origin::Cluster, 2, true),
            (&without_token, Origin::Cluster, 2, true),
            (&cluster, Origin::Nowhere, 2, true),
            (&without_token, Origin::Nowhere, 2, false),
        ] {
            let folder = pki();
            let reason = prepare(folder.path(), cluster, origin).unwrap();
            assert_eq!(reason.is_none(), joins, "{origin:?}: {reason:?}");
            assert_eq!(links(folder.path()), left, "{origin:?}");
            assert!(folder.path().join("kubelet-client-1.pem").exists());
        }
    }

    /// Which of the files each link in `folder` leads to.
    fn targets(folder: &Path) -> [Option<String>; 4] {
        [CLIENT, SERVING, FORMER_CLIENT, FORMER_SERVING].map(|name| {
            let target = fs::read_link(folder.join(name)).ok()?;
            Some(target.display().to_string())
        })
    }

    #[test]
    fn a_certificate_that_was_set_aside_is_back_with_its_cluster() {
        let folder = pki();
        let folder = folder.path();
        let [client, serving] =
            ["client", "server"].map(|word| Some(format!("kubelet-{word}-1.pem")));
        set_aside(folder).unwrap();
        assert_eq!(targets(folder), [None, None, client.clone(), serving.clone()]);
        // The next cluster has not signed a serving certificate.
        symlink("kubelet-client-2.pem", folder.join(CLIENT)).unwrap();
        take_back(folder).unwrap();
        let second = Some("kubelet-client-2.pem".to_owned());
        assert_eq!(targets(folder), [client.clone(), serving.clone(), second.clone(), None]);
        take_back(folder).unwrap();
        assert_eq!(targets(folder), [second.clone(), None, client, serving]);
        set_aside(folder).unwrap();
        assert_eq!(targets(folder), [None, None, second, None]);
    }

    /// A cluster, and a certificate that its authority has signed.
    pub fn cluster_with_certificate() -> (ClusterJoin, String) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let signed = params.signed_by(&KeyPair::generate().unwrap(), &own).unwrap();
        let cluster = ClusterJoin::new(
            ServerUrl::parse("https://a:6443").unwrap(),
            Authorities::from_pem(&own.pem()).unwrap(),
            Some(BootstrapToken::parse("abcdef.0123456789abcdef").unwrap()),
            Vec::new(),
            ClusterDomain::default(),
        );
        (cluster.unwrap(), signed.pem())
    }

    #[test]
    fn a_node_that_comes_back_to_its_cluster_needs_no_new_certificate() {
        let [(first, one), (second, other)] =
            [cluster_with_certificate(), cluster_with_certificate()];
        let folder = pki();
        let folder = folder.path();
        fs::write(folder.join(CLIENT), one).unwrap();
        let origin = |cluster: &ClusterJoin| Origin::settle(folder, cluster).unwrap();
        assert_eq!((origin(&first), origin(&second)), (Origin::Cluster, Origin::Another));
        assert_eq!(prepare(folder, &second, Origin::Another), Ok(None));
        assert_eq!(origin(&second), Origin::Nowhere);
        fs::write(folder.join("kubelet-client-2.pem"), other).unwrap();
        symlink("kubelet-client-2.pem", folder.join(CLIENT)).unwrap();
        assert_eq!((origin(&second), origin(&first)), (Origin::Cluster, Origin::Cluster));
        assert_eq!(targets(folder)[0].as_deref(), Some("kubelet-client-1.pem"));
        assert_eq!(origin(&second), Origin::Cluster, "one cluster before is kept");
    }

    #[test]
    fn a_missing_or_torn_certificate_is_none() {
        let cluster = Document::parse(EXAMPLE).unwrap().cluster.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let origin = |folder: &Path| Origin::settle(folder, &cluster).unwrap();
        assert_eq!(origin(folder.path()), Origin::Nowhere);
        assert_eq!(origin(pki().path()), Origin::Nowhere);
    }
}

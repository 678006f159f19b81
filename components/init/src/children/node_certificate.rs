//! The certificates that the kubelet has from a cluster, compared with the cluster that it joins.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use osbuild_abi::paths::NODE_DOCUMENT;
use osbuild_document::Cluster;
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::small_file::read;

use super::client_certificate;

/// The kubelet's folder of certificates.
pub const FOLDER: &str = "/var/lib/kubelet/pki";
/// The certificate with which it is a client of the API server, with its key; the one with which it
/// serves. Both are links to files that are named after the time.
pub const CLIENT: &str = "kubelet-client-current.pem";
const SERVING: &str = "kubelet-server-current.pem";

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
    pub fn observe(folder: &Path, cluster: &Cluster) -> Self {
        let path = folder.join(CLIENT);
        let compare = || -> Outcome<Self> {
            let Some(chain) = read(&path)? else { return Ok(Origin::Nowhere) };
            let authority = cluster.certificate_authority.as_str();
            Ok(match client_certificate::is_signed_by(&chain, authority)? {
                true => Origin::Cluster,
                false => Origin::Another,
            })
        };
        compare()
            .explain(format_args!("compare {} with the CA in {NODE_DOCUMENT}", path.display()))
            .unwrap_or_else(|failure| {
                println!("{failure}");
                Origin::Nowhere
            })
    }
}

/// Prints what the origin of the node's certificate in `folder` means for the cluster that it
/// joins. One from elsewhere is removed if there is a token to request another with: as long as it
/// is valid, the kubelet would use it and request none.
pub fn prepare(folder: &Path, cluster: &Cluster, origin: Origin) -> Outcome {
    let server = cluster.server.as_str();
    let no_token = format!("{NODE_DOCUMENT} has no token");
    match (origin, cluster.token.is_some()) {
        (Origin::Cluster, _) | (Origin::Nowhere, true) => {}
        (Origin::Another, true) => {
            println!(
                "the node's certificate is from another cluster or CA: the node requests a new \
                 one from {server}"
            );
            remove(folder)?;
        }
        (Origin::Another, false) => println!(
            "the node does not join {server}: its certificate is from another cluster or CA, and \
             {no_token}"
        ),
        (Origin::Nowhere, false) => {
            println!("the node does not join {server}: it has no certificate, and {no_token}");
        }
    }
    Ok(())
}

/// Removes the links to both certificates. One CA has signed both.
fn remove(folder: &Path) -> Outcome {
    for name in [CLIENT, SERVING] {
        let path = folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).explain(format_args!("remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_document::Document;
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
    fn a_certificate_from_elsewhere_is_removed_if_another_can_be_requested() {
        let cluster = Document::parse(EXAMPLE).unwrap().cluster.unwrap();
        let without_token = Cluster { token: None, ..cluster.clone() };
        for (cluster, origin, left) in [
            (&cluster, Origin::Another, 0),
            (&without_token, Origin::Another, 2),
            (&cluster, Origin::Cluster, 2),
            (&cluster, Origin::Nowhere, 2),
        ] {
            let folder = pki();
            prepare(folder.path(), cluster, origin).unwrap();
            assert_eq!(links(folder.path()), left, "{origin:?}");
            assert!(folder.path().join("kubelet-client-1.pem").exists());
        }
    }

    #[test]
    fn a_missing_or_torn_certificate_is_none() {
        let cluster = Document::parse(EXAMPLE).unwrap().cluster.unwrap();
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Origin::observe(folder.path(), &cluster), Origin::Nowhere);
        assert_eq!(Origin::observe(pki().path(), &cluster), Origin::Nowhere);
    }
}

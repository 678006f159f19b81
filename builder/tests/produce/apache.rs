//! Apache's server as a plain cache: its module for WebDAV takes `PUT`.

use crate::certificates::Certificates;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Its configuration, without the address and the folder.
const CONFIGURATION: &str = "\
ServerName cache
ServerRoot FOLDER
DocumentRoot FOLDER/cache
PidFile pid
ErrorLog error.log
Listen ADDRESS
User nobody
Group nogroup
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dav_module /usr/lib/apache2/modules/mod_dav.so
LoadModule dav_fs_module /usr/lib/apache2/modules/mod_dav_fs.so
DavLockDB FOLDER/lock
LimitRequestBody 0
<Directory FOLDER/cache>
    Dav On
    Require all granted
</Directory>
";

/// The part of a server that encrypts, and demands a certificate of clients.
const TLS: &str = "\
LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so
SSLEngine on
SSLCertificateFile CERTIFICATES/server.pem
SSLCertificateKeyFile CERTIFICATES/server.key
SSLCACertificateFile CERTIFICATES/root.pem
SSLVerifyClient require
";

/// A running server with an empty cache. Dropping it ends it.
pub struct Apache {
    child: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl Apache {
    /// A server that anyone on this machine may use.
    pub fn start() -> Apache {
        Apache::run("")
    }

    /// A server that demands one of these certificates.
    pub fn with_tls(certificates: &Certificates) -> Apache {
        Apache::run(&TLS.replace("CERTIFICATES", &certificates.folder().display().to_string()))
    }

    fn run(tls: &str) -> Apache {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for place in ["cache/ac", "cache/cas"] {
            fs::create_dir_all(folder.path().join(place)).unwrap();
        }
        let text = [CONFIGURATION, tls]
            .concat()
            .replace("ADDRESS", &address.to_string())
            .replace("FOLDER", &folder.path().display().to_string());
        let file = folder.path().join("apache.conf");
        fs::write(&file, text).unwrap();
        // Started by root, it serves as this user.
        let chown =
            Command::new("chown").args(["-R", "nobody:nogroup"]).arg(folder.path()).status();
        assert!(chown.unwrap().success());
        let child = Command::new("apache2").arg("-X").arg("-f").arg(&file).spawn().unwrap();
        let server = Apache { child, address, folder };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "Apache does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// The address for a build, with this scheme.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address)
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The files of all blobs.
    pub fn blobs(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.folder.path().join("cache/cas")).unwrap();
        files.map(|file| file.unwrap().path()).filter(|path| path.is_file()).collect()
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

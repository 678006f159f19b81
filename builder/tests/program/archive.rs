//! A Debian archive in a folder, for the real `apt-get`.

use crate::http::Server;
use crate::scratch::Scratch;
use osbuild::engine::digest::Digest;
use std::fs;
use std::path::PathBuf;

/// The archive: package lists, and the packages from [`Archive::hold`].
pub struct Archive {
    folder: PathBuf,
    sources: PathBuf,
}

impl Archive {
    /// Makes an empty archive, the only one that builds of the project use.
    pub fn serve(scratch: &mut Scratch) -> Self {
        let folder = scratch.path("archive");
        fs::create_dir(&folder).unwrap();
        let sources = scratch.path("sources.list");
        fs::write(&sources, format!("deb file:{} bookworm main\n", folder.display())).unwrap();
        let config = [
            format!("Dir::Etc::sourcelist \"{}\";", sources.display()),
            "Dir::Etc::sourceparts \"/dev/null\";".to_owned(),
            "Acquire::AllowInsecureRepositories \"true\";".to_owned(),
            "APT::Get::AllowUnauthenticated \"true\";".to_owned(),
        ];
        fs::write(scratch.path("apt.conf"), config.join("\n")).unwrap();
        scratch.set("PATH", std::env::var("PATH").unwrap());
        scratch.set("APT_CONFIG", scratch.path("apt.conf").display().to_string());
        let archive = Archive { folder, sources };
        archive.publish(&[]);
        archive
    }

    /// Makes builds use the archive at this address instead.
    pub fn move_to(&self, address: &str) {
        fs::write(&self.sources, format!("deb {address} bookworm main\n")).unwrap();
    }

    /// Serves a copy of its current contents over HTTP, which builds use instead.
    pub fn over_http(&self) -> Server {
        let server = Server::start();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&self.folder).unwrap();
                    server.put(format!("/{}", name.display()), 200, &fs::read(&path).unwrap());
                }
            }
        }
        self.move_to(server.address());
        server
    }

    /// Sets the bytes of a package, which need not match the list.
    pub fn hold(&self, name: &str, version: &str, bytes: &[u8]) {
        fs::create_dir_all(self.folder.join("pool")).unwrap();
        fs::write(self.folder.join(format!("pool/{name}_{version}_all.deb")), bytes).unwrap();
    }

    /// Replaces the lists: names, versions and dependencies.
    pub fn publish(&self, packages: &[(&str, &str, &str)]) {
        let record = |(name, version, depends): &(&str, &str, &str)| {
            let digest = Digest::of(format!("{name} {version}").as_bytes());
            let depends =
                if depends.is_empty() { String::new() } else { format!("Depends: {depends}\n") };
            let file = format!(
                "Filename: pool/{name}_{version}_all.deb\nSize: {}\nSHA256: {}\n",
                digest.size(),
                digest.hex()
            );
            format!(
                "Package: {name}\nVersion: {version}\nArchitecture: \
                 all\n{depends}{file}Description: a test\n\n"
            )
        };
        let list = packages.iter().map(record).collect::<String>();
        for suite in ["bookworm", "bookworm-backports"] {
            let folder = self.folder.join("dists").join(suite);
            let list = if suite == "bookworm" { list.as_str() } else { "" };
            let mut sums = String::new();
            for architecture in ["amd64", "arm64"] {
                let name = format!("main/binary-{architecture}/Packages");
                let digest = Digest::of(list.as_bytes());
                fs::create_dir_all(folder.join(&name).parent().unwrap()).unwrap();
                fs::write(folder.join(&name), list).unwrap();
                sums += &format!(" {} {} {name}\n", digest.hex(), digest.size());
            }
            let head = format!(
                "Suite: {suite}\nCodename: {suite}\nArchitectures: amd64 arm64\nComponents: main\n"
            );
            fs::write(folder.join("Release"), format!("{head}SHA256:\n{sums}")).unwrap();
        }
    }
}

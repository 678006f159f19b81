//! `osd inspect` in a network of its own, with machines and servers around it.

use crate::osd::channel;
use osbuild_cosi::v1::inspect_client::InspectClient;
use osbuild_cosi::v1::reach_request::Probe;
use osbuild_cosi::v1::reach_response::Part;
use osbuild_cosi::v1::{ReachRequest, ReachResult, ReachStep};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use tempfile::TempDir;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// The network, which ends with the test.
pub struct World {
    folder: TempDir,
    child: Child,
}

/// The steps and the result of a call.
#[derive(Debug)]
pub struct Reached {
    pub steps: Vec<ReachStep>,
    pub result: ReachResult,
}

impl World {
    pub fn start() -> World {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("resolv.conf", "nameserver 127.0.0.1\nsearch example.test\n");
        write("hosts", "127.0.0.1 tls.example.test other.example.test\n");
        fs::create_dir(folder.path().join("web")).unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        write("ca.crt", &authority.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(authority, key);
        let server = CertificateParams::new(["tls.example.test".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        write("server.crt", &server.signed_by(&key, &issuer).unwrap().pem());
        write("server.key", &key.serialize_pem());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/state/world.sh");
        let child = Command::new("unshare")
            .args(["--net", "bash", script])
            .arg(folder.path())
            .env("OSD", env!("CARGO_BIN_EXE_osd"))
            .process_group(0)
            .spawn()
            .expect("`unshare` of util-linux is not installed");
        World { folder, child }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a program on the router, once the network is ready.
    pub fn on_router(&self, words: &[&str]) {
        let router = fs::read_to_string(self.path("router")).unwrap();
        let network = format!("--net=/proc/{}/ns/net", router.trim());
        let status = Command::new("nsenter").arg(network).args(words).status().unwrap();
        assert!(status.success(), "{words:?}");
    }

    /// The socket of `osd inspect`, once it serves.
    pub async fn socket(&mut self) -> String {
        let socket = self.path("socket");
        while !self.path("ready").exists() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "world.sh has failed");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        channel(Path::new(&socket)).await;
        socket.display().to_string()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        kill_process_group(group, Signal::KILL).unwrap();
        self.child.wait().unwrap();
    }
}

/// Makes a call, and reads all of its messages.
pub async fn reach(client: &mut InspectClient<Channel>, probe: Probe) -> Result<Reached, Status> {
    let mut parts = client.reach(ReachRequest { probe: Some(probe) }).await?.into_inner();
    let mut steps = Vec::new();
    while let Some(message) = parts.message().await? {
        match message.part {
            Some(Part::Step(step)) => steps.push(step),
            Some(Part::Result(result)) => return Ok(Reached { steps, result }),
            None => break,
        }
    }
    Err(Status::new(Code::DataLoss, format!("no result after {steps:?}")))
}

impl Reached {
    /// The step with this name.
    pub fn step(&self, name: &str) -> &ReachStep {
        self.steps.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("{self:?}"))
    }

    /// The steps as `NAME PEER`.
    pub fn names(&self) -> Vec<String> {
        self.steps.iter().map(|step| format!("{} {}", step.name, step.peer)).collect()
    }
}

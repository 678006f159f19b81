//! A name server that is away, of a node that knows its API server by a name.

use super::{AWAY, Faults, IS_READY};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::cluster::control_plane::BIN;
use crate::vm::cluster::control_plane::{ControlPlane, NAME};
use crate::vm::cluster::joining::document_at;
use crate::vm::cluster::lab::Lab;
use crate::vm::cluster::process::Process;
use crate::vm::machine::HOST;
use osbuild::error::{Context, Result};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// Where the name server listens: a resolver knows no other port.
const ADDRESS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 53);

/// CoreDNS, a socket on which nobody answers, or nothing.
#[derive(Default)]
struct NameServer {
    answers: Option<Process>,
    is_silent: Option<UdpSocket>,
}

/// The node keeps its connection while the name server is away. It is not Ready once that is lost,
/// or the node starts, and says why. It is Ready again by itself.
pub fn a_node_survives_without_its_name_server(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "name-server")?;
    let mut names = NameServer::default();
    let mut faults = Faults::start_with(site, &lab, "name-server", |plane| {
        names.answer(site, plane)?;
        let server = format!("https://{NAME}:{}", plane.port());
        let document = document_at(plane, &server)?;
        Ok(document.with(&format!("[resolver]\nnameserver = [\"{HOST}\"]\n")))
    })?;
    faults.survives("a name server that is away", |faults| {
        names.fall_silent()?;
        faults.stays_ready("a node keeps its connection without a name server", AWAY)
    })?;
    faults.survives("a lost connection without a name server", |faults| {
        faults.cluster.plane.stop_serving();
        faults.cluster.plane.serve(site)?;
        let claim = "a node that cannot look the API server's name up is not Ready";
        faults.hold(claim, IS_READY, "Unknown")?;
        names.answer(site, &faults.cluster.plane)
    })?;

    names.fall_silent()?;
    let mut faults = faults.restart("name-server-at-boot", |machine| machine)?;
    let away = format!("{NAME}:{}: look the name up", faults.cluster.plane.port());
    faults.says("a node that boots without a name server says which name it looks up", &away)?;
    names.answer(site, &faults.cluster.plane)?;
    faults.is_ready_again()?;
    faults.deployment_runs("a Deployment runs after a boot without a name server")?;
    faults.end()
}

impl NameServer {
    /// Starts one that knows [`NAME`].
    fn answer(&mut self, site: &Site, plane: &ControlPlane) -> Result<()> {
        self.is_silent = None;
        let file = plane.path("Corefile");
        let (address, port) = ADDRESS;
        let text = format!(
            ".:{port} {{\n  bind {address}\n  errors\n  hosts {{\n    {HOST} {NAME}\n  }}\n}}\n"
        );
        std::fs::write(&file, text).or_build(|| format!("cannot write `{}`", file.display()))?;
        let bin = site.project().join(BIN);
        let arguments = ["-conf".to_owned(), file.display().to_string()];
        let mut process = Process::start(site, &bin, "coredns", &arguments)?;
        // Another program may have the port.
        std::thread::sleep(Duration::from_secs(2));
        process.is_running()?;
        self.answers = Some(process);
        Ok(())
    }

    /// Takes the port, and answers nothing.
    fn fall_silent(&mut self) -> Result<()> {
        self.answers = None;
        let socket = UdpSocket::bind(ADDRESS);
        self.is_silent = Some(socket.or_build(|| format!("cannot listen on {ADDRESS:?}"))?);
        Ok(())
    }
}

//! The node's clock.

use super::machine::options;
use crate::check::Verdict;
use crate::image::RECIPE;
use crate::recipe;
use crate::site::Site;
use crate::vm::machine::HOST;
use osbuild::error::{Context, Error, Result};
use osbuild::ship::vm::run;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The recipe that names a time server.
const TIMED: &str = "timed";

/// How far the server's clock is ahead of this machine's, and so of the node's.
const AHEAD: Duration = Duration::from_secs(3600);

/// How long the node may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The line that the console has of that. The machine's clock itself can be wrong by a second or
/// two.
const SAID: &str = "init: time: the clock was set forward by 3";
const DOUBT: &str = " s: 1 of 1 server, fewer than 3: nobody confirms it";

/// Seconds from 1900, where NTP begins, to 1970.
const NTP_EPOCH: u64 = 2_208_988_800;

/// In a network whose DHCP names no time server, as QEMU's, the node asks the one that its recipe
/// names, sets its clock, and says on the console that nobody confirms what a single server says.
pub fn a_node_asks_the_time_server_of_its_recipe(site: &Site) -> Result<Verdict> {
    let socket =
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).or_build(|| "cannot open a port".to_owned())?;
    let port = socket.local_addr().or_build(|| "cannot tell the port".to_owned())?.port();
    thread::spawn(move || serve(&socket));
    let project = site.root.join("out/ci").join(TIMED);
    site.copy_to(&project)?;
    recipe::inherit(
        site,
        &project,
        TIMED,
        RECIPE,
        &format!("\ntime-servers = [\"{HOST}:{port}\"]\n"),
    )?;
    site.finish(
        "timed-build",
        site.osbuild()?.current_dir(&project).args(["build", TIMED, "--yes"]),
    )?;
    let image = project.join("out").join(TIMED).join("image.raw");
    let mut node = run::start(site.report, &options(site, image, TIMED))?;
    let line = node.hear(SAID, TIMEOUT)?;
    node.power_off()?;
    if line.trim_end().ends_with(DOUBT) {
        Ok(Verdict::holds(line))
    } else {
        Err(Error::build("the node has no doubt").cause(line))
    }
}

/// Answers every question with a time that is ahead (RFC 5905, figure 8).
fn serve(socket: &UdpSocket) {
    let mut question = [0; 48];
    while let Ok((48, client)) = socket.recv_from(&mut question) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + AHEAD;
        let seconds = (now.as_secs() + NTP_EPOCH) as u32;
        let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
        let time = ((u64::from(seconds) << 32) | fraction).to_be_bytes();
        // Version 4, a server's answer; a server of stratum 2, whose reference clock is near; the
        // question's transmit time comes back as the origin.
        let head = [0x24, 2, 6, 0xec, 0, 0, 0, 0, 0, 0, 1, 0, 10, 0, 0, 1];
        let answer = [&head[..], &time, &question[40..], &time, &time].concat();
        // A client that has gone meanwhile is no fault of the server's.
        let _ = socket.send_to(&answer, client);
    }
}

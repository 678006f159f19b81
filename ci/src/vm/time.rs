//! The node's clock.

use super::machine::{HOST, Machine};
use crate::check::Outcome;
use crate::image::{RECIPE, image_in};
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The recipe that names a time server.
const TIMED: &str = "timed";

/// How far the server's clock is ahead of this host's, and so of the node's.
const AHEAD: Duration = Duration::from_secs(3600);

/// Start and end of the line on the console. The machine's clock can be wrong by a second or two.
const CLOCK_SET: &str = "init: time: the clock was set forward by 3";
const UNCONFIRMED: &str = " s: 1 of 1 server, fewer than 3: unconfirmed";

/// Seconds from 1900, where NTP begins, to 1970.
const NTP_EPOCH: u64 = 2_208_988_800;

/// On a network whose DHCP server names no time server, such as QEMU's, the node asks the recipe's
/// server, sets its clock, and prints that no second server confirms the time.
pub fn a_node_asks_the_time_server_of_its_recipe(site: &Site) -> Result<Outcome> {
    let socket =
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).or_build(|| "cannot open a port".to_owned())?;
    let port = socket.local_addr().or_build(|| "cannot read the port".to_owned())?.port();
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
    let image = image_in(site, &project, TIMED)?;
    let mut node = Machine::new(site, image, TIMED).start()?;
    let line = node.wait_for(CLOCK_SET)?;
    node.power_off()?;
    if line.trim_end().ends_with(UNCONFIRMED) {
        Ok(Outcome::holds(line))
    } else {
        Err(Error::build("the node does not print that the time is unconfirmed").cause(line))
    }
}

/// Answers every request with a time that is ahead (RFC 5905, figure 8).
fn serve(socket: &UdpSocket) {
    let mut request = [0; 48];
    while let Ok((48, client)) = socket.recv_from(&mut request) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + AHEAD;
        let seconds = (now.as_secs() + NTP_EPOCH) as u32;
        let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
        let time = ((u64::from(seconds) << 32) | fraction).to_be_bytes();
        // Version 4, mode server; stratum 2 with a small root delay; the request's transmit time is
        // returned as the origin time.
        let head = [0x24, 2, 6, 0xec, 0, 0, 0, 0, 0, 0, 1, 0, 10, 0, 0, 1];
        let answer = [&head[..], &time, &request[40..], &time, &time].concat();
        // The client may have ended.
        let _ = socket.send_to(&answer, client);
    }
}

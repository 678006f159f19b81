//! A time server on the loopback, which the node reaches at the host's address.

use super::machine::HOST;
use osbuild::error::{Context, Result};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds from 1900, where NTP begins, to 1970.
const NTP_EPOCH: u64 = 2_208_988_800;

/// A server of the simple network time protocol (RFC 5905). It answers until this program ends.
pub struct TimeServer {
    port: u16,
    answers: Arc<AtomicBool>,
}

impl TimeServer {
    /// A server whose clock is `ahead` of this host's.
    pub fn ahead(ahead: Duration) -> Result<Self> {
        Self::start(ahead, true)
    }

    /// A server with this host's clock that does not answer yet.
    pub fn quiet() -> Result<Self> {
        Self::start(Duration::ZERO, false)
    }

    fn start(ahead: Duration, answers: bool) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let socket = socket.or_build(|| "cannot open a port".to_owned())?;
        let port = socket.local_addr().or_build(|| "cannot read the port".to_owned())?.port();
        let answers = Arc::new(AtomicBool::new(answers));
        let server = TimeServer { port, answers: Arc::clone(&answers) };
        thread::spawn(move || serve(&socket, ahead, &answers));
        Ok(server)
    }

    /// Has it answer from now on.
    pub fn answer(&self) {
        self.answers.store(true, Ordering::Relaxed);
    }

    /// Its address as a recipe writes it.
    pub fn address(&self) -> String {
        format!("{HOST}:{}", self.port)
    }
}

/// Answers requests with the time (RFC 5905, figure 8).
fn serve(socket: &UdpSocket, ahead: Duration, answers: &AtomicBool) {
    let mut request = [0; 48];
    while let Ok((48, client)) = socket.recv_from(&mut request) {
        if !answers.load(Ordering::Relaxed) {
            continue;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + ahead;
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

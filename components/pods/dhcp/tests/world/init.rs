//! A fake `init`: it accepts every request except for addresses of links that are gone, enables
//! router advertisements as the real one does, and says which settings of the network it wants.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use osbuild_protocol::{ERROR, NetworkSettings, Reply, Request, Setting, Socket};

use super::server::in_side;

#[derive(Clone, Default)]
pub struct FakeInit {
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    requests: Vec<String>,
    /// The settings that `init` wants. `AwaitNetwork` has no reply before [`FakeInit::want`].
    network: NetworkSettings,
}

impl FakeInit {
    /// Serves for the client in the namespace `side`, with a thread for each connection.
    pub fn start(&self, socket: &Path, side: &str) {
        let listener = UnixListener::bind(socket).unwrap();
        let (this, side) = (self.clone(), side.to_owned());
        this.want(&[]);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (this, side) = (this.clone(), side.clone());
                thread::spawn(move || this.serve(&mut stream.unwrap(), &side));
            }
        });
    }

    /// Wants these settings from now on.
    pub fn want(&self, lines: &[&str]) {
        let settings = lines.iter().map(|line| match Setting::parse(line) {
            Ok(Setting::Network(setting)) => setting,
            other => panic!("{line}: {other:?}"),
        });
        let (state, changed) = &*self.state;
        let network = &mut state.lock().unwrap().network;
        network.settings = settings.collect();
        network.revision += 1;
        changed.notify_all();
    }

    pub fn requests(&self) -> Vec<String> {
        self.state.0.lock().unwrap().requests.clone()
    }

    /// Serves one request.
    fn serve(&self, stream: &mut UnixStream, side: &str) {
        let mut line = String::new();
        BufReader::new(&*stream).read_line(&mut line).unwrap();
        let line = line.trim_end();
        let reply = match Request::decode(Socket::Net, line).unwrap() {
            Request::AwaitNetwork(known) => {
                let (state, changed) = &*self.state;
                let state = state.lock().unwrap();
                let state = changed.wait_while(state, |state| state.network.revision == known);
                Reply::Network(state.unwrap().network.clone()).encode()
            }
            Request::Addresses { addresses, link }
                if !addresses.is_empty() && !exists(&link, side) =>
            {
                format!("{ERROR}there is no link `{link}`\n")
            }
            request => {
                self.take(request, side);
                self.state.0.lock().unwrap().requests.push(line.to_owned());
                Reply::Done.encode()
            }
        };
        // The client may have ended.
        let _ = stream.write_all(reply.as_bytes());
    }

    fn take(&self, request: Request, side: &str) {
        match request {
            Request::RouterAdvertisements(link) => {
                let file = format!("/proc/sys/net/ipv6/conf/{link}/accept_ra");
                in_side(side, || fs::write(file, "2").unwrap());
            }
            Request::FormerMtu { link, mtu } => {
                let former_mtus = &mut self.state.0.lock().unwrap().network.former_mtus;
                former_mtus.retain(|(other, _)| *other != link);
                former_mtus.extend(mtu.map(|mtu| (link, mtu)));
            }
            _ => {}
        }
    }
}

/// Whether a link exists in the namespace `side`.
fn exists(link: &str, side: &str) -> bool {
    in_side(side, || fs::exists(format!("/proc/sys/net/ipv4/conf/{link}")).unwrap())
}

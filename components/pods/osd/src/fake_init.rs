//! An `init` for tests: it keeps tries and no settings.

use crate::init::Init;
use osbuild_protocol::{HostSettings, Reply, Request, TryState};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;
use tempfile::TempDir;

/// The socket of an `init` that serves until the process ends.
pub struct FakeInit {
    folder: TempDir,
    /// The seconds of the running try.
    tried: Arc<Mutex<Option<u32>>>,
}

impl FakeInit {
    /// Serves. `before_reply` is called with each request.
    pub fn start(before_reply: impl Fn(&str) + Send + Sync + 'static) -> FakeInit {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("host")).unwrap();
        let (tried, before_reply) = (Arc::new(Mutex::new(None)), Arc::new(before_reply));
        let served = tried.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (tried, before_reply) = (served.clone(), before_reply.clone());
                thread::spawn(move || serve(stream.unwrap(), &tried, &*before_reply));
            }
        });
        FakeInit { folder, tried }
    }

    /// The conversations with it.
    pub fn init(&self) -> Arc<Init> {
        Arc::new(Init::new(self.folder.path().join("host")))
    }

    /// The seconds of the running try.
    pub fn tried(&self) -> Option<u32> {
        *self.tried.lock().unwrap()
    }
}

fn serve(mut stream: UnixStream, tried: &Mutex<Option<u32>>, before_reply: &dyn Fn(&str)) {
    for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
        before_reply(&line);
        let mut tried = tried.lock().unwrap();
        let is = |request: &Request| line == request.to_string();
        let mut reply = Reply::Done;
        if let Some(seconds) = line.strip_prefix("try ") {
            *tried = Some(seconds.parse().unwrap());
        } else if is(&Request::ConfirmTry) || is(&Request::RevertTry) {
            *tried = None;
        } else if is(&Request::Observe) {
            let tried = tried.map_or(TryState::None, TryState::Running);
            reply = Reply::Settings(HostSettings { tried, ..HostSettings::default() });
        }
        // Clients go away as they like.
        let _ = stream.write_all(reply.encode().as_bytes());
    }
}

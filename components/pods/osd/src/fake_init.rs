//! An `init` for tests: it keeps tries, and reports the settings that a test gives it. It remembers
//! requests to change settings, and carries out none of them.

use crate::init::Init;
use osbuild_protocol::{
    HostSettings, Observed, Refusal, RefusalCode, Reply, Request, StartSettings, TryState,
};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use tempfile::TempDir;

/// The socket of an `init` that serves until the process ends.
pub struct FakeInit {
    folder: TempDir,
    state: Arc<Mutex<State>>,
}

/// The state of an `init`.
#[derive(Default)]
pub struct State {
    /// The seconds of the running try.
    pub tried: Option<u32>,
    /// The settings with which the node has started.
    pub start: StartSettings,
    /// The settings that it reports.
    pub settings: Vec<Observed>,
    /// Those that it reports once the running try is taken back.
    pub before: Vec<Observed>,
    /// Why it confirms nothing.
    pub confirms_not: Option<Refusal>,
    /// All requests that were no question, the oldest first.
    pub requests: Vec<String>,
}

impl FakeInit {
    /// Serves. `before_reply` is called with each request.
    pub fn start(before_reply: impl Fn(&str) + Send + Sync + 'static) -> FakeInit {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("host")).unwrap();
        let (state, before_reply) = (Arc::<Mutex<State>>::default(), Arc::new(before_reply));
        let served = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (state, before_reply) = (served.clone(), before_reply.clone());
                thread::spawn(move || serve(stream.unwrap(), &state, &*before_reply));
            }
        });
        FakeInit { folder, state }
    }

    /// The conversations with it.
    pub fn init(&self) -> Arc<Init> {
        Arc::new(Init::new(self.folder.path().join("host")))
    }

    /// Its state, which a test may change.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The seconds of the running try.
    pub fn tried(&self) -> Option<u32> {
        self.state().tried
    }
}

fn serve(mut stream: UnixStream, state: &Mutex<State>, before_reply: &dyn Fn(&str)) {
    for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
        before_reply(&line);
        let reply = match state.lock().unwrap().answer(&line) {
            Ok(reply) => reply.encode(),
            Err(refusal) => refusal.encode(),
        };
        // Clients go away as they like.
        let _ = stream.write_all(reply.as_bytes());
    }
}

impl State {
    fn answer(&mut self, line: &str) -> Result<Reply, Refusal> {
        let is = |request: Request| line == request.to_string();
        if is(Request::Observe) {
            let tried = self.tried.map_or(TryState::None, TryState::Running);
            let (start, settings) = (self.start, self.settings.clone());
            let all = HostSettings { tried, start, settings, ..HostSettings::default() };
            return Ok(Reply::Settings(all));
        }
        self.requests.push(line.to_owned());
        if let Some(seconds) = line.strip_prefix("try ") {
            self.tried = Some(seconds.parse().unwrap());
        } else if is(Request::ConfirmTry) {
            self.confirms_not.clone().map_or(Ok(()), Err)?;
            self.tried.take().ok_or_else(no_try)?;
        } else if is(Request::RevertTry) {
            if self.tried.take().is_some() {
                self.settings = std::mem::take(&mut self.before);
            } else if self.start == StartSettings::GoneBack {
                self.start = StartSettings::Newest;
            } else {
                return Err(no_try());
            }
        }
        Ok(Reply::Done)
    }
}

fn no_try() -> Refusal {
    Refusal::new(RefusalCode::NoTry, "no try is running")
}

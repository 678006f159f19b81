//! A fake AWS on the loopback: it has snapshots and images, verifies every signature and checksum,
//! records every call, and fails on request.

mod ebs;
mod ec2;
mod kms;
mod wire;

pub use kms::{ARN, P256_ARN, RSA_4096_ARN};
pub use wire::Call;

use aws_lc_rs::rsa::KeySize;
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The credentials of the caller.
pub const ACCESS_KEY: &str = "AKIDEXAMPLE";
pub const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
pub const SESSION_TOKEN: &str = "FwoGZXIvYXdzEXAMPLEtoken//////";

/// The fate of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It succeeds.
    Done,
    /// It is refused with this status and code, without effect.
    Refused(u16, &'static str),
    /// The connection is closed, without effect.
    Lost,
    /// It takes effect, but the connection is closed before the response.
    DoneUnheard,
    /// It hangs.
    Hung,
    /// Another publisher has just completed and tagged the snapshot that this call is for.
    Overtaken,
}

/// Decides the fate of a call, from the call and the number of earlier ones.
type Fates = Box<dyn FnMut(&Call, usize) -> Fate + Send>;

/// A snapshot.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub description: String,
    /// `pending`, `completed`, `error`.
    pub state: String,
    /// Whether the caller completed it. It accepts no more blocks, and is `pending` for `looks`
    /// more calls.
    pub sealed: bool,
    pub looks: u32,
    pub token: String,
    pub started: String,
    pub gibibytes: u64,
    pub blocks: BTreeMap<u32, Vec<u8>>,
    pub tags: BTreeMap<String, String>,
}

/// An image.
#[derive(Clone, Debug, Default)]
pub struct Image {
    pub created: String,
    /// For how many more calls it is `pending`.
    pub looks: u32,
    /// For how many more calls AWS does not list it.
    pub unseen: u32,
    /// Whether it becomes `failed`, not `available`.
    pub fails: bool,
    /// The parameters of `RegisterImage` or `CopyImage`.
    pub parameters: BTreeMap<String, String>,
    pub snapshot: String,
    pub tags: BTreeMap<String, String>,
    pub shared: Vec<String>,
    pub deprecated: Option<String>,
}

/// The resources, by region and identifier.
#[derive(Default)]
pub struct State {
    pub calls: Vec<Call>,
    /// Mistakes of the caller.
    pub wrong: Vec<String>,
    pub snapshots: BTreeMap<(String, String), Snapshot>,
    pub images: BTreeMap<(String, String), Image>,
    /// The parameters of each `CopyImage` by its token, and the image, which may be removed.
    pub tokens: BTreeMap<(String, String), (BTreeMap<String, String>, String)>,
    /// The body of each `StartSnapshot` by its token, also those of removed snapshots.
    pub started: BTreeMap<(String, String), Vec<u8>>,
    /// For how many calls new snapshots and images are `pending`.
    pub slow: u32,
    /// For how many calls AWS does not list new images.
    pub unseen: u32,
    /// Whether new images fail: each takes the first entry.
    pub fails: Vec<bool>,
    made: u32,
    fates: Option<Fates>,
    /// Whether the session token has expired.
    pub expired: bool,
}

/// The cloud.
pub struct Cloud {
    pub address: String,
    pub state: Arc<Mutex<State>>,
}

/// The response of a service: status and body.
type Answer = (u16, String);

impl Cloud {
    /// Starts serving.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { slow: 2, ..State::default() }));
        let (served, keys) = (Arc::clone(&state), Arc::new(kms::Keys::new()));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, keys) = (Arc::clone(&served), Arc::clone(&keys));
                std::thread::spawn(move || serve(stream, &state, &keys));
            }
        });
        Cloud { address, state }
    }

    /// Sets the fates of later calls, and counts them from 0 again.
    pub fn fates(&self, fates: impl FnMut(&Call, usize) -> Fate + Send + 'static) {
        let mut state = self.state.lock().unwrap();
        state.fates = Some(Box::new(fates));
        state.calls.clear();
    }

    /// The names of all calls, in order.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().unwrap().calls.iter().map(|call| call.action.clone()).collect()
    }

    /// The calls with this name.
    pub fn calls(&self, action: &str) -> Vec<Call> {
        self.state
            .lock()
            .unwrap()
            .calls
            .iter()
            .filter(|call| call.action == action)
            .cloned()
            .collect()
    }

    /// Asserts that no call was wrong.
    #[track_caller]
    pub fn assert_no_mistakes(&self) {
        assert_eq!(self.state.lock().unwrap().wrong, Vec::<String>::new());
    }
}

impl Drop for Cloud {
    /// Frees the blocks: the threads live as long as this process, and each program that another
    /// test starts would copy their memory.
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State::default();
    }
}

impl State {
    /// A new identifier.
    fn name(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}-{:017x}", self.made)
    }

    /// Whether the next image fails.
    fn next_fails(&mut self) -> bool {
        !self.fails.is_empty() && self.fails.remove(0)
    }

    /// Adds a snapshot of a recipe of the owner `team` without an image, as an interrupted publish
    /// leaves it.
    pub fn orphan(&mut self, id: &str, day: &str, recipe: &str) -> &mut Snapshot {
        let image = "ab".repeat(32);
        let description = format!("{recipe}-1.2.3-{}", &image[..12]);
        let tags =
            [("osbuild:recipe", recipe), ("osbuild:owner", "team"), ("osbuild:image", &image)];
        let tags = tags.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let (state, started) = ("completed".to_owned(), format!("{day}T00:00:00.000Z"));
        let snapshot = Snapshot {
            description,
            state,
            started,
            tags,
            token: id.to_owned(),
            ..Snapshot::default()
        };
        let key = ("eu-central-1".to_owned(), id.to_owned());
        self.snapshots.insert(key.clone(), snapshot);
        self.snapshots.get_mut(&key).unwrap()
    }

    /// A time later than all earlier ones.
    fn time(&self) -> String {
        format!("2026-11-21T12:{:02}:{:02}.000Z", self.made / 60, self.made % 60)
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>, keys: &kms::Keys) {
    while let Some(call) = wire::read(&mut stream) {
        let (answer, fate) = {
            let mut state = state.lock().unwrap();
            let count = state.calls.len();
            let fate = state.fates.as_mut().map_or(Fate::Done, |fates| fates(&call, count));
            let mistakes = wire::mistakes(&call)
                .into_iter()
                .map(|mistake| format!("{}: {mistake}", call.action));
            state.wrong.extend(mistakes);
            state.calls.push(call.clone());
            let expired = state.expired
                && call
                    .headers
                    .get("x-amz-security-token")
                    .is_some_and(|token| token == SESSION_TOKEN);
            let answer = match &fate {
                Fate::Refused(status, code) => {
                    wire::refusal(&call, *status, code, "as the test requires")
                }
                _ if expired => wire::refusal(&call, 400, "ExpiredToken", "the token has expired"),
                Fate::Done | Fate::DoneUnheard => done(&mut state, &call, keys),
                Fate::Overtaken => {
                    ebs::overtake(&mut state, &call);
                    done(&mut state, &call, keys)
                }
                Fate::Lost | Fate::Hung => (0, String::new()),
            };
            (answer, fate)
        };
        match fate {
            Fate::Done | Fate::Refused(..) | Fate::Overtaken => {
                wire::write(&mut stream, &call, &answer)
            }
            Fate::Lost | Fate::DoneUnheard => return,
            Fate::Hung => std::thread::sleep(Duration::from_secs(3600)),
        }
    }
}

fn done(state: &mut State, call: &Call, keys: &kms::Keys) -> Answer {
    match call.service.as_str() {
        "ebs" => ebs::answer(state, call),
        "ec2" => ec2::answer(state, call),
        "kms" => kms::answer(state, call, keys),
        other => panic!("unknown service `{other}`"),
    }
}

/// The size of the RSA key in KMS.
const KEY_SIZE: KeySize = KeySize::Rsa2048;

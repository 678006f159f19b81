//! A little AWS on the loopback: it keeps snapshots and images, verifies every signature and
//! checksum, remembers every call, and fails as it is told.

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

/// Who may call.
pub const ACCESS_KEY: &str = "AKIDEXAMPLE";
pub const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
pub const SESSION_TOKEN: &str = "FwoGZXIvYXdzEXAMPLEtoken//////";

/// What a call meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is answered.
    Done,
    /// It is refused with this status and code, and nothing happens.
    Refused(u16, &'static str),
    /// The connection is closed, and nothing happens.
    Lost,
    /// It is done, and the connection is closed before anybody hears of it.
    DoneUnheard,
    /// Nothing happens any more.
    Hung,
}

/// Decides by the call and how many came before it.
type Fates = Box<dyn FnMut(&Call, usize) -> Fate + Send>;

/// A snapshot.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub description: String,
    /// `pending`, `completed`, `error`.
    pub state: String,
    /// Whether it was said to be complete. It takes no more blocks, and is `pending` for some looks
    /// more.
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
    /// For how many looks more it is `pending`.
    pub looks: u32,
    /// Whether it is `failed` then, and not `available`.
    pub fails: bool,
    /// All that `RegisterImage` or `CopyImage` said.
    pub parameters: BTreeMap<String, String>,
    pub snapshot: String,
    pub tags: BTreeMap<String, String>,
    pub shared: Vec<String>,
    pub deprecated: Option<String>,
}

/// What there is, by region and identifier.
#[derive(Default)]
pub struct State {
    pub calls: Vec<Call>,
    /// Mistakes of the caller.
    pub wrong: Vec<String>,
    pub snapshots: BTreeMap<(String, String), Snapshot>,
    pub images: BTreeMap<(String, String), Image>,
    /// Images by the tokens of the copies that were asked for, even of those that are gone.
    pub tokens: BTreeMap<(String, String), String>,
    /// For how many looks snapshots and images are `pending` from now on.
    pub slow: u32,
    /// Which of the images that are made from now on fail: each takes the first.
    pub fails: Vec<bool>,
    made: u32,
    fates: Option<Fates>,
    /// The credentials that are no longer good.
    pub expired: bool,
}

/// The cloud.
pub struct Cloud {
    pub address: String,
    pub state: Arc<Mutex<State>>,
}

/// What a service answers: status, and body.
type Answer = (u16, String);

impl Cloud {
    /// Begins to serve.
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

    /// From now on calls meet these fates; calls are counted from 0 again.
    pub fn fates(&self, fates: impl FnMut(&Call, usize) -> Fate + Send + 'static) {
        let mut state = self.state.lock().unwrap();
        state.fates = Some(Box::new(fates));
        state.calls.clear();
    }

    /// The names of the calls that were made, in their order.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().unwrap().calls.iter().map(|call| call.action.clone()).collect()
    }

    /// Those calls of this name.
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

    /// Nobody made a mistake.
    #[track_caller]
    pub fn is_content(&self) {
        assert_eq!(self.state.lock().unwrap().wrong, Vec::<String>::new());
    }
}

impl Drop for Cloud {
    /// Its threads wait for calls as long as this process runs, and would keep all blocks that ever
    /// came: each program that another test starts would be a copy of that.
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State::default();
    }
}

impl State {
    /// A name that nothing has yet.
    fn name(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}-{:017x}", self.made)
    }

    /// Whether the next image fails.
    fn next_fails(&mut self) -> bool {
        !self.fails.is_empty() && self.fails.remove(0)
    }

    /// A snapshot of a recipe of the owner `team` that no image is made of, as a publish of ours
    /// would have left it.
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

    /// A time later than all before it.
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
                    wire::refusal(&call, *status, code, "as the test wants it")
                }
                _ if expired => wire::refusal(&call, 400, "ExpiredToken", "the token is over"),
                Fate::Done | Fate::DoneUnheard => done(&mut state, &call, keys),
                Fate::Lost | Fate::Hung => (0, String::new()),
            };
            (answer, fate)
        };
        match fate {
            Fate::Done | Fate::Refused(..) => wire::write(&mut stream, &call, &answer),
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
        other => panic!("nobody asks `{other}`"),
    }
}

/// The size of the RSA key in KMS.
const KEY_SIZE: KeySize = KeySize::Rsa2048;

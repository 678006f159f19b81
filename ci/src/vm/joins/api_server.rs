//! An API server that is there for nobody, except that it can say who may do what on a node.

use osbuild::error::{Context, Error, Result};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Where a kubelet asks whether somebody may do something.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// The group that may do everything.
const ADMINISTRATORS: &[u8] = b"system:masters";

/// What it says to everything else. The kubelet tries again, whatever it makes of this.
const UNAVAILABLE: &str =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The server, which runs as long as the check.
pub struct ApiServer {
    port: u16,
    agents: Receiver<String>,
    reviews: Arc<AtomicBool>,
}

impl ApiServer {
    /// Starts it on the loopback. At first it answers nothing at all.
    pub fn start() -> Result<Self> {
        let cannot = || "cannot listen".to_owned();
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_build(cannot)?;
        let port = server.local_addr().or_build(cannot)?.port();
        let (said, agents) = channel();
        let reviews = Arc::new(AtomicBool::new(false));
        let answers = Arc::clone(&reviews);
        std::thread::spawn(move || {
            for stream in server.incoming().flatten() {
                let (said, answers) = (said.clone(), Arc::clone(&answers));
                // Who goes away before the answer comes asks again.
                std::thread::spawn(move || answer(stream, &said, &answers));
            }
        });
        Ok(ApiServer { port, agents, reviews })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on administrators may do everything, and nobody else anything.
    pub fn review(&self) {
        self.reviews.store(true, Ordering::Relaxed);
    }

    /// Forgets who has asked.
    pub fn forget(&self) {
        self.agents.try_iter().for_each(drop);
    }

    /// Waits until somebody whose name begins with `agent` has asked, at most for `timeout`, and
    /// gives the whole name.
    pub fn sees(&self, agent: &str, timeout: Duration) -> Result<String> {
        let mut others = BTreeSet::new();
        let end = Instant::now() + timeout;
        while let Ok(found) =
            self.agents.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            if found.starts_with(agent) {
                return Ok(found);
            }
            others.insert(found);
        }
        let error = Error::build(format!("`{agent}` did not come to the API server"));
        Err(others.into_iter().fold(error, |error, other| error.cause(format!("`{other}` did"))))
    }
}

/// Passes on who asked, and answers.
fn answer(
    mut stream: TcpStream,
    said: &Sender<String>,
    reviews: &AtomicBool,
) -> std::io::Result<()> {
    let mut request = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    request.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if request.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            break;
        }
        match line.trim_end().split_once(": ") {
            // Nobody listens any more once the kubelet was seen.
            Some(("User-Agent", agent)) => drop(said.send(agent.to_owned())),
            Some(("Content-Length", bytes)) => length = bytes.parse().unwrap_or(0),
            _ => {}
        }
    }
    if !first.contains(REVIEWS) || !reviews.load(Ordering::Relaxed) {
        return stream.write_all(UNAVAILABLE.as_bytes());
    }
    let mut review = Vec::new();
    request.take(length).read_to_end(&mut review)?;
    // Whether it is JSON or protobuf, the group is in it as it is.
    let is_allowed = review.windows(ADMINISTRATORS.len()).any(|piece| piece == ADMINISTRATORS);
    let answer = format!(
        "{{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\",\"spec\":{{}},\
         \"status\":{{\"allowed\":{is_allowed}}}}}"
    );
    let length = answer.len();
    write!(
        stream,
        "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{answer}"
    )
}

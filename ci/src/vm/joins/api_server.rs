//! An API server that answers only the kubelet's `SubjectAccessReview`.

use osbuild::error::{Context, Error, Result};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The path to which a kubelet sends its reviews.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// The group whose requests are allowed.
const ADMINISTRATORS: &[u8] = b"system:masters";

/// The response to every other request, after which the kubelet tries again.
const UNAVAILABLE: &str =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The server. It runs until the check ends.
pub struct ApiServer {
    port: u16,
    agents: Receiver<String>,
    reviews: Arc<AtomicBool>,
}

impl ApiServer {
    /// Starts it on the loopback. It does not answer reviews yet.
    pub fn start() -> Result<Self> {
        let cannot = || "cannot listen".to_owned();
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_build(cannot)?;
        let port = server.local_addr().or_build(cannot)?.port();
        let (seen, agents) = channel();
        let reviews = Arc::new(AtomicBool::new(false));
        let answers = Arc::clone(&reviews);
        std::thread::spawn(move || {
            for stream in server.incoming().flatten() {
                let (seen, answers) = (seen.clone(), Arc::clone(&answers));
                // A client that disconnects before the response tries again.
                std::thread::spawn(move || answer(stream, &seen, &answers));
            }
        });
        Ok(ApiServer { port, agents, reviews })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Answers reviews from now on: allows everything to administrators, and nothing to others.
    pub fn review(&self) {
        self.reviews.store(true, Ordering::Relaxed);
    }

    /// Forgets the clients that it has seen.
    pub fn forget(&self) {
        self.agents.try_iter().for_each(drop);
    }

    /// Waits for a client whose `User-Agent` begins with `agent`, at most for `timeout`, and
    /// returns the whole name.
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
        let error = Error::build(format!("`{agent}` did not connect to the API server"));
        Err(others.into_iter().fold(error, |error, other| error.cause(format!("`{other}` did"))))
    }
}

/// Passes on the name of the client, and answers its request.
fn answer(
    mut stream: TcpStream,
    seen: &Sender<String>,
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
            // Once the kubelet was seen, nothing receives the name.
            Some(("User-Agent", agent)) => drop(seen.send(agent.to_owned())),
            Some(("Content-Length", bytes)) => length = bytes.parse().unwrap_or(0),
            _ => {}
        }
    }
    if !first.contains(REVIEWS) || !reviews.load(Ordering::Relaxed) {
        return stream.write_all(UNAVAILABLE.as_bytes());
    }
    let mut review = Vec::new();
    request.take(length).read_to_end(&mut review)?;
    // JSON and protobuf both contain the group literally.
    let is_allowed = review.windows(ADMINISTRATORS.len()).any(|piece| piece == ADMINISTRATORS);
    let answer = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {},
        "status": { "allowed": is_allowed },
    })
    .to_string();
    write!(
        stream,
        "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{answer}",
        answer.len()
    )
}

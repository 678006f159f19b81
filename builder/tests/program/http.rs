//! An HTTP server on the loopback that answers as it is told, for clients of registries.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What is answered, by path. All else is 404.
type Answers = Arc<Mutex<BTreeMap<String, Answer>>>;

/// The server. It serves until the test ends.
pub struct Server {
    answers: Answers,
    address: String,
}

#[derive(Clone)]
struct Answer {
    status: u16,
    body: Vec<u8>,
    /// What the server says of the body's length.
    length: usize,
}

impl Answer {
    fn new(status: u16, body: &[u8]) -> Self {
        Answer { status, body: body.to_vec(), length: body.len() }
    }
}

impl Server {
    /// Begins to serve.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answers = Answers::default();
        let served = answers.clone();
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|stream| answer(stream, &served))
        });
        Server { answers, address }
    }

    /// Where it is, as the start of a URL.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Answers so from now on.
    pub fn put(&self, path: String, status: u16, body: &[u8]) {
        self.answers.lock().unwrap().insert(path, Answer::new(status, body));
    }

    /// Adds to the end of a file that is served, or begins one.
    pub fn append(&self, path: String, text: &str) {
        let mut answers = self.answers.lock().unwrap();
        let answer = answers.entry(path).or_insert_with(|| Answer::new(200, b""));
        *answer = Answer::new(200, &[answer.body.as_slice(), text.as_bytes()].concat());
    }

    /// Knows nothing of it any more.
    pub fn remove(&self, path: &str) {
        self.answers.lock().unwrap().remove(path);
    }

    /// Cuts a file in the middle: on the way, or because the server itself has no more of it.
    pub fn cut(&self, path: &str, on_the_way: bool) {
        let mut answers = self.answers.lock().unwrap();
        let answer = answers.get_mut(path).unwrap_or_else(|| panic!("`{path}` is not served"));
        answer.body.truncate(answer.length / 2);
        if !on_the_way {
            answer.length = answer.body.len();
        }
    }
}

fn answer(mut stream: TcpStream, answers: &Answers) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    lines.find(String::is_empty);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let unknown = || Answer::new(404, b"not found");
    let Answer { status, body, length } =
        answers.lock().unwrap().get(path).cloned().unwrap_or_else(unknown);
    let head =
        format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    // A client that has gone away has its reasons.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

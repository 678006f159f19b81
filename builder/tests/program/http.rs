//! An HTTP server on the loopback with fixed responses, for clients of registries.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Responses by path. Any other path is 404.
type Responses = Arc<Mutex<BTreeMap<String, Response>>>;

/// The server. It serves until the test ends.
pub struct Server {
    responses: Responses,
    heads: Heads,
    address: String,
}

/// The first line and the headers of each request so far.
type Heads = Arc<Mutex<Vec<String>>>;

#[derive(Clone)]
struct Response {
    status: u16,
    body: Vec<u8>,
    /// The `Content-Length`, which may exceed the body.
    length: usize,
}

impl Response {
    fn new(status: u16, body: &[u8]) -> Self {
        Response { status, body: body.to_vec(), length: body.len() }
    }
}

impl Server {
    /// Starts serving.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (responses, heads) = (Responses::default(), Heads::default());
        let (served, seen) = (responses.clone(), heads.clone());
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|stream| response(stream, &served, &seen))
        });
        Server { responses, heads, address }
    }

    /// The first line and the headers of each request so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Its address, as the start of a URL.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Responses so from now on.
    pub fn put(&self, path: String, status: u16, body: &[u8]) {
        self.responses.lock().unwrap().insert(path, Response::new(status, body));
    }

    /// Appends to a served file, or adds one.
    pub fn append(&self, path: String, text: &str) {
        let mut responses = self.responses.lock().unwrap();
        let response = responses.entry(path).or_insert_with(|| Response::new(200, b""));
        *response = Response::new(200, &[response.body.as_slice(), text.as_bytes()].concat());
    }

    /// Removes a response.
    pub fn remove(&self, path: &str) {
        self.responses.lock().unwrap().remove(path);
    }

    /// Truncates a file in the middle: in transit, or at the server itself.
    pub fn cut(&self, path: &str, in_transit: bool) {
        let mut responses = self.responses.lock().unwrap();
        let response = responses.get_mut(path).unwrap_or_else(|| panic!("`{path}` is not served"));
        response.body.truncate(response.length / 2);
        if !in_transit {
            response.length = response.body.len();
        }
    }
}

fn response(mut stream: TcpStream, responses: &Responses, heads: &Heads) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let Some(request) = head.first() else { return };
    heads.lock().unwrap().push(head.join("\n"));
    let path = request.split(' ').nth(1).unwrap_or_default();
    let unknown = || Response::new(404, b"not found");
    let Response { status, body, length } =
        responses.lock().unwrap().get(path).cloned().unwrap_or_else(unknown);
    let head =
        format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    // A client may close the connection early.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

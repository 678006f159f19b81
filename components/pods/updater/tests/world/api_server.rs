//! A stand-in for an API server that has one Node, and lets its node annotate it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

type Annotations = BTreeMap<String, String>;

/// The stand-in.
pub struct ApiServer {
    url: String,
    annotations: Arc<Mutex<Annotations>>,
}

impl ApiServer {
    /// Serves a Node with these annotations.
    pub fn start(annotations: &[(&str, &str)]) -> ApiServer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let annotations = Arc::new(Mutex::new(annotations.iter().map(owned).collect()));
        let shared = Arc::clone(&annotations);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                serve(&client, &shared);
            }
        });
        ApiServer { url, annotations }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The annotations of the Node by now.
    pub fn annotations(&self) -> Annotations {
        self.annotations.lock().unwrap().clone()
    }

    /// Sets an annotation, as another client does.
    pub fn annotate(&self, key: &str, value: &str) {
        self.annotations.lock().unwrap().insert(key.to_owned(), value.to_owned());
    }
}

/// Answers one request.
fn serve(mut client: &TcpStream, annotations: &Mutex<Annotations>) {
    let mut reader = BufReader::new(client);
    let (mut length, mut lines) = (0, Vec::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) <= 2 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        lines.push(line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let request = lines.first().map(String::as_str).unwrap_or_default();
    let mut annotations = annotations.lock().unwrap();
    if request.starts_with("PATCH") {
        let changes: Value = serde_json::from_slice(&body).unwrap();
        for (key, value) in changes["metadata"]["annotations"].as_object().unwrap() {
            match value.as_str() {
                Some(value) => drop(annotations.insert(key.clone(), value.to_owned())),
                None => drop(annotations.remove(key)),
            }
        }
    }
    let answer = match request.starts_with("POST") {
        true => json!({ "status": { "userInfo": { "username": "system:node:a" } } }),
        false => json!({ "metadata": { "name": "a", "annotations": *annotations } }),
    };
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        answer.len()
    );
    // A client that was killed resets the connection.
    let _ = client.write_all((head + &answer).as_bytes());
}

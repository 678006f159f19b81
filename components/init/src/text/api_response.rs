//! Responses of the API server, which has sent one on a connection of its own (HTTP/1.0).

use std::borrow::Cow;
use std::io::{BufRead, Read};

use osbuild_failure::{Explain, Failure, Outcome};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The largest response, and the largest event of a watch, that is read, in bytes. A Node that
/// lists 50 images has about 20 KiB.
pub const MAX_RESPONSE: u64 = 4 << 20;

/// The end of the head.
const END: &[u8] = b"\r\n\r\n";
/// The types of the events that have an object as it is now.
const PRESENT: [&str; 2] = ["ADDED", "MODIFIED"];
/// The type of the event that ends a watch with a reason.
const ERROR: &str = "ERROR";

/// The head of a response, which is empty if it has none, and its body.
pub fn split(response: &[u8]) -> (Cow<'_, str>, &[u8]) {
    let head = response.windows(END.len()).position(|bytes| bytes == END);
    let (head, body) = response.split_at(head.map_or(0, |end| end + END.len()));
    (String::from_utf8_lossy(head), body)
}

/// The object in a response.
///
/// # Errors
/// The API server refuses the request; the failure has its reason.
pub fn object<T: DeserializeOwned>(response: &[u8]) -> Outcome<T> {
    let (head, body) = split(response);
    if is_accepted(&head) {
        return serde_json::from_slice(body).explain("read the API server's object");
    }
    Err(refusal(&head, body))
}

/// The failure with the reason for which the API server refuses a request.
fn refusal(head: &str, body: &[u8]) -> Failure {
    let message = serde_json::from_slice(body).ok().map(|Status { message }| message);
    let status = head.lines().next().unwrap_or_default();
    let reason = message.unwrap_or_else(|| format!("it answers `{status}`"));
    Failure::new(format!("the API server refuses: {reason}"))
}

fn is_accepted(head: &str) -> bool {
    let status = head.lines().next().unwrap_or_default();
    status.split_ascii_whitespace().nth(1).is_some_and(|code| code.starts_with('2'))
}

/// The answer to a request that the API server refuses.
#[derive(Deserialize)]
struct Status {
    message: String,
}

/// The response to a watch: a line for each event.
pub struct Watch<R> {
    stream: R,
}

/// An event of a watch (`metav1.WatchEvent` of Kubernetes).
#[derive(Deserialize)]
struct Event {
    r#type: String,
    object: Value,
}

impl<R: BufRead> Watch<R> {
    /// Reads the head of the response.
    ///
    /// # Errors
    /// The API server refuses the watch; the failure has its reason.
    pub fn begin(mut stream: R) -> Outcome<Self> {
        let mut head = Vec::new();
        let mut limited = stream.by_ref().take(MAX_RESPONSE);
        while !head.ends_with(END) {
            if read_line(&mut limited, &mut head)? == 0 {
                return Err(Failure::new("the response ends in its head"));
            }
        }
        let head = String::from_utf8_lossy(&head);
        if is_accepted(&head) {
            return Ok(Self { stream });
        }
        let mut body = Vec::new();
        limited.read_to_end(&mut body).explain("read the response")?;
        Err(refusal(&head, &body))
    }

    /// The next object that was added or changed; none if the response ends before.
    ///
    /// # Errors
    /// The API server ends the watch with a reason, or an event is malformed.
    pub fn object(&mut self) -> Outcome<Option<Value>> {
        loop {
            let mut text = Vec::new();
            if read_line(&mut self.stream.by_ref().take(MAX_RESPONSE), &mut text)? == 0 {
                return Ok(None);
            }
            let Event { r#type, object } =
                serde_json::from_slice(&text).explain("read an event of a watch")?;
            if r#type == ERROR {
                let reason = object["message"].as_str().unwrap_or("without a reason");
                return Err(Failure::new(format!("the API server ends the watch: {reason}")));
            }
            if PRESENT.contains(&r#type.as_str()) {
                return Ok(Some(object));
            }
        }
    }
}

/// Reads a line with its end, and returns its length.
fn read_line(stream: &mut impl BufRead, text: &mut Vec<u8>) -> Outcome<usize> {
    stream.read_until(b'\n', text).explain("read the response")
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, repeat};

    use super::*;

    const HEAD: &str = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n";

    #[test]
    fn an_object_or_the_reason_of_the_refusal_is_in_a_response() {
        let read = |response: &str| {
            object::<u32>(response.as_bytes()).map_err(|failure| failure.to_string())
        };
        assert_eq!(read("HTTP/1.0 201 Created\r\nA: b\r\n\r\n7"), Ok(7));
        let refused = "HTTP/1.0 403 Forbidden\r\n\r\n{\"message\": \"no\"}";
        assert_eq!(read(refused), Err("the API server refuses: no".to_owned()));
        let broken = "HTTP/1.0 502 Bad Gateway\r\n\r\n<html>";
        let reason = "the API server refuses: it answers `HTTP/1.0 502 Bad Gateway`";
        assert_eq!(read(broken), Err(reason.to_owned()));
    }

    /// The objects of a watch until its end.
    fn objects(response: &str) -> Result<Vec<Value>, String> {
        let mut watch = Watch::begin(response.as_bytes()).map_err(|error| error.to_string())?;
        let mut objects = Vec::new();
        while let Some(object) = watch.object().map_err(|error| error.to_string())? {
            objects.push(object);
        }
        Ok(objects)
    }

    #[test]
    fn a_watch_has_the_objects_that_are_there() {
        let event =
            |kind: &str, object: u32| format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        let events = [("ADDED", 1), ("BOOKMARK", 2), ("MODIFIED", 3), ("DELETED", 4)];
        let events: String = events.map(|(kind, object)| event(kind, object)).concat();
        assert_eq!(objects(&format!("{HEAD}{events}")), Ok(vec![1.into(), 3.into()]));
    }

    #[test]
    fn a_refusal_and_the_end_of_a_watch_have_a_reason() {
        let refused = "HTTP/1.0 403 Forbidden\r\n\r\n{\n\"message\": \"no\"\n}";
        assert_eq!(objects(refused), Err("the API server refuses: no".to_owned()));
        let ended = "{\"type\":\"ERROR\",\"object\":{\"message\":\"too old\"}}\n";
        let reason = "the API server ends the watch: too old";
        assert_eq!(objects(&format!("{HEAD}{ended}")), Err(reason.to_owned()));
        for broken in ["", "HTTP/1.0 200 OK\r\n", &format!("{HEAD}{{\"type\"")] {
            assert!(objects(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_head_and_an_event_without_an_end_are_refused() {
        let endless = || BufReader::new(repeat(b'\n'));
        assert!(Watch::begin(endless()).is_err());
        let mut watch = Watch::begin(HEAD.as_bytes().chain(BufReader::new(repeat(b'7')))).unwrap();
        assert!(watch.object().is_err());
    }
}

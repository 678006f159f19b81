//! The record of what comes over the network, and of what programs on the node and plugins change:
//! a line on stdout for each connection and call. The container's log, which the kubelet rotates,
//! has its time.

use super::Caller;
use super::line_pace::LinePaces;
use super::line_queue::LineQueue;
use super::token::issuer::ShownToken;
use osbuild_failure::Failure;
use osbuild_protocol::Fingerprint;
use osbuild_resources::Key;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tonic::codegen::http;
use tonic::{Code, Response, Status};

/// The time between two records of refused connections.
const REFUSALS_PAUSE: Duration = Duration::from_secs(1);

/// The most characters of the method of a call, and of a reason. Both may come from outside.
const MAX_METHOD: usize = 128;
const MAX_REASON: usize = 1024;

/// A call without a response. If it is dropped, its client has reset the stream or closed the
/// connection, and that is recorded.
pub struct OpenCall {
    /// The caller, as the line names it.
    caller: String,
    /// It comes from outside.
    method: String,
    lines: Lines,
    is_answered: bool,
}

/// Which calls get a line in the record. The texts name calls of which some get one.
enum Lines {
    /// Every call: its method may change something.
    Each,
    /// Every call that has changed resources or has a [`Subject`], and some of the others.
    OfChanges(String),
    /// Some of the calls.
    Some(String),
}

impl OpenCall {
    /// A call of the method. The record leaves out some of the calls that change nothing.
    pub fn new(caller: &Caller, method: String, may_change: bool) -> OpenCall {
        let lines = match may_change {
            true => Lines::Each,
            false => Lines::OfChanges(format!("calls of {caller} that change nothing")),
        };
        OpenCall { caller: caller.recorded(), method, lines, is_answered: false }
    }

    /// A call of a plugin. The record leaves out some: a plugin may make hundreds a second.
    pub fn of_plugin(plugin: &str, method: String) -> OpenCall {
        let caller = format!("plugin {plugin:?}");
        let lines = Lines::Some(format!("calls of {caller}"));
        OpenCall { caller, method, lines, is_answered: false }
    }

    /// Records the response once it begins: the later messages of a stream change nothing.
    pub fn answered<B>(mut self, response: &http::Response<B>) {
        self.is_answered = true;
        let status = Status::from_header_map(response.headers());
        let changed = response.extensions().get::<Changed>().map(|Changed(keys)| keys.join(", "));
        let subject = response.extensions().get::<Subject>().map(|Subject(text)| text.clone());
        let about = changed.or(subject);
        let has_subject = about.is_some();
        self.write(line(&self.caller, &self.method, about, status.as_ref()), has_subject);
    }

    fn write(&self, line: String, has_subject: bool) {
        match &self.lines {
            Lines::Each => write(&line),
            Lines::OfChanges(_) if has_subject => write(&line),
            Lines::OfChanges(about) | Lines::Some(about) => write_some(about, line),
        }
    }
}

/// The server does not know how far the call went, so the line says that it was aborted, perhaps
/// after a change.
impl Drop for OpenCall {
    fn drop(&mut self) {
        if !self.is_answered {
            let may_change = !matches!(self.lines, Lines::OfChanges(_));
            self.write(aborted(&self.caller, &self.method, may_change), false);
        }
    }
}

/// Records who has connected, with the fingerprint by which a revocation names the certificate.
pub fn connected(caller: &Caller, certificate: &Fingerprint, from: SocketAddr) {
    let line = format!("connection: {caller} from {from} with {certificate}");
    write_some(&format!("connections of {caller}"), line);
}

/// Records the caller that has shown the first token of a connection, and the token's issuer.
pub fn connected_with_token(caller: &Caller, token: &ShownToken, from: SocketAddr) {
    let (issuer, recorded) = (&token.claims.issuer, caller.recorded());
    let line = format!("connection: {recorded} from {from} with a token of {issuer}");
    write_some(&format!("connections of {caller}"), line);
}

/// Records why a connection was closed, once a second at most: strangers must not push what others
/// have done out of the log.
pub fn refused(failure: &Failure) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|last| last.elapsed() >= REFUSALS_PAUSE) {
        *last = Some(Instant::now());
        write(&format!("connection: refused: {}", shown(&failure.to_string(), MAX_REASON)));
    }
}

/// Records the end of a caller's work: its name, and how it has ended.
pub fn ended(caller: &Caller, what: &str, how: &str) {
    write(&format!("ended: {caller}: {}: {}", printable(what), printable(how)));
}

/// Has a thread write a line to stdout: a pipe that is full or closed must keep nobody from
/// repairing the node. Lines that the thread has not written when the process ends are lost.
pub fn write(line: &str) {
    lines().add(line);
}

/// Writes a line that is one of many `about` the same, as often as keeps them from pushing other
/// lines out of the log.
fn write_some(about: &str, line: String) {
    static PACES: Mutex<LinePaces> = Mutex::new(LinePaces::new());
    let mut paces = PACES.lock().unwrap_or_else(PoisonError::into_inner);
    paces.admit(about, line, Instant::now()).iter().for_each(|line| lines().add_yielding(line));
}

/// The lines that wait for the thread that writes them.
fn lines() -> &'static LineQueue {
    static LINES: LazyLock<Arc<LineQueue>> = LazyLock::new(|| {
        let lines = Arc::<LineQueue>::default();
        let written = lines.clone();
        let writer = std::thread::Builder::new().name("record".to_owned());
        let writer = writer.spawn(move || {
            loop {
                written.write_next(&mut std::io::stdout());
            }
        });
        if let Err(error) = writer {
            eprintln!("error: nothing is recorded: cannot start a thread: {error}");
        }
        lines
    });
    &LINES
}

/// The keys of the resources that a call has changed. A service adds them to its response.
#[derive(Clone, Debug)]
pub struct Changed(pub Vec<String>);

impl Changed {
    /// The response of a call that has changed these resources.
    pub fn of<'a, T>(keys: impl IntoIterator<Item = &'a Key>, message: T) -> Response<T> {
        let mut response = Response::new(message);
        let keys = keys.into_iter().map(Key::to_string).collect();
        response.extensions_mut().insert(Changed(keys));
        response
    }
}

/// The subject of a call that changes nothing, but must be in the record. A service adds it to its
/// response.
#[derive(Clone, Debug)]
pub struct Subject(pub String);

fn aborted(caller: &str, method: &str, may_change: bool) -> String {
    let method = shown(method, MAX_METHOD);
    let after = if may_change { ", perhaps after a change" } else { "" };
    format!("call: {caller}: {method}: aborted by its client{after}")
}

/// A response that succeeds has its status after its messages, so there is none yet.
fn line(caller: &str, method: &str, about: Option<String>, status: Option<&Status>) -> String {
    let call = format!("call: {caller}: {}", shown(method, MAX_METHOD));
    match (status.filter(|status| status.code() != Code::Ok), about) {
        (Some(status), _) => format!("{call}: refused: {}", shown(status.message(), MAX_REASON)),
        (None, Some(about)) if !about.is_empty() => format!("{call}: done: {}", printable(&about)),
        _ => format!("{call}: done"),
    }
}

/// The beginning of the text in one line.
fn shown(text: &str, max: usize) -> String {
    let text = printable(text);
    match text.char_indices().nth(max) {
        None => text,
        Some((end, _)) => text[..end].to_owned() + "…",
    }
}

/// The text in one line, which shows its characters in their order.
fn printable(text: &str) -> String {
    let reorders = |c| {
        matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}')
    };
    let escape = |c: char| match c.is_control() || reorders(c) {
        true => c.escape_debug().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_one_line_whatever_its_names_are() {
        let (caller, method) = ("local", "cosi.resource.State/Get");
        assert_eq!(line(caller, method, None, None), "call: local: cosi.resource.State/Get: done");
        let changed = "a, b\u{1b}\u{202e}".to_owned();
        assert_eq!(
            line(caller, method, Some(changed), None),
            "call: local: cosi.resource.State/Get: done: a, b\\u{1b}\\u{202e}"
        );
        let status = Status::not_found("no\nline");
        assert_eq!(
            line(caller, "a\n", None, Some(&status)),
            "call: local: a\\n: refused: no\\nline"
        );
    }

    #[test]
    fn an_aborted_call_may_have_changed_something_if_its_method_can() {
        let expected = "call: local: Get: aborted by its client";
        assert_eq!(aborted("local", "Get", false), expected);
        assert_eq!(aborted("local", "Get", true), format!("{expected}, perhaps after a change"));
    }

    #[test]
    fn a_line_is_short_however_long_the_text_of_a_client_is() {
        let long = "ä".repeat(12 << 10);
        let written = line("local", &long, None, Some(&Status::not_found(long.clone())));
        let [method, reason] = [MAX_METHOD, MAX_REASON].map(|max| "ä".repeat(max) + "…");
        assert_eq!(written, format!("call: local: {method}: refused: {reason}"));
        assert_eq!(aborted("local", &long, true).matches('ä').count(), MAX_METHOD);
    }
}

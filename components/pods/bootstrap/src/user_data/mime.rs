//! The node document among the parts of a MIME message (RFC 2046): the form in which tools give one
//! machine's user data to several programs. Only what they write is read: one level of parts, plain
//! or in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild_envelope::DocumentType;
use osbuild_failure::{Explain, Failure, Outcome};

/// The type of the part that is a node document.
const TYPE: &str = DocumentType::MEDIA_TYPE;

/// Whether a text is a message: a node document never begins with such a line.
pub fn is_message(text: &str) -> bool {
    ["content-type:", "mime-version:"]
        .iter()
        .any(|name| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))
}

/// The node document in a message.
///
/// # Errors
/// The message has none, has several, or encodes it in an unknown way.
pub fn document(message: &str) -> Outcome<Vec<u8>> {
    let (headers, body) = split(message);
    let boundary = header(&headers, "content-type")
        .and_then(|value| parameter(value, "boundary"))
        .ok_or_else(|| Failure::new("it is a MIME message, and has no boundary of parts"))?;
    let parts: Vec<(Headers, String)> =
        parts(&body, boundary).iter().map(|part| split(part)).collect();
    let is_document = |headers: &Headers| {
        header(headers, "content-type").is_some_and(|value| media_type(value) == TYPE)
    };
    let mut documents = parts.iter().filter(|(headers, _)| is_document(headers));
    match (documents.next(), documents.count()) {
        (Some((headers, body)), 0) => content(headers, body),
        (Some(_), more) => {
            Err(Failure::new(format!("{} parts have the type `{TYPE}`, not one", more + 1)))
        }
        (None, _) => Err(Failure::new(format!("it has no part of the type `{TYPE}`"))),
    }
}

/// Names in lower case, and values.
type Headers = Vec<(String, String)>;

/// The headers, whose lines may be folded, and the lines after the first empty one.
fn split(text: &str) -> (Headers, String) {
    let mut headers = Headers::new();
    let mut lines = text.lines();
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        match (line.starts_with([' ', '\t']), headers.last_mut(), line.split_once(':')) {
            (true, Some((_, value)), _) => value.push_str(line),
            (_, _, Some((name, value))) => {
                headers.push((name.trim().to_ascii_lowercase(), value.to_owned()));
            }
            _ => {}
        }
    }
    (headers, lines.map(|line| format!("{line}\n")).collect())
}

/// The parts between the lines with the boundary. The last line of a part belongs to the boundary.
fn parts(body: &str, boundary: &str) -> Vec<String> {
    let (delimiter, end) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut parts: Vec<String> = Vec::new();
    for line in body.lines().map(str::trim_end).take_while(|line| *line != end) {
        match parts.last_mut() {
            _ if line == delimiter => parts.push(String::new()),
            Some(part) => {
                part.push_str(line);
                part.push('\n');
            }
            // The preamble before the first part is text for people (RFC 2046, 5.1.1).
            None => {}
        }
    }
    parts
}

fn content(headers: &Headers, body: &str) -> Outcome<Vec<u8>> {
    let encoding = header(headers, "content-transfer-encoding").unwrap_or_default();
    match encoding.trim().to_ascii_lowercase().as_str() {
        "" | "7bit" | "8bit" | "binary" => Ok(body.as_bytes().to_owned()),
        "base64" => {
            let text: String = body.split_whitespace().collect();
            STANDARD.decode(text).explain("decode its base64")
        }
        other => Err(Failure::new(format!("the encoding `{other}` of its part is unknown"))),
    }
}

fn header<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
}

/// `text/plain` of `text/plain; charset=utf-8`.
fn media_type(value: &str) -> String {
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The value of a parameter, without its quotes.
fn parameter<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let parameters = value.split(';').skip(1).filter_map(|word| word.split_once('='));
    let (_, value) = parameters
        .map(|(one, value)| (one.trim(), value.trim().trim_matches('"')))
        .find(|(one, _)| one.eq_ignore_ascii_case(name))?;
    (!value.is_empty()).then_some(value)
}

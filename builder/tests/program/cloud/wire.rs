//! Calls on a connection, and AWS's Signature Version 4 according to its documentation.

use super::{ACCESS_KEY, Answer, SECRET_KEY};
use aws_lc_rs::{digest, hmac};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A call.
#[derive(Clone, Debug, Default)]
pub struct Call {
    pub service: String,
    pub region: String,
    pub action: String,
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Call {
    /// The parameters of a call of EC2.
    pub fn parameters(&self) -> BTreeMap<String, String> {
        url::form_urlencoded::parse(&self.body).into_owned().collect()
    }

    /// The permission that it needs.
    pub fn permission(&self) -> String {
        format!("{}:{}", self.service, self.action)
    }

    fn scope(&self) -> Vec<String> {
        let text =
            self.headers.get("authorization").and_then(|text| text.split_once("Credential="));
        text.map_or_else(Vec::new, |(_, rest)| {
            rest.split([',', '/']).take(5).map(str::to_owned).collect()
        })
    }
}

/// Reads the next call; `None` if the caller has closed the connection.
pub fn read(stream: &mut TcpStream) -> Option<Call> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split(' ').map(str::to_owned);
    let mut call = Call { method: words.next()?, path: words.next()?, ..Call::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        call.headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length =
        call.headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    call.body = vec![0; length];
    reader.read_exact(&mut call.body).ok()?;
    let scope = call.scope();
    call.region = scope.get(2).cloned().unwrap_or_default();
    call.service = scope.get(3).cloned().unwrap_or_default();
    call.action = match call.service.as_str() {
        "ec2" => call.parameters().remove("Action").unwrap_or_default(),
        "kms" => call.headers.get("x-amz-target")?.rsplit('.').next()?.to_owned(),
        _ if call.method == "PUT" => "PutSnapshotBlock".to_owned(),
        _ if call.path == "/snapshots" => "StartSnapshot".to_owned(),
        _ => "CompleteSnapshot".to_owned(),
    };
    Some(call)
}

/// Writes the response, and ignores a closed connection.
pub fn write(stream: &mut TcpStream, call: &Call, (status, body): &Answer) {
    let code = body.split("ERROR:").nth(1).and_then(|rest| rest.split(':').next());
    let header = code
        .filter(|_| call.service == "ebs")
        .map(|code| format!("x-amzn-ErrorType: {code}\r\n"))
        .unwrap_or_default();
    // One write: a second one would wait for the client's delayed acknowledgement, about 40 ms.
    let length = body.len();
    let answer = format!("HTTP/1.1 {status} x\r\n{header}Content-Length: {length}\r\n\r\n{body}");
    let _ = stream.write_all(answer.as_bytes());
}

/// The error response of each service.
pub fn refusal(call: &Call, status: u16, code: &str, message: &str) -> Answer {
    let body = match call.service.as_str() {
        "ec2" => format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message>\
             </Error></Errors></Response>"
        ),
        "kms" => format!("{{\"__type\":\"{code}\",\"message\":\"{message}\"}}"),
        _ => format!("{{\"Message\":\"{message}\",\"Internal\":\"ERROR:{code}:\"}}"),
    };
    (status, body)
}

/// The mistakes in a call's signature.
pub fn mistakes(call: &Call) -> Vec<String> {
    let header = |name: &str| call.headers.get(name).cloned().unwrap_or_default();
    let authorization = header("authorization");
    let part = |name: &str| {
        authorization
            .split([',', ' '])
            .find_map(|part| part.strip_prefix(name))
            .unwrap_or_default()
            .to_owned()
    };
    let (signed, signature) = (part("SignedHeaders="), part("Signature="));
    let mut found = Vec::new();
    let mut check = |wrong: bool, what: &str| {
        if wrong {
            found.push(what.to_owned());
        }
    };
    let hash = hex(digest::digest(&digest::SHA256, &call.body).as_ref());
    check(header("x-amz-content-sha256") != hash, "the body is not the signed one");
    for name in ["host", "x-amz-date", "x-amz-content-sha256"] {
        check(!signed.split(';').any(|one| one == name), &format!("`{name}` is not signed"));
    }
    for name in call.headers.keys().filter(|name| name.starts_with("x-amz-")) {
        check(!signed.split(';').any(|one| one == name), &format!("`{name}` is not signed"));
    }
    let scope = call.scope();
    check(scope.first().is_none_or(|key| key != ACCESS_KEY), "the access key is wrong");
    let headers: String =
        signed.split(';').map(|name| format!("{name}:{}\n", header(name))).collect();
    let canonical = format!("{}\n{}\n\n{headers}\n{signed}\n{hash}", call.method, call.path);
    let canonical = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{}\n{}\n{canonical}",
        header("x-amz-date"),
        scope[1..].join("/")
    );
    let secret = format!("AWS4{SECRET_KEY}").into_bytes();
    let key = scope[1..].iter().fold(secret, |key, part| mac(&key, part));
    check(hex(&mac(&key, &to_sign)) != signature, "the signature is wrong");
    found
}

fn mac(key: &[u8], message: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message.as_bytes()).as_ref().to_vec()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

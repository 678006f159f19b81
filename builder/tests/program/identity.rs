//! A web identity: the token of a CI job becomes credentials for an hour, and is never shown.

use crate::builds::done;
use crate::cloud::{ACCESS_KEY, Cloud, SECRET_KEY, SESSION_TOKEN};
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::open;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A token in the form of a job's: three parts of base64 (RFC 7515).
const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJyZXBvIn0.c2VjcmV0LXNpZ25hdHVyZQ";
const ROLE: &str = "arn:aws:iam::111122223333:role/release";

/// A fake STS that returns the same response to each call.
struct Sts {
    address: String,
    calls: Arc<Mutex<Vec<BTreeMap<String, String>>>>,
}

impl Sts {
    fn start(status: u16, body: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&calls);
        std::thread::spawn(move || {
            listener
                .incoming()
                .flatten()
                .for_each(|stream| answer(stream, status, &body, &received))
        });
        Sts { address, calls }
    }

    /// An STS that returns credentials.
    fn giving() -> Self {
        let given = format!(
            "<AccessKeyId>{ACCESS_KEY}</AccessKeyId><SecretAccessKey>{SECRET_KEY}</SecretAccessKey>\
             <SessionToken>{SESSION_TOKEN}</SessionToken>\
             <Expiration>2999-01-01T00:00:00Z</Expiration>"
        );
        let result = format!(
            "<AssumeRoleWithWebIdentityResult><Credentials>{given}</Credentials>\
             </AssumeRoleWithWebIdentityResult>"
        );
        Sts::start(
            200,
            format!(
                "<AssumeRoleWithWebIdentityResponse>{result}</AssumeRoleWithWebIdentityResponse>"
            ),
        )
    }
}

/// Reads one call, a form, and writes the response.
fn answer(
    mut stream: TcpStream,
    status: u16,
    body: &str,
    received: &Mutex<Vec<BTreeMap<String, String>>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().to_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap(),
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut form = vec![0; length];
    reader.read_exact(&mut form).unwrap();
    received.lock().unwrap().push(url::form_urlencoded::parse(&form).into_owned().collect());
    write!(
        stream,
        "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
}

/// Publishes as a job with this token.
fn publish(cloud: &Cloud, sts: &Sts) -> (Scratch, Ran) {
    let mut scratch = open();
    let file = scratch.path("token");
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let variables = [
        ("AWS_ENDPOINT_URL", cloud.address.as_str()),
        ("AWS_ENDPOINT_URL_STS", &sts.address),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
        ("AWS_ROLE_ARN", ROLE),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ];
    variables.iter().for_each(|(name, value)| scratch.set(name, *value));
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    let ran = scratch.osbuild(&[
        "publish",
        "aws",
        RECIPE,
        "--region",
        "eu-central-1",
        "--key",
        "mine",
        "--verbose",
    ]);
    (scratch, ran)
}

/// Asserts that neither the output nor a file in `out/` has one of the secrets.
#[track_caller]
fn assert_no_secrets(scratch: &Scratch, ran: &Ran) {
    let secrets = [TOKEN, SECRET_KEY, SESSION_TOKEN];
    assert!(
        secrets.iter().all(|secret| !ran.stderr.contains(secret) && !ran.stdout.contains(secret)),
        "{}",
        ran.stderr
    );
    let logs = scratch.project().join("out").join(RECIPE);
    for file in fs::read_dir(&logs).unwrap().chain(fs::read_dir(logs.join("logs")).unwrap()) {
        let path = file.unwrap().path();
        let bytes = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        assert!(
            secrets.iter().all(|secret| memchr::memmem::find(&bytes, secret.as_bytes()).is_none()),
            "{}",
            path.display()
        );
    }
}

#[test]
fn an_identity_token_becomes_credentials_and_neither_is_shown() {
    let (cloud, sts) = (Cloud::start(), Sts::giving());
    let (scratch, ran) = publish(&cloud, &sts);
    done(&ran);
    cloud.assert_no_mistakes();
    assert_no_secrets(&scratch, &ran);
    let requests = sts.calls.lock().unwrap().clone();
    assert_eq!(requests.len(), 1, "the credentials are reused for all calls");
    let output = |name: &str| requests[0][name].as_str();
    assert_eq!((output("Action"), output("Version")), ("AssumeRoleWithWebIdentity", "2011-06-15"));
    assert_eq!((output("WebIdentityToken"), output("RoleArn")), (TOKEN, ROLE));
    let calls = cloud.state.lock().unwrap().calls.clone();
    assert!(calls.iter().all(|call| {
        call.headers.get("x-amz-security-token").is_some_and(|token| token == SESSION_TOKEN)
    }));
}

#[test]
fn a_refused_identity_token_ends_the_publish_and_is_not_shown() {
    let cloud = Cloud::start();
    let error = format!(
        "<Error><Code>AccessDenied</Code><Message>not for {TOKEN} and \
         {SECRET_KEY}</Message></Error>"
    );
    let (scratch, ran) =
        publish(&cloud, &Sts::start(403, format!("<ErrorResponse>{error}</ErrorResponse>")));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("caused by: a web identity (AWS_WEB_IDENTITY_TOKEN_FILE): "),
        "{}",
        ran.stderr
    );
    assert_no_secrets(&scratch, &ran);
    assert_eq!(cloud.names(), Vec::<String>::new());
}

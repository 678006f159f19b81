//! Requests to the metadata service of a machine.

use osbuild_failure::{Explain, Failure, Outcome};
use std::io::Read;
use std::time::Duration;
use ureq::Agent;
use ureq::http::{Response, StatusCode};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A client. Neither a proxy nor a redirection leads to the service of this machine.
pub fn agent() -> Agent {
    Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .build()
        .into()
}

/// The body of an answer of at most `max` bytes; none if the service has nothing at `url`.
///
/// # Errors
/// There is no such answer.
pub fn body(
    url: &str,
    answer: Result<Response<ureq::Body>, ureq::Error>,
    max: usize,
) -> Outcome<Option<Vec<u8>>> {
    let mut answer = answer.explain(url)?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => return Ok(None),
        status => return Err(Failure::new(format!("{url}: {status}"))),
    }
    let mut body = Vec::new();
    // One byte more shows that there is more; the client's own limit refuses the last byte as well.
    let mut reader = answer.body_mut().as_reader().take(max as u64 + 1);
    reader.read_to_end(&mut body).explain(url)?;
    match body.len() > max {
        true => Err(Failure::new(format!("{url}: more than {max} bytes"))),
        false => Ok(Some(body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    /// The answer of a service with a body of this many bytes, of which `max` are accepted.
    fn answered(length: usize, max: usize) -> Outcome<Option<Vec<u8>>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let service = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The request, which has no body.
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(&[head.as_bytes(), &vec![b'#'; length]].concat()).unwrap();
        });
        let body = body(&url, agent().get(&url).call(), max);
        service.join().unwrap();
        body
    }

    #[test]
    fn a_body_may_be_as_long_as_the_limit_and_no_longer() {
        assert_eq!(answered(16384, 16384).unwrap().map(|body| body.len()), Some(16384));
        let failure = answered(16385, 16384).unwrap_err().to_string();
        assert!(failure.ends_with("more than 16384 bytes"), "{failure}");
    }
}

//! Waits for the next check, or for a person who asks for it through `init`.

use std::path::Path;
use std::time::{Duration, Instant};

use osbuild_protocol::{Client, Request};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Waits for `pause`, or until `init` at this socket passes on a request for a check. Returns
/// whether it did.
pub async fn comes_within(pause: Duration, socket: &Path) -> bool {
    let (socket, begun) = (socket.to_owned(), Instant::now());
    let is_asked = move || {
        let client = Client::connect(&socket, pause);
        client.and_then(|mut client| client.send(&Request::AwaitCheck)).is_ok()
    };
    if spawn_blocking(is_asked).await.unwrap_or(false) {
        return true;
    }
    // An `init` that cannot be reached ends the wait early.
    sleep(pause.saturating_sub(begun.elapsed())).await;
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    fn comes(pause: Duration, socket: &Path) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(comes_within(pause, socket))
    }

    #[test]
    fn a_request_ends_the_pause() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let init = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            stream.write_all(b"ok\n").unwrap();
            line
        });
        assert!(comes(Duration::from_secs(60), &socket));
        assert_eq!(init.join().unwrap(), "await-check\n");
    }

    #[test]
    fn without_a_request_the_pause_is_as_long_as_without_init() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let pause = Duration::from_millis(200);
        let _listener = UnixListener::bind(&socket).unwrap();
        for socket in [&socket, &folder.path().join("missing")] {
            let begun = Instant::now();
            assert!(!comes(pause, socket));
            assert!(begun.elapsed() >= pause);
        }
    }
}

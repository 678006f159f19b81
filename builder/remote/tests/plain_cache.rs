//! Questions to a plain cache whose answers take time.

use osbuild_remote::{Access, BlobId, Cache, Fault, Retry};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A plain cache that waits before each answer. It lacks the blobs whose hash ends with `0`, and
/// serves until the test program ends.
struct SlowCache {
    address: SocketAddr,
    requests: Arc<Requests>,
}

/// The numbers of requests that are open now, and that were open at the same time.
#[derive(Default)]
struct Requests {
    open: AtomicUsize,
    peak: AtomicUsize,
}

impl SlowCache {
    fn start(delay: Duration) -> SlowCache {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Requests::default());
        let counted = Arc::clone(&requests);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let requests = Arc::clone(&counted);
                thread::spawn(move || serve(client, delay, &requests));
            }
        });
        SlowCache { address, requests }
    }

    fn client(&self, idle_timeout: Duration) -> Cache {
        let address = format!("http://{}", self.address).parse().unwrap();
        Cache::new(&address, &Access::default(), Retry { idle_timeout, ..Retry::default() })
            .unwrap()
    }
}

/// Answers the requests of one connection, one after the other.
fn serve(client: TcpStream, delay: Duration, requests: &Requests) {
    let mut lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
    let mut client = client;
    while let Some(first) = lines.next() {
        lines.by_ref().find(String::is_empty).expect("a request ends with an empty line");
        let open = requests.open.fetch_add(1, Ordering::SeqCst) + 1;
        requests.peak.fetch_max(open, Ordering::SeqCst);
        thread::sleep(delay);
        requests.open.fetch_sub(1, Ordering::SeqCst);
        let status = if first.contains("0 HTTP/") { "404 Not Found" } else { "200 OK" };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        if client.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn blobs(count: u64) -> Vec<BlobId> {
    (0..count).map(|number| BlobId::new(format!("{number:064x}"), number)).collect()
}

#[test]
fn a_plain_cache_may_answer_all_questions_together_later_than_the_timeout() {
    let server = SlowCache::start(Duration::from_millis(100));
    let idle_timeout = Duration::from_secs(1);
    let (blobs, began) = (blobs(320), Instant::now());
    let missing = server.client(idle_timeout).missing(&blobs).unwrap();
    assert!(began.elapsed() > idle_timeout, "{:?}", began.elapsed());
    let lacking = blobs.into_iter().filter(|blob| blob.hash.ends_with('0'));
    assert_eq!(missing, lacking.collect::<HashSet<_>>());
}

#[test]
fn a_plain_cache_is_asked_for_several_blobs_at_once_and_for_sixteen_at_most() {
    let server = SlowCache::start(Duration::from_millis(100));
    server.client(Duration::from_secs(10)).missing(&blobs(40)).unwrap();
    let peak = server.requests.peak.load(Ordering::SeqCst);
    assert!((2..=16).contains(&peak), "{peak}");
}

#[test]
fn a_plain_cache_that_never_answers_is_silent() {
    let server = SlowCache::start(Duration::from_secs(3600));
    let fault = server.client(Duration::from_millis(300)).missing(&blobs(40)).unwrap_err();
    assert!(matches!(fault, Fault::Silent(_)), "{fault}");
}

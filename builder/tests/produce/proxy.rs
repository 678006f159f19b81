//! A proxy between a client and its cache, which does to their bytes what networks do.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The harm that the proxy does to the bytes from the server.
#[derive(Clone, Debug)]
pub enum Harm {
    /// All bytes pass.
    None,
    /// Waits before each piece.
    Delay(Duration),
    /// Passes this many bytes in a second.
    Slow(u32),
    /// Closes the connection at the first piece that contains these bytes.
    Cut(Vec<u8>),
    /// Closes one connection at the first piece that contains these bytes.
    CutOnce(Vec<u8>, Arc<AtomicBool>),
    /// Flips a bit of the first of these bytes, wherever they are.
    Flip(Vec<u8>),
    /// Puts the second bytes in the place of the first, which are as many, in this many pieces.
    Replace(&'static [u8], &'static [u8], Arc<AtomicUsize>),
    /// Passes nothing on, and closes nothing.
    Silence,
}

/// The address of a proxy in front of `server`. It serves until the test program ends.
pub fn proxy(server: SocketAddr, harm: Harm) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(upstream) = TcpStream::connect(server) else { continue };
            let (from, to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            thread::spawn(move || pass(from, to, &Harm::None));
            let harm = harm.clone();
            thread::spawn(move || pass(upstream, client, &harm));
        }
    });
    address
}

impl Harm {
    /// Closes one connection, whichever has these bytes first.
    pub fn cut_once(bytes: &[u8]) -> Harm {
        Harm::CutOnce(bytes.to_vec(), Arc::default())
    }

    /// Turns this many successful answers of HTTP/1.1 into answers with another status, such as
    /// `HTTP/1.1 503`.
    pub fn status(line: &'static [u8], times: usize) -> Harm {
        Harm::Replace(b"HTTP/1.1 200", line, Arc::new(AtomicUsize::new(times)))
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, harm: &Harm) {
    let mut piece = vec![0; 1 << 20];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        let piece = &mut piece[..read];
        match harm {
            Harm::None => {}
            Harm::Delay(time) => thread::sleep(*time),
            Harm::Slow(rate) => {
                thread::sleep(Duration::from_secs_f64(read as f64 / f64::from(*rate)));
            }
            Harm::Cut(bytes) if find(piece, bytes).is_some() => break,
            Harm::Flip(bytes) => {
                if let Some(place) = find(piece, bytes) {
                    piece[place] ^= 1;
                }
            }
            Harm::Replace(old, new, times) => {
                if let Some(place) = find(piece, old)
                    && is_left(times)
                {
                    piece[place..place + new.len()].copy_from_slice(new);
                }
            }
            Harm::Silence => continue,
            Harm::CutOnce(bytes, is_done)
                if find(piece, bytes).is_some() && !is_done.swap(true, Ordering::SeqCst) =>
            {
                break;
            }
            Harm::Cut(_) | Harm::CutOnce(..) => {}
        }
        if to.write_all(piece).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Counts down, and returns whether the number was above zero.
fn is_left(times: &AtomicUsize) -> bool {
    let less = |times: usize| times.checked_sub(1);
    times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

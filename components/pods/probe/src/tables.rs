//! Removes a table of nftables behind the back of the program that has set it.

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use osbuild_nftables::{Batch, Listing, Table};
use osbuild_rtnetlink::answers;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the table may be missing.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before it is listed again.
const PAUSE: Duration = Duration::from_millis(5);

/// Removes the table, and waits until it is as it was. Returns how long that took.
pub fn remove(table: &str) -> io::Result<Duration> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let before = list(&socket, table)?;
    let before = before.ok_or_else(|| io::Error::other(format!("there is no table `{table}`")))?;
    let (bytes, last) = Batch::removal(table).finish(1);
    socket.send(&bytes, 0)?;
    collect(&socket, last, &mut Listing::new(table))?;
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        if list(&socket, table)?.as_ref() == Some(&before) {
            return Ok(began.elapsed());
        }
        sleep(PAUSE);
    }
    Err(io::Error::other(format!("the table `{table}` stays away")))
}

fn list(socket: &Socket, table: &str) -> io::Result<Option<Table>> {
    let mut listing = Listing::new(table);
    let mut sequence = 100;
    while let Some(request) = listing.question() {
        sequence += 1;
        socket.send(&request.finish(sequence), 0)?;
        collect(socket, sequence, &mut listing)?;
    }
    Ok(listing.finish())
}

/// Takes the answers to a request up to the last one.
fn collect(socket: &Socket, sequence: u32, listing: &mut Listing) -> io::Result<()> {
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        for answer in answers(&bytes).filter(|answer| answer.sequence == sequence) {
            let number = answer.payload.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
            match (i32::from(answer.kind), number) {
                (libc::NLMSG_DONE, _) | (libc::NLMSG_ERROR, Some(0)) => return Ok(()),
                // The kernel's error numbers are negative.
                (libc::NLMSG_ERROR, Some(number)) => {
                    return Err(io::Error::from_raw_os_error(-number));
                }
                _ => listing.take(&answer),
            }
        }
    }
}

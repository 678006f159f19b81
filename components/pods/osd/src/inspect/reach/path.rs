//! The way to a target: the largest packet that arrives, and the routers.

use super::echo::{Echo, Reply};
use super::ping::{self, WAIT};
use super::steps::{Failed, Steps, Stop};
use super::words;
use osbuild_cosi::v1::{ReachMtu, ReachTrace};
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::Instant;

/// The largest packets of usual links and tunnels, of which the next is tried if a router drops one
/// that is too big and does not say so.
const USUAL: [usize; 11] = [9000, 1500, 1492, 1480, 1472, 1460, 1450, 1420, 1400, 1280, 576];

/// Packets of different size that are sent at most.
const MAX_SIZES: usize = 16;

/// Hops of a way at most, how many of them may be silent in a row, and how long each is waited for.
const MAX_HOPS: u32 = 30;
const MAX_SILENT: u32 = 5;
const HOP_WAIT: Duration = Duration::from_millis(1500);

/// Finds the path MTU of the first address of the host.
pub async fn mtu(ReachMtu { host }: ReachMtu, steps: &Steps<'_>) -> Result<String, Stop> {
    let (mut echo, address) = ping::open(&host, steps).await?;
    if ping::send(&mut echo, address, steps).await.is_none() {
        let summary = format!("{address} answers no small packet, so a large one says nothing");
        return Err(Stop::Unreached(summary));
    }
    let cannot = |error: io::Error| Stop::Unreached(words::reach(&error, address).error);
    echo.forbid_fragments().map_err(cannot)?;
    let (mut size, mut is_black_hole) = (echo.mtu().map_err(cannot)?, false);
    for _ in 0..MAX_SIZES {
        let began = Instant::now();
        let reply = send_again(&mut echo, size).await.map_err(cannot)?;
        let (peer, outcome, next) = match reply {
            Reply::Echo(_) => (address, Ok(format!("{size} bytes arrive")), None),
            Reply::TooBig { max, from } => {
                let words = format!("{size} bytes are too many here, {max} are the most");
                (from.unwrap_or(address), Ok(words), Some(max.min(size.saturating_sub(1))))
            }
            Reply::Silence | Reply::HopsUsed { .. } => {
                is_black_hole = true;
                let failed = Failed::new(
                    format!("{size} bytes do not arrive"),
                    "a router drops packets that are too big, and does not say so",
                );
                (address, Err(failed), USUAL.into_iter().find(|usual| *usual < size))
            }
            Reply::Undeliverable { from, error } => {
                let failed = words::reach(&error.into(), address);
                (from.unwrap_or(address), Err(failed), Some(0))
            }
        };
        steps.tell("packet", peer.to_string(), began, outcome.as_ref().cloned()).await;
        size = match next {
            None if is_black_hole => {
                return Ok(format!(
                    "packets of {size} bytes reach {address}, some larger ones are lost: TCP may \
                     hang there"
                ));
            }
            None => return Ok(format!("packets of {size} bytes reach {address}: the path MTU")),
            Some(next) => next,
        };
        if size < ping::SMALL {
            break;
        }
    }
    Err(Stop::Unreached(format!("no path MTU to {address} was found")))
}

/// Sends a packet, and again if nothing comes back: one that was lost says nothing about its size.
/// With all sizes silent that takes 48 of the 60 seconds of a call.
async fn send_again(echo: &mut Echo, size: usize) -> io::Result<Reply> {
    match echo.send(size, WAIT).await? {
        Reply::Silence => echo.send(size, WAIT).await,
        reply => Ok(reply),
    }
}

/// Finds the routers on the way to the first address of the host.
pub async fn trace(ReachTrace { host }: ReachTrace, steps: &Steps<'_>) -> Result<String, Stop> {
    let (mut echo, address) = ping::open(&host, steps).await?;
    let (mut silent, mut last) = (0, None::<IpAddr>);
    for hop in 1..=MAX_HOPS {
        let cannot = |error: io::Error| Stop::Unreached(words::reach(&error, address).error);
        echo.set_hops(hop).map_err(cannot)?;
        let began = Instant::now();
        let reply = echo.send(ping::SMALL, HOP_WAIT).await.map_err(cannot)?;
        let (peer, outcome) = match &reply {
            Reply::Echo(_) => (Some(address), Ok(format!("{hop}: the target"))),
            Reply::HopsUsed { from, .. } => (*from, Ok(format!("{hop}: a router"))),
            Reply::TooBig { from, .. } => (*from, Err(Failed::new("the packet is too big", ""))),
            Reply::Undeliverable { from, error } => {
                (*from, Err(words::reach(&(*error).into(), address)))
            }
            Reply::Silence => (None, Err(Failed::new(format!("{hop}: no answer"), ""))),
        };
        let shown = peer.map(|peer| peer.to_string()).unwrap_or_default();
        steps.tell("hop", shown, began, outcome.as_ref().cloned()).await;
        silent = if reply == Reply::Silence { silent + 1 } else { 0 };
        last = peer.or(last);
        match reply {
            Reply::Echo(_) => return Ok(format!("{address} is {hop} hops away")),
            Reply::Undeliverable { .. } | Reply::TooBig { .. } => break,
            _ if silent == MAX_SILENT => break,
            _ => {}
        }
    }
    let last = last.map_or("nobody".to_owned(), |last| last.to_string());
    Err(Stop::Unreached(format!("{address} is not reached; the last that has answered is {last}")))
}

//! Sends ICMP echo requests, one a second.

use super::echo::{Echo, Reply};
use super::lookup::addresses;
use super::steps::{Failed, Steps, Stop};
use super::words;
use osbuild_cosi::v1::ReachPing;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Requests, if the client does not say how many, and the most.
const COUNT: u32 = 4;
const MAX_COUNT: u32 = 20;

/// The pause between two requests, and how long one is waited for.
const PAUSE: Duration = Duration::from_secs(1);
pub const WAIT: Duration = Duration::from_secs(2);

/// The bytes of a packet that every link carries.
pub const SMALL: usize = 84;

/// Sends the requests to the first address of the host.
pub async fn probe(
    ReachPing { host, count }: ReachPing,
    steps: &Steps<'_>,
) -> Result<String, Stop> {
    let count = match count {
        0 => COUNT,
        1..=MAX_COUNT => count,
        _ => return Err(Stop::malformed(format!("at most {MAX_COUNT} packets are sent"))),
    };
    let (mut echo, address) = open(&host, steps).await?;
    let mut times = Vec::new();
    for number in 0..count {
        let began = Instant::now();
        times.extend(send(&mut echo, address, steps).await);
        if number + 1 < count {
            sleep_until(began + PAUSE).await;
        }
    }
    let (Some(least), Some(most)) = (times.iter().min(), times.iter().max()) else {
        return Err(Stop::Unreached(format!("{address} has answered none of {count} packets")));
    };
    let mean = times.iter().sum::<Duration>() / u32::try_from(times.len()).unwrap_or(1);
    let [least, mean, most] = [*least, mean, *most].map(milliseconds);
    let received = times.len();
    Ok(format!(
        "{address} has answered {received} of {count}: {least}, {mean}, {most} ms (least, \
                mean, most)"
    ))
}

/// A socket to the first address of the host.
pub async fn open(host: &str, steps: &Steps<'_>) -> Result<(Echo, IpAddr), Stop> {
    let addresses = addresses(host, steps).await?;
    let first = addresses.first().copied();
    let address = first.ok_or_else(|| Stop::Unreached(format!("{host} has no address")))?;
    match Echo::open(address) {
        Ok(echo) => Ok((echo, address)),
        Err(failed) => {
            steps.tell("packet", address.to_string(), Instant::now(), Err(&failed)).await;
            Err(Stop::Unreached(format!("{address} is not reached: {}", failed.error)))
        }
    }
}

/// Sends a small packet, reports the reply, and returns the time of an echo.
pub async fn send(echo: &mut Echo, address: IpAddr, steps: &Steps<'_>) -> Option<Duration> {
    let began = Instant::now();
    let (peer, outcome) = match echo.send(SMALL, WAIT).await {
        Ok(Reply::Echo(time)) => (address, Ok(time)),
        Ok(Reply::Undeliverable { from, error }) => {
            (from.unwrap_or(address), Err(words::reach(&error.into(), address)))
        }
        Ok(Reply::TooBig { max, from }) => (
            from.unwrap_or(address),
            Err(Failed::new(format!("a link on the way carries only {max} bytes"), "")),
        ),
        Ok(Reply::HopsUsed { from, .. }) => (
            from.unwrap_or(address),
            Err(Failed::new("the packet has used up its hops", "routers send it in a circle")),
        ),
        Ok(Reply::Silence) => (
            address,
            Err(Failed::new(
                format!("no answer within {} s", WAIT.as_secs()),
                "a firewall drops the packets, or no machine has the address",
            )),
        ),
        Err(error) => (address, Err(words::reach(&error, address))),
    };
    let words = outcome.as_ref().map(|_| format!("{SMALL} bytes"));
    steps.tell("reply", peer.to_string(), began, words).await;
    outcome.ok()
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1000.0)
}

//! Opens a TCP connection.

use super::lookup::addresses;
use super::steps::{Failed, Steps, Stop};
use super::words;
use osbuild_cosi::v1::ReachTcp;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// Tries the addresses of the host in turn, and closes the connection at once.
pub async fn probe(ReachTcp { host, port }: ReachTcp, steps: &Steps<'_>) -> Result<String, Stop> {
    let port = u16::try_from(port).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| Stop::malformed("a port is a number from 1 to 65535"))?;
    let (_, address) = connect(&host, port, steps).await?;
    Ok(format!("{address} accepts connections"))
}

/// A connection to the first address of the host that accepts one, and that address.
pub async fn connect(
    host: &str,
    port: u16,
    steps: &Steps<'_>,
) -> Result<(TcpStream, SocketAddr), Stop> {
    let mut last = Failed::new("it has no address", "");
    for ip in addresses(host, steps).await? {
        let address = SocketAddr::new(ip, port);
        let opened = async {
            TcpStream::connect(address).await.map_err(|error| words::connect(&error, address))
        };
        match steps.run("connect", address, opened, |_| "connected".to_owned()).await {
            Ok(stream) => return Ok((stream, address)),
            Err(failed) => last = failed,
        }
    }
    Err(Stop::Unreached(format!("port {port} of {host} is not reached: {}", last.error)))
}

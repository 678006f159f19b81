//! A client's request for a capture, checked.

use super::link;
use osbuild_cosi::v1::{CaptureLink, CaptureRequest};
use osbuild_packet_filter::{Connection, Filter, FilterError, Framing, Instruction};
use std::time::Duration;
use tonic::Status;

/// The most bytes of a packet that are kept, as of tcpdump.
const MAX_SNAP_LENGTH: u32 = 262_144;

/// A checked request for a capture.
#[derive(Debug)]
pub struct Request {
    /// The link; nothing stands for all links.
    pub link: Option<CaptureLink>,
    /// The links that there are.
    pub links: Vec<CaptureLink>,
    /// The format of the header at the start of each packet.
    pub framing: Framing,
    /// The BPF program that selects packets and truncates them.
    pub program: Vec<Instruction>,
    /// How many packets, if that is limited.
    pub count: Option<u64>,
    /// For how long, if that is limited.
    pub time: Option<Duration>,
    /// Whether the link receives packets for other machines.
    pub is_promiscuous: bool,
}

impl Request {
    /// Checks the request of a client. `own` is the client's connection if it is on the network;
    /// its packets are left out, unless the request asks for them.
    ///
    /// # Errors
    /// The link does not exist, or something is malformed.
    pub fn check(request: CaptureRequest, own: Option<Connection>) -> Result<Request, Status> {
        let links = link::all().map_err(|error| Status::internal(error.to_string()))?;
        let (link, framing) = match request.link.as_str() {
            "" => (None, Framing::Cooked),
            name => {
                let link = links.iter().find(|link| link.name == name);
                let link = link.cloned().ok_or_else(|| missing(name, &links))?;
                let framing = link::framing(name);
                (Some(link), framing.map_err(|error| Status::internal(error.to_string()))?)
            }
        };
        let snap_length = match request.snap_length {
            0 => MAX_SNAP_LENGTH,
            length @ ..=MAX_SNAP_LENGTH => length,
            _ => {
                let most = format!("a packet is kept up to {MAX_SNAP_LENGTH} bytes");
                return Err(Status::invalid_argument(most));
            }
        };
        if request.promiscuous && link.is_none() {
            return Err(Status::invalid_argument("one link is promiscuous, not all: name it"));
        }
        let own = own.filter(|_| !request.own_connection);
        Ok(Request {
            link,
            links,
            framing,
            program: program(&request.filter, framing, own, snap_length).map_err(malformed)?,
            count: Some(request.count).filter(|count| *count > 0),
            time: Some(Duration::from_millis(request.milliseconds)).filter(|time| !time.is_zero()),
            is_promiscuous: request.promiscuous,
        })
    }
}

/// The program of the filter without the packets of the client's own connection, which would be
/// more with each one that is sent, and without those that the loopback shows twice.
fn program(
    filter: &str,
    framing: Framing,
    own: Option<Connection>,
    snap_length: u32,
) -> Result<Vec<Instruction>, FilterError> {
    let mut filter = Filter::parse(filter, framing)?.without_loopback_echo();
    if let Some(own) = own {
        filter = filter.without(&own);
    }
    filter.compile(snap_length)
}

fn malformed(error: FilterError) -> Status {
    Status::invalid_argument(error.to_string())
}

fn missing(name: &str, links: &[CaptureLink]) -> Status {
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    let names = names.join("`, `");
    Status::not_found(format!("there is no link `{}`; there are `{names}`", name.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn code(request: CaptureRequest) -> Code {
        Request::check(request, None).unwrap_err().code()
    }

    #[test]
    fn what_cannot_be_captured_is_refused() {
        let lo = || CaptureRequest { link: "lo".into(), ..CaptureRequest::default() };
        assert!(Request::check(lo(), None).is_ok());
        let link = || "missing".to_owned();
        assert_eq!(code(CaptureRequest { link: link(), ..lo() }), Code::NotFound);
        assert_eq!(code(CaptureRequest { snap_length: 262_145, ..lo() }), Code::InvalidArgument);
        let filter = || "prot 80".to_owned();
        assert_eq!(code(CaptureRequest { filter: filter(), ..lo() }), Code::InvalidArgument);
        let all = CaptureRequest { promiscuous: true, ..CaptureRequest::default() };
        assert_eq!(code(all), Code::InvalidArgument);
    }
}

//! Asks name servers for the addresses of a name (RFC 1035).

use super::lookup::servers;
use super::steps::{Failed, Steps, Stop};
use super::words;
use osbuild_cosi::v1::ReachDns;
use rustix::rand::{GetRandomFlags, getrandom};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// The port of name servers.
pub const PORT: u16 = 53;

/// How long a server may take to answer a datagram, and how often it is asked.
const DATAGRAM_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long an answer over TCP may take.
const STREAM_TIMEOUT: Duration = Duration::from_secs(3);
const TRIES: usize = 2;

/// The greatest answer in a datagram, in bytes: nobody sends more unless asked to (RFC 1035).
const MAX_DATAGRAM: usize = 4 << 10;

/// Of an answer, the most addresses and the most aliases that are shown.
const MAX_SHOWN: usize = 16;

/// The records of a name, as a server returned them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The names that it is an alias of.
    pub aliases: Vec<String>,
    /// For how long that may be kept, in seconds.
    pub ttl: Option<u32>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The server says that the name does not exist.
    NoName,
    /// The server has not answered.
    Silence(Failed),
    /// Anything else.
    Failed(Failed),
}

/// Asks each server, and succeeds if one knows an address.
pub async fn probe(ReachDns { name, server }: ReachDns, steps: &Steps<'_>) -> Result<String, Stop> {
    let (name, servers) = (checked(&name)?, asked(&server, steps)?);
    let mut known = false;
    for server in servers {
        let asked = async { query(server, &name).await.map_err(|why| why.words(&name)) };
        known |= steps.run("query", server, asked, Answer::words).await.is_ok();
    }
    match known {
        true => Ok(format!("{name} has addresses")),
        false => Err(Stop::Unreached(format!("no server knows an address of {name}"))),
    }
}

/// The servers to ask: one, or those of the node.
fn asked(server: &str, steps: &Steps<'_>) -> Result<Vec<SocketAddr>, Stop> {
    if server.is_empty() {
        let servers = servers(steps)?;
        return match servers.is_empty() {
            true => Err(Stop::Unreached("the node has no name server".to_owned())),
            false => Ok(servers),
        };
    }
    let address = server.parse::<SocketAddr>().ok();
    let address = address.or_else(|| server.parse().ok().map(|ip| SocketAddr::new(ip, PORT)));
    let address = address
        .ok_or_else(|| Stop::malformed(format!("the server `{server}` is not an IP address")))?;
    steps.reachable.check(address.ip())?;
    Ok(vec![address])
}

/// The name without a dot at its end, if it is one of DNS.
pub fn checked(name: &str) -> Result<String, Stop> {
    let short = name.strip_suffix('.').unwrap_or(name);
    let is_name = short.len() <= 253
        && short.split('.').all(|label| {
            let is_part = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
            (1..=63).contains(&label.len()) && label.bytes().all(is_part)
        });
    match is_name {
        true => Ok(short.to_owned()),
        false => Err(Stop::malformed(format!("`{name}` is not a name of DNS"))),
    }
}

impl Answer {
    fn words(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(IpAddr::to_string).collect();
        let mut words = addresses.join(", ");
        if !self.aliases.is_empty() {
            words += &format!(", an alias of {}", self.aliases.join(", "));
        }
        if let Some(ttl) = self.ttl {
            words += &format!(", for {ttl} s");
        }
        words
    }
}

impl NoAnswer {
    /// The failure for this name, with its usual cause.
    pub fn words(self, name: &str) -> Failed {
        match self {
            NoAnswer::NoName => Failed::new(
                format!("{name} does not exist"),
                "the server answers; the name is misspelt, or another server knows it",
            ),
            NoAnswer::Silence(failed) | NoAnswer::Failed(failed) => failed,
        }
    }
}

/// Asks a server for the addresses of both families.
pub async fn query(server: SocketAddr, name: &str) -> Result<Answer, NoAnswer> {
    let (v4, v6) = tokio::join!(ask(server, name, TYPE::A), ask(server, name, TYPE::AAAA));
    let (mut answer, other) = match (v4, v6) {
        (Ok(first), Ok(second)) => (first, second),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) if !one.addresses.is_empty() => {
            (one, Answer::default())
        }
        (Err(why), _) | (_, Err(why)) => return Err(why),
    };
    answer.addresses.extend(other.addresses);
    answer.ttl = answer.ttl.into_iter().chain(other.ttl).min();
    if answer.aliases.is_empty() {
        answer.aliases = other.aliases;
    }
    match answer.addresses.is_empty() {
        true => Err(NoAnswer::Failed(Failed::new(
            format!("{name} has no address"),
            "the server answers, and the name exists with other records only",
        ))),
        false => Ok(answer),
    }
}

async fn ask(server: SocketAddr, name: &str, kind: TYPE) -> Result<Answer, NoAnswer> {
    let mut id = [0; 2];
    let _ = getrandom(&mut id, GetRandomFlags::empty());
    let id = u16::from_ne_bytes(id);
    let question = question(id, name, kind).map_err(NoAnswer::malformed)?;
    let io = |error: io::Error| NoAnswer::of_io(&error, server);
    match ask_datagram(server, &question, id, name).await.map_err(io)? {
        None => Err(NoAnswer::Silence(Failed::new(
            "no answer",
            format!(
                "a firewall drops the packets, or no name server is at {}, port {}",
                server.ip(),
                server.port()
            ),
        ))),
        Some(Reading::Done(answer)) => answer,
        Some(Reading::Truncated) => {
            let asked = timeout(STREAM_TIMEOUT, ask_stream(server, &question)).await;
            let bytes = asked.map_err(|_| dropped_stream(server))?.map_err(io)?;
            match read(&bytes, id, name) {
                Some(Reading::Done(answer)) => answer,
                _ => Err(NoAnswer::malformed("over TCP")),
            }
        }
    }
}

fn dropped_stream(server: SocketAddr) -> NoAnswer {
    let (address, port) = (server.ip(), server.port());
    NoAnswer::Failed(Failed::new(
        "no answer over TCP",
        format!(
            "it is too long for a datagram, and a firewall drops TCP to {address}, port {port}"
        ),
    ))
}

fn question(id: u16, name: &str, kind: TYPE) -> simple_dns::Result<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let (kind, class) = (QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN));
    packet.questions.push(Question::new(Name::new(name)?, kind, class, false));
    packet.build_bytes_vec()
}

/// Asks a few times, and takes the first message that answers the question.
async fn ask_datagram(
    server: SocketAddr,
    question: &[u8],
    id: u16,
    name: &str,
) -> io::Result<Option<Reading>> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    let mut buffer = vec![0; MAX_DATAGRAM];
    for _ in 0..TRIES {
        socket.send(question).await?;
        let receive = async {
            loop {
                let length = socket.recv(&mut buffer).await?;
                if let Some(reading) = read(&buffer[..length], id, name) {
                    return Ok::<_, io::Error>(reading);
                }
            }
        };
        if let Ok(reading) = timeout(DATAGRAM_TIMEOUT, receive).await {
            return reading.map(Some);
        }
    }
    Ok(None)
}

/// Asks over TCP, where each message has its length before it.
async fn ask_stream(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// A message that answers the question.
enum Reading {
    /// With what it says.
    Done(Result<Answer, NoAnswer>),
    /// It does not fit into a datagram.
    Truncated,
}

/// Reads a message; nothing if it is no answer to this question.
fn read(bytes: &[u8], id: u16, name: &str) -> Option<Reading> {
    let packet = Packet::parse(bytes).ok()?;
    let is_name = |question: &Question| question.qname.to_string().eq_ignore_ascii_case(name);
    if packet.id() != id
        || !packet.has_flags(PacketFlag::RESPONSE)
        || !packet.questions.first().is_some_and(is_name)
    {
        return None;
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Some(Reading::Truncated);
    }
    Some(Reading::Done(match packet.rcode() {
        RCODE::NoError => Ok(answer(&packet)),
        RCODE::NameError => Err(NoAnswer::NoName),
        RCODE::ServerFailure => Err(NoAnswer::Failed(Failed::new(
            "the server has failed",
            "the servers that it asks do not answer, or their answer is not signed as it should be",
        ))),
        RCODE::Refused => Err(NoAnswer::Failed(Failed::new(
            "refused",
            "the server does not answer for this name, or not to the node",
        ))),
        other => Err(NoAnswer::Failed(Failed::new(format!("the server answers {other:?}"), ""))),
    }))
}

fn answer(packet: &Packet) -> Answer {
    let mut answer = Answer::default();
    for record in packet.answers.iter().take(4 * MAX_SHOWN) {
        match &record.rdata {
            RData::A(a) => answer.addresses.push(Ipv4Addr::from(a.address).into()),
            RData::AAAA(aaaa) => answer.addresses.push(Ipv6Addr::from(aaaa.address).into()),
            RData::CNAME(alias) => answer.aliases.push(alias.0.to_string()),
            _ => continue,
        }
        answer.ttl = Some(answer.ttl.map_or(record.ttl, |ttl| ttl.min(record.ttl)));
    }
    answer.addresses.truncate(MAX_SHOWN);
    answer.aliases.truncate(MAX_SHOWN);
    answer
}

impl NoAnswer {
    fn malformed(what: impl std::fmt::Display) -> NoAnswer {
        NoAnswer::Failed(Failed::new(format!("a malformed message: {what}"), ""))
    }

    fn of_io(error: &io::Error, server: SocketAddr) -> NoAnswer {
        NoAnswer::Failed(match error.kind() {
            io::ErrorKind::ConnectionRefused => Failed::new(
                "connection refused",
                format!("{} answers, but no name server is at port {}", server.ip(), server.port()),
            ),
            _ => words::reach(error, server.ip()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_names_of_dns_are_asked_for() {
        assert_eq!(checked("api.example.org.").unwrap(), "api.example.org");
        assert!(checked("_http._tcp.example.org").is_ok());
        for wrong in ["", ".", "a..b", "a b", "b\u{fc}cher.example", "a/b", &"a".repeat(64)] {
            assert!(checked(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_message_that_answers_another_question_is_ignored() {
        let mut packet = Packet::new_reply(7);
        let class = QCLASS::CLASS(CLASS::IN);
        let question = Question::new(
            Name::new("Api.example.org").unwrap(),
            QTYPE::TYPE(TYPE::A),
            class,
            false,
        );
        packet.questions.push(question);
        *packet.rcode_mut() = RCODE::NameError;
        let bytes = packet.build_bytes_vec().unwrap();
        assert!(matches!(
            read(&bytes, 7, "api.example.org"),
            Some(Reading::Done(Err(NoAnswer::NoName)))
        ));
        assert!(read(&bytes, 8, "api.example.org").is_none());
        assert!(read(&bytes, 7, "other.example.org").is_none());
        let query = self::question(7, "api.example.org", TYPE::A).unwrap();
        assert!(read(&query, 7, "api.example.org").is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let _ = read(&bytes, 7, "a.example");
        }

        #[test]
        fn a_damaged_answer_is_read_without_a_panic(
            tail in proptest::collection::vec(any::<u8>(), 0..200),
            flags in any::<[u8; 10]>(),
        ) {
            let mut bytes = question(7, "a.example", TYPE::A).unwrap();
            bytes[2..12].copy_from_slice(&flags);
            bytes[2] |= 0x80;
            bytes.extend(tail);
            let _ = read(&bytes, 7, "a.example");
        }
    }
}

//! The clients of the container runtime, lines of the node's state.

use std::time::Duration;

use crate::fields::{number, printable, value};
use crate::setting::escape::{escaped, unescape};

/// The maximum number of clients.
pub const MAX_RUNTIME_CLIENTS: usize = 64;
/// The maximum characters of a text: the longest path of a container's control group, and the
/// longest name of a pod with its namespace, are shorter.
const MAX_TEXT: usize = 320;
/// The maximum bytes of all lines, so that they fit into the report of a child of `init`, which
/// BPF programs take most of.
const MAX_BYTES: usize = 32 << 10;

/// The keys of the lines: of the number of clients, and of each.
const COUNT: &str = "runtime-clients";
const CLIENT: &str = "runtime-client";

/// The processes that are connected to the container runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeClients {
    /// How many are missing because there are too many.
    pub left_out: u64,
    /// The others.
    pub clients: Vec<RuntimeClient>,
}

/// A process that has connected to the container runtime, whose connections are open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeClient {
    /// Its process identifier.
    pub pid: i32,
    /// The number of its connections.
    pub connections: u32,
    /// The process; none if it has ended, and another one holds its connections.
    pub process: Option<ClientProcess>,
}

/// The process of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientProcess {
    /// The path of its program, in the file system that it sees.
    pub program: String,
    /// Its pod, as `NAMESPACE/NAME`, or the identifier of the pod if that has no logs. Empty if it
    /// is in none.
    pub pod: String,
    /// Its control group, from the root of all.
    pub cgroup: String,
    /// When it was started, since boot.
    pub since: Duration,
}

impl RuntimeClients {
    /// The lines for them. Texts are cut, and the last clients are left out if all have no room.
    pub fn encode(&self) -> String {
        let (mut lines, mut count) = (String::new(), 0);
        for line in self.clients.iter().take(MAX_RUNTIME_CLIENTS).map(line) {
            if lines.len() + line.len() > MAX_BYTES {
                break;
            }
            lines.push_str(&line);
            count += 1;
        }
        let left_out = self.left_out.saturating_add((self.clients.len() - count) as u64);
        format!("{COUNT} left-out={left_out}\n{lines}")
    }

    /// Finds the lines among others; `None` if there are none.
    pub fn decode<'t>(lines: impl Iterator<Item = &'t str>) -> Option<Self> {
        let (mut left_out, mut clients) = (None, Vec::new());
        for (key, fields) in lines.filter_map(|line| line.split_once(' ')) {
            match key {
                COUNT => left_out = number(fields, "left-out"),
                CLIENT if clients.len() < MAX_RUNTIME_CLIENTS => clients.extend(client(fields)),
                _ => {}
            }
        }
        Some(Self { left_out: left_out?, clients })
    }
}

fn line(client: &RuntimeClient) -> String {
    let RuntimeClient { pid, connections, process } = client;
    let process = process.as_ref().map(|ClientProcess { program, pod, cgroup, since }| {
        format!(
            " program={} pod={} cgroup={} since={}",
            word(program),
            word(pod),
            word(cgroup),
            since.as_millis()
        )
    });
    format!("{CLIENT} pid={pid} connections={connections}{}\n", process.unwrap_or_default())
}

fn client(fields: &str) -> Option<RuntimeClient> {
    let (pid, connections) = (number(fields, "pid")?, number(fields, "connections")?);
    let text = |key: &str| value(fields, key).and_then(unescape);
    let process = match value(fields, "program") {
        Some(program) => Some(ClientProcess {
            program: unescape(program)?,
            pod: text("pod")?,
            cgroup: text("cgroup")?,
            since: Duration::from_millis(number(fields, "since")?),
        }),
        None => None,
    };
    Some(RuntimeClient { pid, connections, process })
}

/// The word for a name that a pod has chosen.
fn word(text: &str) -> String {
    escaped(&printable(&text.chars().take(MAX_TEXT).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_read_as_they_were_written() {
        let process = ClientProcess {
            program: "/usr/bin/a b".to_owned(),
            pod: "default/tool".to_owned(),
            cgroup: "/kubepods/pod0/1".to_owned(),
            since: Duration::from_millis(61_007),
        };
        let alive = RuntimeClient { pid: 812, connections: 2, process: Some(process) };
        let ended = RuntimeClient { pid: 901, connections: 1, process: None };
        let found = RuntimeClients { left_out: 3, clients: vec![alive, ended] };
        let text = found.encode();
        assert_eq!(
            text,
            "runtime-clients left-out=3\nruntime-client pid=812 connections=2 \
             program=/usr/bin/a%20b pod=default/tool cgroup=/kubepods/pod0/1 since=61007\n\
             runtime-client pid=901 connections=1\n"
        );
        assert_eq!(RuntimeClients::decode(text.lines()), Some(found));
        assert_eq!(RuntimeClients::decode(text.lines().skip(1)), None);
    }

    #[test]
    fn clients_beyond_the_limits_are_counted() {
        let small = RuntimeClient::default();
        let all = RuntimeClients { left_out: 1, clients: vec![small; MAX_RUNTIME_CLIENTS + 2] };
        let again = RuntimeClients::decode(all.encode().lines()).unwrap();
        assert_eq!((again.left_out, again.clients.len()), (3, MAX_RUNTIME_CLIENTS));
        let text = "%".repeat(999);
        let process = ClientProcess {
            program: text.clone(),
            pod: text.clone(),
            cgroup: text,
            since: Duration::ZERO,
        };
        let large = RuntimeClient { process: Some(process), ..RuntimeClient::default() };
        let all = RuntimeClients { left_out: 1, clients: vec![large; MAX_RUNTIME_CLIENTS] };
        let text = all.encode();
        assert!(text.len() <= MAX_BYTES + 99 && text.lines().all(|line| line.len() < 16 << 10));
        let again = RuntimeClients::decode(text.lines()).unwrap();
        let count = again.clients.len();
        assert!(count > 8 && count as u64 + again.left_out == MAX_RUNTIME_CLIENTS as u64 + 1);
    }
}

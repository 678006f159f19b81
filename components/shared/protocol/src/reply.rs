//! What `init` replies.

use crate::{NodeStatus, Request, Slots};

/// Ends the reply to a request that was carried out.
pub const OK: &str = "ok";
/// Starts the only line of a refusal.
pub const ERROR: &str = "error: ";

/// The data of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// None: the request was carried out.
    Done,
    /// To [`Request::LastSeen`].
    LastSeen(LastSeen),
    /// To [`Request::Status`].
    Node(Box<NodeStatus>),
    /// To [`Request::SlotsStatus`].
    Slots(Slots),
    /// To [`Request::OpenSlot`]: how many bytes the slot has. Its descriptor comes with the first
    /// byte of the reply.
    Slot {
        /// The bytes.
        length: u64,
    },
}

/// When the node last ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastSeen {
    /// Seconds since 1970; 0 if the node has never run, or this is unknown.
    pub seconds: u64,
    /// Whether the machine's clock kept the time since then. A clock that stood before that moment,
    /// or before the image was made, did not; of an unknown answer the same is assumed.
    pub clock_kept: bool,
}

impl Reply {
    /// The lines, each with its end, up to the closing [`OK`].
    pub fn encode(&self) -> String {
        let data = match self {
            Self::Done => String::new(),
            Self::LastSeen(LastSeen { seconds, clock_kept }) => {
                format!("seen {seconds}\nkept {}\n", if *clock_kept { "yes" } else { "no" })
            }
            Self::Node(status) => status.encode(),
            Self::Slots(slots) => slots.encode(),
            Self::Slot { length } => format!("length {length}\n"),
        };
        format!("{data}{OK}\n")
    }

    /// Reads the lines of data, without their ends and without [`OK`], of the reply to `request`.
    ///
    /// # Errors
    /// A line that the reply needs is not there, or cannot be read.
    pub fn decode(request: &Request, lines: &[String]) -> Result<Self, String> {
        let line =
            |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        Ok(match request {
            Request::LastSeen => Self::LastSeen(LastSeen {
                seconds: line("seen").and_then(|seconds| seconds.parse().ok()).unwrap_or(0),
                clock_kept: line("kept") == Some("yes"),
            }),
            Request::Status => Self::Node(Box::new(NodeStatus::decode(lines)?)),
            Request::SlotsStatus => Self::Slots(Slots::decode(lines)?),
            Request::OpenSlot => {
                let length = line("length").and_then(|length| length.parse().ok());
                Self::Slot { length: length.ok_or("there is no line `length`")? }
            }
            Request::HostName(_)
            | Request::Resolver { .. }
            | Request::TimeServers(_)
            | Request::Addresses { .. }
            | Request::RouterAdvertisements(_)
            | Request::ClockSet(_)
            | Request::ClockRefused(_)
            | Request::TrySlot
            | Request::ReplaceBootProgram
            | Request::RestartKubelet
            | Request::Reboot
            | Request::PowerOff => Self::Done,
        })
    }
}

//! The replies of `init`.

use crate::{BlockDevice, HostSettings, NetworkSettings, NodeStatus, Request, Slots, setting};

/// The last line of the reply to a successful request.
pub const OK: &str = "ok";
/// The start of the only line of a refusal.
pub const ERROR: &str = "error: ";

/// The data of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// No data: the request succeeded.
    Done,
    /// To [`Request::LastSeen`].
    LastSeen(LastSeen),
    /// To [`Request::Status`].
    Node(Box<NodeStatus>),
    /// To [`Request::SlotsStatus`].
    Slots(Slots),
    /// To [`Request::OpenSlot`]: the size of the slot. Its descriptor comes with the first byte of
    /// the reply.
    Slot {
        /// The bytes.
        length: u64,
    },
    /// To [`Request::OpenVolume`]: the device of the volume, if there is one. Its descriptor comes
    /// with the first byte of the reply.
    Volume(Option<BlockDevice>),
    /// To [`Request::Observe`].
    Settings(HostSettings),
    /// To [`Request::AwaitNetwork`].
    Network(NetworkSettings),
}

/// When the node last ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastSeen {
    /// Seconds since 1970; 0 if the node has never run, or this is unknown.
    pub seconds: u64,
    /// Whether the machine's clock has kept the time since then. It has not if it shows a time
    /// before that moment or before the image was made, or if the answer is unknown.
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
            Self::Volume(Some(device)) => format!("volume {device}\n"),
            Self::Volume(None) => String::new(),
            Self::Settings(settings) => setting::encode(settings),
            Self::Network(settings) => settings.encode(),
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
            Request::OpenVolume { .. } => {
                let device = line("volume").map(BlockDevice::parse).transpose();
                Self::Volume(device.map_err(|refusal| refusal.to_string())?)
            }
            Request::Observe => Self::Settings(setting::decode(lines)?),
            Request::AwaitNetwork(_) => Self::Network(NetworkSettings::decode(lines)?),
            Request::HostName(_)
            | Request::Resolver { .. }
            | Request::TimeServers(_)
            | Request::Addresses { .. }
            | Request::RouterAdvertisements(_)
            | Request::NetworkSet(_)
            | Request::NetworkFailed { .. }
            | Request::FormerMtu { .. }
            | Request::WireGuard(_)
            | Request::ClockSet(_)
            | Request::ClockRefused(_)
            | Request::Apply(_)
            | Request::Withdraw(_)
            | Request::BeginTry(_)
            | Request::ConfirmTry
            | Request::RevertTry
            | Request::Serves(_)
            | Request::Bootstrap(_)
            | Request::TrySlot
            | Request::ReplaceBootProgram
            | Request::Debug(_)
            | Request::EndDebug
            | Request::RestartKubelet
            | Request::RestartContainerd
            | Request::Reset
            | Request::Reboot
            | Request::RollBack
            | Request::AwaitCheck
            | Request::Progress(_)
            | Request::CheckNow
            | Request::PowerOff => Self::Done,
        })
    }
}

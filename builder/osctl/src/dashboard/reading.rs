//! The readings from a node.

use super::log::Line;
use super::network::Resources;
use crate::rates::Sample;
use osbuild_cosi::v1::{GetStatusResponse, GetTryResponse};

/// The answer to a call, or in one line why there is none.
pub type Answer<T> = Result<T, String>;

/// A reading, from one of the nodes.
#[derive(Debug)]
pub enum Reading {
    /// The node is connected.
    Connected,
    /// The node cannot be reached, in one line why.
    Lost(String),
    /// The status.
    Status(Answer<GetStatusResponse>),
    /// The counters of processors, memory, disk, links and processes.
    Usage(Answer<Sample>),
    /// The try.
    Try(Answer<GetTryResponse>),
    /// The resources in which the node reports its network and its kernel.
    Observed(Answer<Resources>),
    /// The log with this name is read from its end on.
    LogBegins(String),
    /// Lines of one log.
    Lines(Vec<Line>),
}

impl Reading {
    /// Whether the node has sent it.
    pub fn is_answer(&self) -> bool {
        match self {
            Reading::Lost(_) => false,
            Reading::Status(answer) => answer.is_ok(),
            Reading::Usage(answer) => answer.is_ok(),
            Reading::Try(answer) => answer.is_ok(),
            Reading::Observed(answer) => answer.is_ok(),
            Reading::Connected | Reading::LogBegins(_) | Reading::Lines(_) => true,
        }
    }
}

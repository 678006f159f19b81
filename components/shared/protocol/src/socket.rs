//! The sockets of `init`.

use osbuild_abi::paths::{
    ADMIN_SOCKET, BOOTSTRAP_SOCKET, HOST_SOCKET, NET_SOCKET, TIME_SOCKET, UPDATE_SOCKET,
};

use crate::MAX_LINE;

/// A socket of `init`. All pods run as uid 0, so the socket itself is the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// For the pod that configures links: host name, name servers, addresses.
    Net,
    /// For the administrator's pod: status, restarts, power.
    Admin,
    /// For the updater: the slot that does not run, and slotboot.
    Update,
    /// For the pod that sets the clock.
    Time,
    /// For the pod that configures the host: its settings.
    Host,
    /// For the pod that places the node document of its machine.
    Bootstrap,
}

impl Socket {
    /// All of them.
    pub const ALL: [Socket; 6] =
        [Self::Net, Self::Admin, Self::Update, Self::Time, Self::Host, Self::Bootstrap];

    /// Where `init` listens.
    pub fn path(self) -> &'static str {
        match self {
            Self::Net => NET_SOCKET,
            Self::Admin => ADMIN_SOCKET,
            Self::Update => UPDATE_SOCKET,
            Self::Time => TIME_SOCKET,
            Self::Host => HOST_SOCKET,
            Self::Bootstrap => BOOTSTRAP_SOCKET,
        }
    }

    /// The maximum bytes of the line of a request, with its newline. A setting of the host may be a
    /// seccomp profile, which is longer than any other request.
    pub fn max_line(self) -> usize {
        match self {
            Self::Host => MAX_LINE,
            _ => 4096,
        }
    }
}

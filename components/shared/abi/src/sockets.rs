//! The language of `init`'s unix sockets (`SOCK_STREAM`), each of which is one role's door into the
//! host.
//!
//! A client sends lines of UTF-8 text, each a verb and its words with one space between, at most
//! [`MAX_LINE`] bytes with the newline. `init` answers every line: with as many lines of data as
//! the verb has, none of which is `ok` or starts with `error: `, and then with [`OK`], or with
//! [`ERROR`] and the reason. A client may send any number of lines and closes when it has done.

/// The longest line in bytes, with its newline.
pub const MAX_LINE: usize = 4096;
/// The answer to a line that was obeyed.
pub const OK: &str = "ok";
/// Starts the answer to a line that was not.
pub const ERROR: &str = "error: ";

/// The verbs of [`crate::paths::NET_SOCKET`].
pub mod net {
    /// `hostname NAME`: sets the host name now, and keeps it over boots. A kubelet without a
    /// cluster knows the node by it from its next start on; in a cluster the node keeps the name
    /// under which it has joined.
    pub const HOSTNAME: &str = "hostname";
    /// `resolv ADDRESS… [search DOMAIN…]`: sets the name servers, up to three, and the search list,
    /// up to six. No word empties both.
    pub const RESOLV: &str = "resolv";
    /// `address ADDRESS/PREFIX-LENGTH… on LINK`: says which addresses the link has, up to eight,
    /// which `init` prints and remembers. They replace those told of the link before; no address
    /// says that it has none any more. The link has to exist.
    pub const ADDRESS: &str = "address";
    /// `ntp ADDRESS…`: sets the time servers, which `init` writes to [`crate::paths::NTP_SERVERS`]
    /// in place of those of the image. No address brings those back.
    pub const NTP: &str = "ntp";
    /// `router-advertisements on LINK`: makes the kernel hear IPv6 router advertisements on the
    /// link, which gives it addresses and routes. On all other links it hears none, as whoever is
    /// at the other end, a pod for instance, could become the node's router. The link has to exist.
    pub const ROUTER_ADVERTISEMENTS: &str = "router-advertisements";
    /// The word between name servers and search list.
    pub const SEARCH: &str = "search";
}

/// The verbs of [`crate::paths::TIME_SOCKET`].
pub mod time {
    /// `last`: answers two lines, [`SEEN`] and [`KEPT`].
    pub const LAST: &str = "last";
    /// Starts the line with the seconds since 1970 at which the node was last seen running, 0 if it
    /// never was.
    pub const SEEN: &str = "seen";
    /// Starts the line that says whether the machine's clock kept the time since then: `yes`, or
    /// `no` if it stood before that moment, or before the image was made.
    pub const KEPT: &str = "kept";
    /// `set MICROSECONDS by AGREEING of ANSWERED`: the clock was set forward by so much, as so many
    /// of the servers that answered agree. `init` prints it.
    pub const SET: &str = "set";
    /// `refused MICROSECONDS by AGREEING of ANSWERED`: so many servers agree that the clock is
    /// behind by so much, and it was not set. `init` prints it.
    pub const REFUSED: &str = "refused";
}

/// The verbs of [`crate::paths::ADMIN_SOCKET`].
pub mod admin {
    /// `status`: answers `KEY VALUE` lines.
    pub const STATUS: &str = "status";
    /// `restart kubelet`: ends the kubelet and starts it anew, with the configuration that is now
    /// on DATA.
    pub const RESTART_KUBELET: &str = "restart kubelet";
    /// `reboot`: an ordered shutdown, then a reboot.
    pub const REBOOT: &str = "reboot";
    /// `power-off`: an ordered shutdown, then power off.
    pub const POWER_OFF: &str = "power-off";
}

/// The verbs of [`crate::paths::UPDATE_SOCKET`]. Descriptors pass by `SCM_RIGHTS` (unix(7)), with
/// the first byte of the line or answer that they belong to.
pub mod update {
    /// `status`: answers the lines of the `admin` socket's `status` that are about the slots.
    pub const STATUS: &str = "status";
    /// Starts a line of `status`, with the name of the other slot: what it holds was given up for
    /// want of an address, and the slot that runs got none either. So it may be tried again, with
    /// [`TRY`] alone.
    pub const OUTAGE: &str = "slot-outage ";
    /// `slot`: takes the other slot out of use, and answers [`LENGTH`] and a descriptor of it, for
    /// reading and writing. It is refused while the slot that runs is on trial, and while somebody
    /// has the descriptor.
    pub const SLOT: &str = "slot";
    /// Starts the line with the bytes that the slot has room for.
    pub const LENGTH: &str = "length ";
    /// `try`: makes the other slot the next one to be booted, once `init` has found in it what its
    /// header says. Nobody may have the descriptor of the slot any more.
    pub const TRY: &str = "try";
    /// `boot-program`, with a descriptor from which it is read to its end: replaces slotboot on the
    /// system partition. If it is the same already, nothing is written.
    pub const BOOT_PROGRAM: &str = "boot-program";
    /// The most bytes of a boot program.
    pub const MOST_BOOT_PROGRAM: u64 = 4 << 20;
    /// `reboot`: an ordered shutdown, then a reboot.
    pub const REBOOT: &str = "reboot";
}

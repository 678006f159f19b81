//! The table of the kernel through nfnetlink, and its reports of changes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use osbuild_nftables::{Batch, Listing, REPORTS, Table, is_about};
use osbuild_rtnetlink::{Answer, answers};

use crate::netlink::Netlink;

/// How often a list is asked for that others change meanwhile.
const MAX_ATTEMPTS: u32 = 5;

/// A connection to the kernel.
pub struct Netfilter {
    /// The name of the table.
    name: &'static str,
    netlink: Netlink,
    reports: Socket,
}

impl Netfilter {
    /// Opens a connection for the table of this name, which receives every change from now on.
    pub fn open(name: &'static str) -> io::Result<Self> {
        let mut reports = Socket::new(NETLINK_NETFILTER)?;
        reports.bind(&SocketAddr::new(0, 1 << (REPORTS - 1)))?;
        reports.set_non_blocking(true)?;
        Ok(Self { name, netlink: Netlink::open_for(NETLINK_NETFILTER)?, reports })
    }

    /// The descriptor to poll for changes of tables.
    pub fn reports(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// Forgets all reports that have arrived, and returns whether the table may have changed. Other
    /// tables change with each Service of a cluster.
    pub fn drain_reports(&mut self) -> bool {
        let mut has_changed = false;
        let mut buffer = Vec::with_capacity(1 << 16);
        loop {
            buffer.clear();
            match self.reports.recv_from(&mut buffer, 0) {
                Ok(_) => has_changed |= answers(&buffer).any(|answer| is_about(&answer, self.name)),
                // ENOBUFS: the kernel has dropped messages, and reports it once.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => has_changed = true,
                Err(_) => return has_changed,
            }
        }
    }

    /// The table that the kernel has.
    pub fn table(&mut self) -> io::Result<Option<Table>> {
        for _ in 0..MAX_ATTEMPTS {
            let (table, is_whole) = self.list()?;
            if is_whole {
                return Ok(table);
            }
        }
        Err(io::Error::other("other programs change tables of nftables all the time"))
    }

    /// Lists the table. Returns also whether nothing has changed meanwhile, in this or another one.
    fn list(&mut self) -> io::Result<(Option<Table>, bool)> {
        let (mut listing, mut is_whole) = (Listing::new(self.name), true);
        while let Some(request) = listing.question() {
            let read = |answer: &Answer| Some((answer.kind, answer.flags, answer.payload.to_vec()));
            for (kind, flags, payload) in self.netlink.list(request, read)? {
                is_whole &= flags & libc::NLM_F_DUMP_INTR as u16 == 0;
                listing.take(&Answer { kind, flags, sequence: 0, payload: &payload });
            }
        }
        Ok((listing.finish(), is_whole))
    }

    /// Puts a table, or none, in the place of the one that the kernel has.
    pub fn set(&mut self, table: Option<&Table>) -> io::Result<()> {
        self.netlink.carry_out(match table {
            Some(table) => Batch::replacement(table),
            None => Batch::removal(self.name),
        })
    }
}

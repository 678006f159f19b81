//! Links of WireGuard in the kernel, through generic netlink.

use std::io;

use netlink_sys::protocols::NETLINK_GENERIC;
use osbuild_rtnetlink::Answer;

use super::message::{self, Device, DeviceChange};
use crate::netlink::{EXECUTE, LIST, Netlink};

/// A connection to the kernel about links of WireGuard.
pub struct Connection {
    netlink: Netlink,
    /// The number of the family in this boot.
    family: u16,
}

impl Connection {
    /// Opens a connection.
    ///
    /// # Errors
    /// The kernel has no WireGuard, for instance.
    pub fn open() -> io::Result<Self> {
        let mut netlink = Netlink::open_for(NETLINK_GENERIC)?;
        let found = netlink.list(message::family_request(EXECUTE), message::read_family)?;
        let family = found.first().ok_or_else(|| io::Error::other("it has no number"))?;
        Ok(Self { family: *family, netlink })
    }

    /// The link with this index.
    pub fn device(&mut self, index: u32) -> io::Result<Device> {
        let request = message::device_request(self.family, LIST, index);
        let read = |answer: &Answer| (answer.kind == self.family).then(|| answer.payload.to_vec());
        let mut device = Device::default();
        self.netlink.list(request, read)?.iter().for_each(|payload| device.take(payload));
        Ok(device)
    }

    /// Changes the link with this index.
    pub fn change(&mut self, index: u32, change: &DeviceChange) -> io::Result<()> {
        self.netlink.execute(message::change_request(self.family, EXECUTE, index, change))
    }
}

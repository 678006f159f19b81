//! DHCPv6 on one link: carries out the actions of the state machine.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::Need;
use super::client::{Action, Client, Event};
use super::message::{Kind, Message};
use super::socket::{self, LinkSocket};
use super::terms::{Leased, Terms};
use crate::link::{failed, now, random, shown_span};
use crate::netlink::{Address6, Link, Netlink};

/// The client of one link, with its socket and its address.
pub struct LinkClient6 {
    link: Link,
    client: Client,
    /// Open while an answer is expected.
    socket: Option<LinkSocket>,
    /// The address that this client has set on the link.
    configured: Option<Ipv6Addr>,
}

impl LinkClient6 {
    /// Makes a client for a link, without carrier.
    pub fn new(link: &Link) -> Self {
        let client = Client::new(link.mac, association(link));
        Self { link: link.clone(), client, socket: None, configured: None }
    }

    /// The terms that a server has given to the link.
    pub fn terms(&self) -> Option<&Terms> {
        self.client.terms()
    }

    /// When [`LinkClient6::tick`] is due.
    pub fn deadline(&self) -> Option<Duration> {
        self.client.deadline()
    }

    /// The socket to poll, while an answer is expected.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Handles a change of the link, with its addresses.
    pub fn look_at(
        &mut self,
        link: &Link,
        is_allowed: bool,
        addresses: &[Address6],
        netlink: &mut Netlink,
    ) {
        let before = std::mem::replace(&mut self.link, link.clone());
        if before.carrier && !link.carrier {
            self.handle(Event::CarrierLost, netlink);
        }
        // Without IPv6 the link could not have its address back.
        if link.carrier && link.regains_ipv6(&before) {
            self.handle(Event::Gone, netlink);
        }
        // The addresses are those from before an event that sets one.
        self.look_for_address(addresses, netlink);
        let need = if link.carrier && is_allowed { link.dhcpv6 } else { Need::Nothing };
        self.handle(Event::Needed(need), netlink);
    }

    /// Another host has an address of the link. The kernel has removed it, unless its lifetime has
    /// no end.
    pub fn take_duplicate(&mut self, address: Ipv6Addr, netlink: &mut Netlink) {
        if self.configured.take_if(|ours| *ours == address).is_some() {
            self.handle(Event::Duplicate, netlink);
        }
    }

    /// Starts what the routers of the link ask for, which has a carrier.
    pub fn start(&mut self, netlink: &mut Netlink) {
        self.handle(Event::Needed(self.link.dhcpv6), netlink);
    }

    /// Removes what DHCPv6 has set on the link, also by an earlier client.
    pub fn stop(&mut self, netlink: &mut Netlink) {
        self.handle(Event::Stop, netlink);
        if let Err(error) = self.remove_addresses(None, netlink) {
            self.log(&error.to_string());
        }
    }

    /// Does everything that is due.
    pub fn tick(&mut self, netlink: &mut Netlink) {
        self.handle(Event::Tick, netlink);
    }

    /// Reads all messages in the socket.
    pub fn receive(&mut self, netlink: &mut Netlink) {
        while let Some(socket) = &self.socket {
            match socket.receive() {
                Ok(Some(message)) => self.handle(Event::Message(&message), netlink),
                Ok(None) => return,
                Err(error) => {
                    // As for DHCPv4, a new question opens a new socket.
                    self.log(&format!("cannot receive DHCPv6: {error}"));
                    self.socket = None;
                }
            }
        }
    }

    /// Looks whether the link still has its address. The kernel removes each one from a link that
    /// is switched off. One that another host has stays if its lifetime has no end.
    fn look_for_address(&mut self, addresses: &[Address6], netlink: &mut Netlink) {
        let mut of_another = addresses.iter().filter(|found| found.is_duplicate());
        if let Some(ours) = self.configured
            && of_another.any(|found| found.is_leased() && found.address == ours)
        {
            return self.take_duplicate(ours, netlink);
        }
        let is_gone = |ours: &mut Ipv6Addr| !addresses.iter().any(|found| found.address == *ours);
        if self.configured.take_if(is_gone).is_some() && self.link.carrier {
            self.handle(Event::Gone, netlink);
        }
    }

    fn handle(&mut self, event: Event, netlink: &mut Netlink) {
        for action in self.client.handle(event, now(), random()) {
            if let Err(error) = self.carry_out(action, netlink) {
                self.log(&error.to_string());
            }
        }
        if !self.client.listens() {
            self.socket = None;
        }
    }

    fn carry_out(&mut self, action: Action, netlink: &mut Netlink) -> io::Result<()> {
        match action {
            Action::Send(message) => {
                self.log(question(&message));
                self.send(&message).map_err(|error| failed("cannot send to servers", error))
            }
            Action::Apply(leased) => self.configure(&leased, netlink),
            Action::Remove(reason) => {
                self.log(&format!("loses its address of DHCPv6: {reason}"));
                self.remove_addresses(None, netlink)
            }
            Action::Note(note) => {
                self.log(&note);
                Ok(())
            }
        }
    }

    fn send(&mut self, message: &Message) -> io::Result<()> {
        if self.socket.is_none() {
            self.socket = Some(LinkSocket::open(self.link.index)?);
        }
        socket::send(&self.link.name, self.link.index, message)
    }

    fn configure(&mut self, leased: &Leased, netlink: &mut Netlink) -> io::Result<()> {
        let span = shown_span(leased.valid);
        self.log(&format!("has {}/128 of DHCPv6 for {span}", leased.address));
        let all = netlink.addresses6(self.link.index)?;
        let of_others = |found: &Address6| found.address == leased.address && !found.is_leased();
        // The kernel would change the lifetimes of a static address.
        if !all.iter().any(of_others) {
            let put = netlink.put_address6(self.link.index, leased);
            put.map_err(|error| failed("cannot set the address", error))?;
        }
        self.configured = Some(leased.address);
        self.remove_addresses(Some(leased.address), netlink)
    }

    /// Removes leased addresses except `kept`, also those of an earlier client.
    fn remove_addresses(
        &mut self,
        kept: Option<Ipv6Addr>,
        netlink: &mut Netlink,
    ) -> io::Result<()> {
        for found in netlink.addresses6(self.link.index)? {
            if found.is_leased() && Some(found.address) != kept {
                let deleted = netlink.delete_address6(self.link.index, found.address);
                deleted.map_err(|error| {
                    failed(&format!("cannot remove the address {}", found.address), error)
                })?;
            }
        }
        self.configured = self.configured.filter(|ours| Some(*ours) == kept);
        Ok(())
    }

    fn log(&self, text: &str) {
        eprintln!("{}: {text}", self.link.name);
    }
}

/// The identifier of the association of a link (IAID): the end of its hardware address. A link that
/// the node makes may have the address of another one, so its name counts as well (FNV-1a).
fn association(link: &Link) -> u32 {
    let [_, _, bytes @ ..] = link.mac;
    let name = if link.is_made { link.name.as_bytes() } else { &[] };
    name.iter().fold(u32::from_be_bytes(bytes), |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

fn question(message: &Message) -> &'static str {
    match message.kind {
        Kind::Solicit => "seeks a server of DHCPv6",
        Kind::Confirm => "asks whether its address of DHCPv6 belongs to this network",
        Kind::Renew | Kind::Rebind => "asks to extend its lease of DHCPv6",
        Kind::Decline => "reports that another host has its address of DHCPv6",
        Kind::InformationRequest => "asks for options of DHCPv6",
        Kind::Request | Kind::Advertise | Kind::Reply => "requests its address of DHCPv6",
    }
}

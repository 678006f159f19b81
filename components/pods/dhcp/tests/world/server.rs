//! A DHCP server with behavior that dnsmasq does not have: leases of a few seconds, silence, lies.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use pod_dhcp::message::{Kind, Message, Side, code};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::{Domain, Protocol, Socket, Type};

use super::{SERVER, SERVER_LINK, World};

/// A lease to give. Times are in seconds.
#[derive(Clone, Copy)]
pub struct Lease {
    pub address: [u8; 4],
    pub renew: u32,
    pub rebind: u32,
    pub expire: u32,
}

#[derive(Default)]
struct State {
    lease: Option<Lease>,
    received: Vec<Message>,
}

/// The running server. It ends with the test's process.
pub struct Server {
    state: Arc<Mutex<State>>,
}

impl Server {
    /// Starts a server, which is silent while it has no lease to give.
    pub fn start(world: &World, lease: Option<Lease>) -> Self {
        let state = Arc::new(Mutex::new(State { lease, received: vec![] }));
        let (side, shared) = (world.server_side.clone(), Arc::clone(&state));
        let socket = in_side(&side, || {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
            socket.set_broadcast(true).unwrap();
            socket.bind_device(Some(SERVER_LINK.as_bytes())).unwrap();
            socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 67).into()).unwrap();
            UdpSocket::from(socket)
        });
        thread::spawn(move || serve(&socket, &shared));
        Self { state }
    }

    /// Sets the lease to give; `None` makes it silent.
    pub fn give(&self, lease: Option<Lease>) {
        self.state.lock().unwrap().lease = lease;
    }

    /// The messages received so far.
    pub fn received(&self) -> Vec<Message> {
        self.state.lock().unwrap().received.clone()
    }
}

/// Runs `work` in the network namespace of one side of a world.
pub fn in_side<T: Send>(side: &str, work: impl FnOnce() -> T + Send) -> T {
    let namespace = std::fs::File::open(format!("/run/netns/{side}")).unwrap();
    thread::scope(|scope| {
        let worker = scope.spawn(move || {
            move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&namespace),
                Some(LinkNameSpaceType::Network),
            )
            .unwrap();
            work()
        });
        worker.join().unwrap()
    })
}

fn serve(socket: &UdpSocket, state: &Mutex<State>) {
    let mut buffer = [0; 2048];
    loop {
        let (length, _) = socket.recv_from(&mut buffer).unwrap();
        let question = Message::decode(&buffer[..length]).expect("the client sends valid messages");
        let mut state = state.lock().unwrap();
        state.received.push(question.clone());
        let Some(lease) = state.lease else { continue };
        let kind = if question.kind() == Some(Kind::Discover) { Kind::Offer } else { Kind::Ack };
        let to =
            if question.ciaddr.is_unspecified() { Ipv4Addr::BROADCAST } else { question.ciaddr };
        // The client may have ended.
        let _ = socket.send_to(&answer(&question, kind, lease).encode(), (to, 68));
    }
}

/// The server's reply to a client's message.
pub fn answer(question: &Message, kind: Kind, lease: Lease) -> Message {
    let message = Message::request(kind, question.xid, question.chaddr)
        .with(code::SERVER, &SERVER.octets())
        .with(code::SUBNET_MASK, &[255, 255, 255, 0])
        .with(code::LEASE_TIME, &lease.expire.to_be_bytes())
        .with(code::T1, &lease.renew.to_be_bytes())
        .with(code::T2, &lease.rebind.to_be_bytes());
    Message { side: Side::Server, yiaddr: lease.address.into(), ..message }
}

//! A socket of the kernel with a filter.

use osbuild_packet_filter::Instruction;
use socket2::{SockFilter, SockRef};
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;

/// The kernel's machine for classic BPF, with a program.
pub struct Machine {
    sender: UnixDatagram,
    receiver: UnixDatagram,
}

impl Machine {
    /// The kernel checks the program.
    pub fn with(program: &[Instruction]) -> Machine {
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        receiver.set_nonblocking(true).unwrap();
        let instruction = |one: &Instruction| SockFilter::new(one.code, one.yes, one.no, one.value);
        let program: Vec<SockFilter> = program.iter().map(instruction).collect();
        SockRef::from(&receiver).attach_filter(&program).unwrap();
        Machine { sender, receiver }
    }

    /// Whether the program takes the packet.
    pub fn takes(&self, packet: &[u8]) -> bool {
        self.sender.send(packet).unwrap();
        match self.receiver.recv(&mut [0; 1 << 16]) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        }
    }
}

//! Compiles filters of packets, in the language of pcap-filter(7), to programs of classic BPF for
//! packet(7) sockets. It has the part of the language that names hosts, networks, ports, protocols
//! and VLANs; it does not compare bytes (`tcp[13]`), and looks up no names.
//!
//! The code is our own: libpcap needs C, and decision 59 says what was found of other crates. What
//! `tcpdump -ddd` makes of a filter accepts the same packets, which a test has the kernel compare.

#![forbid(unsafe_code)]

mod assembler;
mod compile;
mod condition;
mod connection;
mod error;
mod framing;
mod parser;
mod primitive;
mod qualifiers;
mod token;
mod value;

pub use assembler::Instruction;
pub use connection::Connection;
pub use error::FilterError;
pub use framing::Framing;

use condition::Condition;

/// The most bytes of a filter's text.
pub const MAX_TEXT: usize = 4096;

/// The most instructions that the kernel takes (`BPF_MAXINSNS`).
pub const MAX_INSTRUCTIONS: usize = 4096;

/// Which packets to take.
#[derive(Clone, Debug)]
pub struct Filter {
    condition: Condition,
    framing: Framing,
}

impl Filter {
    /// The filter that this text says, for packets of this form. An empty text takes all packets.
    ///
    /// # Errors
    /// The text is no filter; the error has the place in it.
    pub fn parse(text: &str, framing: Framing) -> Result<Filter, FilterError> {
        let condition = parser::parse(text, framing)?;
        Ok(Filter { condition, framing })
    }

    /// The same without the packets of a TCP connection.
    pub fn without(self, connection: &Connection) -> Filter {
        let other = Condition::not(connection.condition());
        Filter { condition: Condition::and(self.condition, other), ..self }
    }

    /// The same without what the loopback sends, as it receives the same packets.
    pub fn without_loopback_echo(self) -> Filter {
        let condition = Condition::and(condition::is_no_loopback_echo(), self.condition);
        Filter { condition, ..self }
    }

    /// The program, which takes at most the first `snap_length` bytes of a packet.
    ///
    /// # Errors
    /// It has more than [`MAX_INSTRUCTIONS`].
    pub fn compile(&self, snap_length: u32) -> Result<Vec<Instruction>, FilterError> {
        let program = compile::program(&self.condition, self.framing, snap_length);
        match program.len() {
            ..=MAX_INSTRUCTIONS => Ok(program),
            length => Err(FilterError::whole(format!(
                "it takes {length} instructions, and the kernel takes {MAX_INSTRUCTIONS}"
            ))),
        }
    }
}

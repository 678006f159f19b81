//! The real program, through a client over its socket.

mod calls;
mod limits;
mod osd;
mod watch;

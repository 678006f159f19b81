//! The real program, through a client over its socket.

mod calls;
mod kept;
mod limits;
mod osd;
mod watch;

//! Text over a unix socket, and a descriptor with it (`SCM_RIGHTS`, unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};

/// The descriptors that a peer can send at a time (`SCM_MAX_FD` of unix(7)).
const MAX_DESCRIPTORS: usize = 253;

/// Receives at most a whole buffer, and all descriptors that came with it: closing one may block,
/// and the receiver decides where that happens. Zero bytes mean that the peer has closed the
/// socket.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut given = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            given.extend(descriptors);
        }
    }
    Ok((received.bytes, given))
}

/// Copies at most a whole buffer of received bytes, and leaves them in the socket.
pub fn peek(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(recv(socket, buffer, RecvFlags::PEEK)?.0)
}

/// Sends a text or bytes, with a descriptor if there is one.
///
/// # Errors
/// The socket's buffer has no room for all of it, because the peer does not read.
pub fn send(
    socket: impl AsFd,
    text: impl AsRef<[u8]>,
    given: Option<BorrowedFd>,
) -> io::Result<()> {
    let text = text.as_ref();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let given: Vec<BorrowedFd> = given.into_iter().collect();
    if !given.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&given));
    }
    let sent = sendmsg(socket, &[IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_descriptor_passes_with_its_text() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        send(&one, "length 3\nok\n", Some(file.as_fd())).unwrap();
        send(&one, "more", None).unwrap();
        let mut buffer = [0; 12];
        let (read, mut given) = receive(&other, &mut buffer).unwrap();
        assert_eq!(&buffer[..read], b"length 3\nok\n");
        File::from(given.remove(0)).write_all(b"abc").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
        assert!(receive(&other, &mut buffer).unwrap().1.is_empty());
    }

    #[test]
    fn the_receiver_has_every_descriptor_that_a_peer_can_send() {
        let (one, other) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let given = vec![file.as_fd(); MAX_DESCRIPTORS];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&given));
        sendmsg(&one, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        let (read, received) = receive(&other, &mut [0; 8]).unwrap();
        assert_eq!((read, received.len()), (1, MAX_DESCRIPTORS));
    }
}

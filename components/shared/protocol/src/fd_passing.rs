//! Text over a unix socket, and a descriptor with it (`SCM_RIGHTS`, unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};

/// Receives at most a whole buffer, and the descriptor that came with it. The first of several
/// descriptors is kept; the kernel closes the others. Zero bytes mean that the peer has closed the
/// socket.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let given = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
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
        let (read, given) = receive(&other, &mut buffer).unwrap();
        assert_eq!(&buffer[..read], b"length 3\nok\n");
        File::from(given.unwrap()).write_all(b"abc").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
        assert!(receive(&other, &mut buffer).unwrap().1.is_none());
    }

    #[test]
    fn more_descriptors_than_one_are_closed() {
        let (one, other) = UnixStream::pair().unwrap();
        let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let given = files.each_ref().map(AsFd::as_fd);
        control.push(SendAncillaryMessage::ScmRights(&given));
        sendmsg(&one, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(receive(&other, &mut buffer).unwrap().0, 1);
    }
}

//! The bytes of a file on their way to a cache, in pieces.

use crate::message::WriteRequest;
use crate::progress::Progress;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use prost::Message;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{self, Poll};
use tokio_stream::Stream;

/// How many bytes are read at once.
const CHUNK: usize = 256 << 10;

/// The requests of `google.bytestream.ByteStream/Write` for one file. A file that cannot be read
/// ends the stream before its last request, so the cache drops what it got.
pub(crate) struct WriteRequests {
    from: Box<dyn Read + Send>,
    resource_name: String,
    offset: u64,
    is_finished: bool,
    progress: Progress,
}

impl WriteRequests {
    pub(crate) fn new(
        from: Box<dyn Read + Send>,
        resource_name: String,
        progress: Progress,
    ) -> Self {
        WriteRequests { from, resource_name, offset: 0, is_finished: false, progress }
    }
}

impl Stream for WriteRequests {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_finished {
            return Poll::Ready(None);
        }
        let Ok(data) = chunk(&mut self.from) else { return Poll::Ready(None) };
        self.progress.sent(data.len());
        self.is_finished = data.len() < CHUNK;
        let request = WriteRequest {
            // Only the first request needs the name.
            resource_name: std::mem::take(&mut self.resource_name),
            write_offset: self.offset as i64,
            finish_write: self.is_finished,
            data,
        };
        self.offset += request.data.len() as u64;
        Poll::Ready(Some(request.encode_to_vec().into()))
    }
}

/// The body of `PUT` for one file of this length.
pub(crate) struct FileBody {
    from: Box<dyn Read + Send + Sync>,
    left: u64,
    progress: Progress,
}

impl FileBody {
    pub(crate) fn new(from: Box<dyn Read + Send + Sync>, length: u64, progress: Progress) -> Self {
        FileBody { from, left: length, progress }
    }
}

impl http_body::Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let data = chunk(&mut self.from)?;
        self.progress.sent(data.len());
        self.left = match self.left.checked_sub(data.len() as u64) {
            Some(left) if !data.is_empty() => left,
            _ => return Poll::Ready(Some(Err(io::Error::other("the file changed its length")))),
        };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The next [`CHUNK`] bytes, or the rest.
fn chunk(from: &mut impl Read) -> io::Result<Bytes> {
    let mut data = Vec::with_capacity(CHUNK);
    from.take(CHUNK as u64).read_to_end(&mut data)?;
    Ok(data.into())
}

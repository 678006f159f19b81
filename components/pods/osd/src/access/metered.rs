//! The messages of a remote call, whose bytes count for its caller.

use super::quota::{Held, Limited, Quota};
use crate::error_text;
use crate::limits::MAX_MESSAGE;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Response};
use tonic::codegen::{Body as HttpBody, Bytes};

type Frame = http_body::Frame<Bytes>;

/// Bytes that a part of a response takes in memory beside its own, rounded up.
const FRAME: usize = 256;

/// The handling of a message that exceeds the quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// It is refused: the call has changed nothing.
    Refused,
    /// It counts, and further calls are refused: its caller has to learn what has changed.
    Sent,
}

/// A request whose bytes count until it is read.
pub struct MeteredRequest {
    body: Body,
    held: Held,
    length: Length,
}

/// The part of a request that is in memory at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// All of it.
    Whole,
    /// A message of a stream, which is taken before the next one is read.
    Message,
}

impl MeteredRequest {
    /// The request of the caller with this quota.
    pub fn body(body: Body, quota: &Quota) -> Body {
        let held = quota.hold_none(Limited::Bytes);
        Body::new(MeteredRequest { body, held, length: Length::Whole })
    }

    /// The stream of requests of the caller with this quota. It counts as its greatest message,
    /// however long it is.
    ///
    /// # Errors
    /// The caller would hold more than its part.
    pub fn stream(body: Body, quota: &Quota) -> Result<Body, Status> {
        let held = quota.hold(Limited::Bytes, MAX_MESSAGE)?;
        Ok(Body::new(MeteredRequest { body, held, length: Length::Message }))
    }
}

impl HttpBody for MeteredRequest {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let length = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        if self.length == Length::Whole
            && let Some(length) = length.map(Bytes::len)
            && let Err(status) = self.held.grow(length)
        {
            return Poll::Ready(Some(Err(status)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// A response whose bytes count until they are sent.
pub struct MeteredResponse {
    body: Body,
    /// The first frame of the body, if it was read already.
    first: Option<Frame>,
    quota: Quota,
    excess: Excess,
    _held: Vec<Held>,
}

/// The bytes of a message, until HTTP/2 has written them.
struct Unsent {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl MeteredResponse {
    /// The response of a call to the caller with this quota, which holds this while it lasts. Its
    /// first message counts at once: a client that takes none would keep it in memory.
    pub async fn of(
        response: Response<Body>,
        quota: Quota,
        held: Vec<Held>,
        excess: Excess,
    ) -> Response<Body> {
        if response.body().is_end_stream() {
            return response;
        }
        let (parts, mut body) = response.into_parts();
        let first = poll_fn(|context| Poll::Ready(Pin::new(&mut body).poll_frame(context))).await;
        let mut metered = MeteredResponse { body, first: None, quota, excess, _held: held };
        let counted = match first {
            Poll::Pending => Ok(None),
            Poll::Ready(None) => {
                metered.body = Body::empty();
                Ok(None)
            }
            Poll::Ready(Some(frame)) => frame.and_then(|frame| metered.count(frame)).map(Some),
        };
        match counted {
            Ok(first) => metered.first = first,
            Err(status) => return status.into_http(),
        }
        Response::from_parts(parts, Body::new(metered))
    }

    fn count(&self, frame: Frame) -> Result<Frame, Status> {
        let bytes = match frame.into_data() {
            Ok(bytes) => bytes,
            Err(mut other) => {
                other.trailers_mut().into_iter().for_each(error_text::shorten);
                return Ok(other);
            }
        };
        let amount = bytes.len() + FRAME;
        let held = match self.excess {
            Excess::Refused => self.quota.hold(Limited::Bytes, amount)?,
            Excess::Sent => self.quota.hold_anyway(Limited::Bytes, amount),
        };
        Ok(Frame::data(Bytes::from_owner(Unsent { bytes, _held: held })))
    }
}

impl HttpBody for MeteredResponse {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame, Status>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other),
        };
        Poll::Ready(Some(match self.count(frame) {
            Ok(frame) => Ok(frame),
            Err(status) => {
                self.body = Body::empty();
                let mut trailers = HeaderMap::new();
                status.add_header(&mut trailers).map(|()| Frame::trailers(trailers))
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.body.is_end_stream()
    }
}

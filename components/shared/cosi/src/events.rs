//! The events in a message of a watch.

use crate::resource::{Event, WatchResponse};
use prost::Message as _;
use tonic::Status;

impl WatchResponse {
    /// The events of a message that was received. The status is the one that a client gets for any
    /// message that it cannot read.
    pub fn events(self) -> Result<Vec<Event>, Status> {
        let events = self.event.into_iter().map(Event::decode);
        events.collect::<Result<_, _>>().map_err(|error| Status::internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    /// The message as `state.proto` has it.
    #[derive(Clone, PartialEq, Message)]
    struct Specified {
        #[prost(message, repeated, tag = "1")]
        event: Vec<Event>,
    }

    #[test]
    fn a_message_of_encoded_events_is_that_of_the_specification() {
        let event = |error: &str| Event { error: Some(error.into()), ..Event::default() };
        let events = vec![event("one"), Event::default(), event("three")];
        let encoded = events.iter().map(|event| event.encode_to_vec().into()).collect();
        let bytes = WatchResponse { event: encoded }.encode_to_vec();
        assert_eq!(bytes, Specified { event: events.clone() }.encode_to_vec());
        assert_eq!(WatchResponse::decode(&*bytes).unwrap().events().unwrap(), events);
    }

    #[test]
    fn a_damaged_event_is_an_error() {
        let message = WatchResponse { event: vec![b"\x0a\x7f".as_slice().into()] };
        assert_eq!(message.events().unwrap_err().code(), tonic::Code::Internal);
    }
}

//! The connection of the client, which `osd` names beside the request, so that its packets are left
//! out. What a client sends under the same keys does not get here.

use osbuild_packet_filter::Connection;
use std::net::SocketAddr;
use tonic::metadata::{MetadataMap, MetadataValue};

/// The keys of its ends.
const LOCAL: &str = "osbuild-own-local";
const PEER: &str = "osbuild-own-peer";

/// Names the connection beside a request.
pub fn add_to(metadata: &mut MetadataMap, Connection { local, peer }: Connection) {
    for (key, address) in [(LOCAL, local), (PEER, peer)] {
        // An address has no character that a header could not have.
        if let Ok(value) = MetadataValue::try_from(address.to_string()) {
            metadata.insert(key, value);
        }
    }
}

/// The connection that is named beside a request.
pub fn connection_of(metadata: &MetadataMap) -> Option<Connection> {
    let address = |key| metadata.get(key)?.to_str().ok()?.parse::<SocketAddr>().ok();
    Some(Connection { local: address(LOCAL)?, peer: address(PEER)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_what_was_named() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let connection =
            Connection { local: address("[fe80::1%3]:50000"), peer: address("10.0.2.2:40000") };
        let mut metadata = MetadataMap::new();
        assert_eq!(connection_of(&metadata), None);
        add_to(&mut metadata, connection);
        assert_eq!(connection_of(&metadata), Some(connection));
    }
}

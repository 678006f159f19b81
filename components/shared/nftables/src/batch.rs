//! Requests that the kernel carries out all at once, or not at all.

use osbuild_rtnetlink::Request;

use crate::attribute::{name, request};
use crate::table::Table;
use crate::uapi::{
    NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END, NFNL_SUBSYS_NFTABLES, NFT_MSG_DELTABLE,
    NFT_MSG_NEWTABLE, NFTA_TABLE_NAME, NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST,
};

/// The messages of a batch.
#[derive(Debug)]
pub struct Batch(Vec<Request>);

impl Batch {
    /// Removes a table, or nothing if there is none of this name.
    pub fn removal(table: &str) -> Self {
        let name = name(table);
        Self(vec![
            // The kernel refuses to remove a table that is not there.
            request(NFT_MSG_NEWTABLE, NLM_F_CREATE).with(NFTA_TABLE_NAME, &name),
            request(NFT_MSG_DELTABLE, 0).with(NFTA_TABLE_NAME, &name),
        ])
    }

    /// Puts a table in the place of the one of its name, or of none. No packet finds neither.
    pub fn replacement(table: &Table) -> Self {
        let mut batch = Self::removal(&table.name);
        batch.0.extend(table.requests());
        batch
    }

    /// The bytes of the batch. The messages are numbered from `sequence` on. The kernel answers
    /// each that fails, and acknowledges the last one, whose number is returned.
    pub fn finish(self, sequence: u32) -> (Vec<u8>, u32) {
        let mut bytes = around(NFNL_MSG_BATCH_BEGIN).finish(sequence);
        let (mut number, mut last) = (sequence, 0);
        for request in self.0 {
            number = number.wrapping_add(1);
            last = bytes.len();
            bytes.extend(request.finish(number));
        }
        // The flags follow the length and the type.
        bytes[last + 6] |= NLM_F_ACK as u8;
        bytes.extend(around(NFNL_MSG_BATCH_END).finish(number.wrapping_add(1)));
        (bytes, number)
    }
}

/// The first or the last message of a batch: it names the subsystem.
fn around(kind: u16) -> Request {
    let [high, low] = NFNL_SUBSYS_NFTABLES.to_be_bytes();
    Request::new(kind, NLM_F_REQUEST, &[0, 0, high, low])
}

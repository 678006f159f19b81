//! EBS direct: the blocks of a snapshot.

use super::{Action, Method, RegionalClient, Request, Result, Tag};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

/// The size of a block in bytes.
pub const BLOCK_SIZE: usize = 512 << 10;

/// A snapshot to start.
pub struct NewSnapshot<'a> {
    /// The size of its volume in GiB.
    pub size_gib: u64,
    /// Its description.
    pub description: &'a str,
    /// After how many minutes without a new block AWS cancels it.
    pub timeout_minutes: u64,
    /// Its tags.
    pub tags: &'a [Tag],
    /// The same token always returns the same snapshot.
    pub token: &'a str,
}

impl RegionalClient<'_> {
    /// Starts a snapshot, and returns its identifier and state.
    pub fn start_snapshot(&self, snapshot: &NewSnapshot) -> Result<(String, String)> {
        let tag = |(key, value): &Tag| json!({ "Key": key, "Value": value });
        let request = Request::json(
            Action::StartSnapshot,
            "/snapshots",
            &json!({
                "VolumeSize": snapshot.size_gib,
                "Description": snapshot.description,
                "Timeout": snapshot.timeout_minutes,
                "Tags": snapshot.tags.iter().map(tag).collect::<Vec<Value>>(),
                "ClientToken": snapshot.token,
            }),
        );
        self.call(&request, |response| {
            Ok((response.member("SnapshotId")?, response.member("Status")?))
        })
    }

    /// Writes a block of [`BLOCK_SIZE`] bytes. EBS refuses it if `sha256` is not its SHA-256.
    pub fn put_snapshot_block(
        &self,
        snapshot: &str,
        index: u32,
        block: Bytes,
        sha256: &[u8; 32],
    ) -> Result<()> {
        let headers = vec![
            ("content-type", "application/octet-stream".to_owned()),
            ("x-amz-data-length", block.len().to_string()),
            ("x-amz-checksum", STANDARD.encode(sha256)),
            ("x-amz-checksum-algorithm", "SHA256".to_owned()),
        ];
        let path = format!("/snapshots/{snapshot}/blocks/{index}");
        let request = Request::with_headers(Action::PutSnapshotBlock, Method::Put, path, headers);
        self.call(&request.sending(block, *sha256), |_| Ok(()))
    }

    /// Completes a snapshot of this many blocks. `checksum` is the SHA-256 of the blocks' SHA-256s
    /// in their order.
    pub fn complete_snapshot(
        &self,
        snapshot: &str,
        blocks: usize,
        checksum: &[u8; 32],
    ) -> Result<()> {
        let headers = vec![
            ("x-amz-changedblockscount", blocks.to_string()),
            ("x-amz-checksum", STANDARD.encode(checksum)),
            ("x-amz-checksum-algorithm", "SHA256".to_owned()),
            ("x-amz-checksum-aggregation-method", "LINEAR".to_owned()),
        ];
        let path = format!("/snapshots/completion/{snapshot}");
        let complete = Request::with_headers(Action::CompleteSnapshot, Method::Post, path, headers);
        self.call(&complete, |_| Ok(()))
    }
}

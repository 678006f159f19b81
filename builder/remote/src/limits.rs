//! The limits and abilities of a cache, from the capabilities that it names.

use crate::message::{DISALLOWED, ExecutionCapabilities, SHA256, ServerCapabilities, ZSTD};
use crate::{BlobId, Fault};

/// The upper limit of all blobs in one batch. A message of gRPC may have 4 MiB, but a batch counts
/// as progress only when all of it is there, and a large one over a slow link would look like
/// silence.
const MAX_BATCH: u64 = 512 << 10;

/// The upper limit of the bytes that a blob adds to the message of a batch, besides its content.
const OVERHEAD: u64 = 128;

/// The number of blobs in one batch.
const MAX_BLOBS: usize = 1000;

/// The limits and abilities of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The total size of a batch in bytes.
    batch: u64,
    /// Whether large blobs can be compressed with zstd on the way.
    pub(crate) has_zstd: bool,
    /// Whether it takes results of this client.
    pub(crate) takes_results: bool,
    /// Why it executes no actions; `None` if it does.
    pub(crate) no_execution: Option<&'static str>,
}

impl Limits {
    /// Those of a plain cache, which has no batches and names no capabilities.
    pub(crate) const PLAIN: Limits = Limits {
        batch: 0,
        has_zstd: false,
        takes_results: true,
        no_execution: Some("it is a plain cache"),
    };

    /// The limits that a server names.
    pub(crate) fn of(server: ServerCapabilities) -> Result<Limits, Fault> {
        let refused = |text: &str| Err(Fault::Refused(text.to_owned()));
        let Some(cache) = server.cache_capabilities else { return refused("it is no cache") };
        if !cache.digest_functions.contains(&SHA256) {
            return refused("it does not use SHA-256");
        }
        let batch = match u64::try_from(cache.max_batch_total_size_bytes) {
            Ok(0) | Err(_) => MAX_BATCH,
            Ok(size) => size.min(MAX_BATCH),
        };
        let update = cache.action_cache_update_capabilities;
        let no_links = cache.symlink_absolute_path_strategy == DISALLOWED;
        Ok(Limits {
            batch,
            has_zstd: cache.supported_compressors.contains(&ZSTD),
            takes_results: update.is_some_and(|update| update.update_enabled),
            no_execution: no_execution(server.execution_capabilities, no_links),
        })
    }

    /// Whether a blob goes into a batch, and not on its own.
    pub(crate) fn is_small(&self, blob: &BlobId) -> bool {
        blob.length() + OVERHEAD <= self.batch
    }

    /// Small things in batches, in their order.
    pub(crate) fn batches<T>(&self, all: Vec<T>, blob: impl Fn(&T) -> &BlobId) -> Vec<Vec<T>> {
        let (mut batches, mut size) = (Vec::<Vec<T>>::new(), 0);
        for one in all {
            let more = blob(&one).length() + OVERHEAD;
            match batches.last_mut() {
                Some(batch) if size + more <= self.batch && batch.len() < MAX_BLOBS => {
                    batch.push(one);
                    size += more;
                }
                _ => {
                    batches.push(vec![one]);
                    size = more;
                }
            }
        }
        batches
    }
}

/// Why a server cannot execute our actions, whose roots have absolute links.
fn no_execution(
    execution: Option<ExecutionCapabilities>,
    no_absolute_links: bool,
) -> Option<&'static str> {
    let Some(execution) = execution.filter(|execution| execution.exec_enabled) else {
        return Some("it executes nothing");
    };
    let mut functions = execution.digest_functions.into_iter().chain([execution.digest_function]);
    if !functions.any(|function| function == SHA256) {
        return Some("its workers do not use SHA-256");
    }
    no_absolute_links.then_some("it takes no absolute symbolic links")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::CacheCapabilities;
    use proptest::prelude::*;
    use prost::Message;

    fn server(batch: i64) -> ServerCapabilities {
        let digest_functions = vec![SHA256];
        let max_batch_total_size_bytes = batch;
        let cache = CacheCapabilities {
            digest_functions,
            max_batch_total_size_bytes,
            ..CacheCapabilities::default()
        };
        ServerCapabilities { cache_capabilities: Some(cache), execution_capabilities: None }
    }

    proptest! {
        #[test]
        fn no_batch_exceeds_the_limit_and_no_blob_is_lost(
            limit in 0_i64..10_000, sizes in prop::collection::vec(0_u64..5_000, 0..50),
        ) {
            let limits = Limits::of(server(limit)).unwrap();
            let blobs = sizes.iter().map(|size| BlobId::new(String::new(), *size));
            let small = blobs.filter(|blob| limits.is_small(blob)).collect::<Vec<_>>();
            let batches = limits.batches(small.clone(), |blob| blob);
            for batch in &batches {
                prop_assert!(batch.iter().map(BlobId::length).sum::<u64>() <= limits.batch);
            }
            prop_assert_eq!(batches.concat(), small);
        }

        #[test]
        fn any_capabilities_are_read_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..100)
        ) {
            if let Ok(server) = ServerCapabilities::decode(bytes.as_slice()) {
                let _ = Limits::of(server);
            }
        }
    }

    #[test]
    fn a_server_with_another_digest_is_refused() {
        assert!(matches!(Limits::of(ServerCapabilities::default()), Err(Fault::Refused(_))));
        let mut other = server(0);
        other.cache_capabilities.as_mut().unwrap().digest_functions = vec![2];
        assert!(matches!(Limits::of(other), Err(Fault::Refused(_))));
    }

    #[test]
    fn a_server_executes_only_if_it_takes_our_digests_and_links() {
        let with = |exec_enabled, function, links| {
            let mut server = server(0);
            server.cache_capabilities.as_mut().unwrap().symlink_absolute_path_strategy = links;
            let digest_functions = vec![function];
            server.execution_capabilities =
                Some(ExecutionCapabilities { exec_enabled, digest_functions, digest_function: 0 });
            Limits::of(server).unwrap().no_execution.is_none()
        };
        assert!(with(true, SHA256, 0) && with(true, SHA256, 2));
        assert!(!with(false, SHA256, 2) && !with(true, 2, 2) && !with(true, SHA256, DISALLOWED));
        assert!(Limits::of(server(0)).unwrap().no_execution.is_some());
    }
}

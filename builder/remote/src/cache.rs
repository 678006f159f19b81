//! The client: one cache, whichever protocol it speaks.

use crate::checked::Checked;
use crate::grpc::Grpc;
use crate::http::Http;
use crate::limits::Limits;
use crate::progress::{Counters, Progress};
use crate::{Access, Address, BlobId, Fault, Protocol, Retry, Traffic};
use bytes::Bytes;
use std::collections::HashSet;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Cursor, Read, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Instant;
use tokio::runtime::{self, Runtime};

/// The value of the header `user-agent`.
pub(crate) const AGENT: &str = concat!("osbuild/", env!("CARGO_PKG_VERSION"));

/// The number of blobs that a server is asked for at once.
const MAX_ASKED: usize = 10_000;

/// A cache. Every call blocks, and several threads may call at the same time.
pub struct Cache {
    pub(crate) runtime: Runtime,
    pub(crate) server: Server,
    pub(crate) retry: Retry,
    pub(crate) counters: Arc<Counters>,
    limits: OnceLock<Limits>,
}

pub(crate) enum Server {
    Grpc(Box<Grpc>),
    Http(Arc<Http>),
}

/// Where the bytes of a blob are on this machine.
#[derive(Clone, Debug)]
pub enum Source {
    /// In a file.
    File(PathBuf),
    /// In memory.
    Bytes(Bytes),
}

impl Source {
    fn read(&self) -> io::Result<Bytes> {
        match self {
            Source::File(path) => std::fs::read(path).map(Bytes::from),
            Source::Bytes(bytes) => Ok(bytes.clone()),
        }
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send + Sync>> {
        match self {
            Source::File(path) => Ok(Box::new(File::open(path)?)),
            Source::Bytes(bytes) => Ok(Box::new(Cursor::new(bytes.clone()))),
        }
    }
}

impl Cache {
    /// A client of the cache at `address`. It connects with its first call.
    ///
    /// # Errors
    /// A certificate, key or header is malformed.
    pub fn new(address: &Address, access: &Access, retry: Retry) -> Result<Self, Fault> {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(Fault::Local)?;
        let server = {
            let _inside = runtime.enter();
            match address.protocol {
                Protocol::Grpc => Server::Grpc(Box::new(Grpc::new(address, access, &retry)?)),
                Protocol::Http => Server::Http(Arc::new(Http::new(address, access, &retry)?)),
            }
        };
        let (counters, limits) = Default::default();
        Ok(Cache { runtime, server, retry, counters, limits })
    }

    /// The bytes of blobs so far.
    pub fn traffic(&self) -> Traffic {
        self.counters.traffic()
    }

    /// The `ActionResult` of an action as the cache has it, unchecked; `None` if it has none.
    ///
    /// # Errors
    /// The cache cannot be asked.
    pub fn result(&self, action: &BlobId) -> Result<Option<Bytes>, Fault> {
        self.limits()?;
        let result = self.call(async |_| match &self.server {
            Server::Grpc(grpc) => grpc.result(action).await,
            Server::Http(http) => http.result(action).await,
        });
        match result {
            Ok(result) => Ok(Some(result)),
            Err(Fault::Missing) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Gives the `ActionResult` of an action to the cache, which must have its blobs.
    ///
    /// # Errors
    /// The cache does not take it.
    pub fn put_result(&self, action: &BlobId, result: &[u8]) -> Result<(), Fault> {
        if !self.limits()?.takes_results {
            return Err(Fault::Refused("it takes no results of this client".to_owned()));
        }
        self.call(async |_| match &self.server {
            Server::Grpc(grpc) => grpc.put_result(action, result).await,
            Server::Http(http) => http.put_result(action, result).await,
        })
    }

    /// Reads blobs, and gives each, checked, as what `fresh` made and the bytes were written to.
    /// Small ones come together. `fresh` is called again for a blob when a try failed.
    ///
    /// # Errors
    /// A blob is missing, or the cache does not give its bytes.
    pub fn read<W: Write>(
        &self,
        blobs: &[BlobId],
        fresh: &mut dyn FnMut() -> io::Result<W>,
        done: &mut dyn FnMut(W) -> io::Result<()>,
    ) -> Result<(), Fault> {
        let limits = self.limits()?;
        let (small, large): (Vec<_>, Vec<_>) =
            blobs.iter().cloned().partition(|blob| limits.is_small(blob));
        for batch in limits.batches(small, |blob| blob) {
            for whole in self.read_batch(&batch, fresh)? {
                done(whole).map_err(Fault::Local)?;
            }
        }
        for blob in &large {
            let whole = self.call(async |progress| {
                let out = fresh().map_err(Fault::Local)?;
                match &self.server {
                    Server::Grpc(grpc) => grpc.read(blob, limits.has_zstd, out, &progress).await,
                    Server::Http(http) => http.read(blob, out, &progress).await,
                }
            })?;
            done(whole).map_err(Fault::Local)?;
        }
        Ok(())
    }

    fn read_batch<W: Write>(
        &self,
        batch: &[BlobId],
        fresh: &mut dyn FnMut() -> io::Result<W>,
    ) -> Result<Vec<W>, Fault> {
        self.call(async |progress| {
            let all = match &self.server {
                Server::Grpc(grpc) => grpc.read_batch(batch, &progress).await?,
                Server::Http(_) => unreachable!("a plain cache has no batches"),
            };
            let check = |(blob, bytes): (&BlobId, &Bytes)| {
                let mut out = Checked::new(blob, fresh().map_err(Fault::Local)?);
                match out.write_all(bytes) {
                    Ok(()) => out.finish(blob),
                    Err(error) => Err(out.fault(error)),
                }
            };
            batch.iter().zip(&all).map(check).collect()
        })
    }

    /// Gives the cache those of these blobs that it lacks. `source` finds their bytes.
    ///
    /// # Errors
    /// A file cannot be read, or the cache does not take it.
    pub fn write(
        &self,
        blobs: &[BlobId],
        source: &mut dyn FnMut(&BlobId) -> io::Result<Source>,
    ) -> Result<(), Fault> {
        let limits = self.limits()?;
        let missing = self.missing(blobs)?;
        let with_source = |blob: &BlobId| Ok((blob.clone(), source(blob)?));
        let missing = blobs.iter().filter(|blob| missing.contains(blob)).map(with_source);
        let missing = missing.collect::<io::Result<Vec<_>>>().map_err(Fault::Local)?;
        let (small, large): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|(blob, _)| limits.is_small(blob));
        for batch in limits.batches(small, |(blob, _)| blob) {
            let read = |(blob, source): (BlobId, Source)| Ok((blob, source.read()?));
            let batch = batch.into_iter().map(read).collect::<io::Result<Vec<_>>>();
            let batch = batch.map_err(Fault::Local)?;
            self.call(async |progress| match &self.server {
                Server::Grpc(grpc) => grpc.write_batch(&batch, &progress).await,
                Server::Http(_) => unreachable!("a plain cache has no batches"),
            })?;
        }
        for (blob, source) in large {
            self.call(async |progress| {
                let blob = &blob;
                let from = source.open().map_err(Fault::Local)?;
                match &self.server {
                    Server::Grpc(grpc) => grpc.write(blob, limits.has_zstd, from, &progress).await,
                    Server::Http(http) => http.write(blob, from, &progress).await,
                }
            })?;
        }
        Ok(())
    }

    /// Those of these blobs that the cache lacks.
    ///
    /// # Errors
    /// The cache cannot be asked.
    pub fn missing(&self, blobs: &[BlobId]) -> Result<HashSet<BlobId>, Fault> {
        self.limits()?;
        let mut missing = HashSet::new();
        for names in blobs.chunks(MAX_ASKED) {
            missing.extend(self.call(async |progress| match &self.server {
                Server::Grpc(grpc) => grpc.missing(names).await,
                Server::Http(http) => http.missing(names, &progress).await,
            })?);
        }
        Ok(missing)
    }

    /// The limits of the server, from its capabilities. Only the first call asks for them.
    pub(crate) fn limits(&self) -> Result<Limits, Fault> {
        if let Some(limits) = self.limits.get() {
            return Ok(*limits);
        }
        let limits = self.call(async |_| match &self.server {
            Server::Grpc(grpc) => grpc.limits().await,
            Server::Http(_) => Ok(Limits::PLAIN),
        })?;
        Ok(*self.limits.get_or_init(|| limits))
    }

    /// Makes a call, and makes it again after a temporary fault.
    fn call<T>(&self, mut once: impl AsyncFnMut(Progress) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut failed = 0;
        loop {
            let fault = match self.runtime.block_on(self.watched(&mut once)) {
                Err(fault) if fault.is_temporary() => fault,
                done => return done,
            };
            failed += 1;
            if failed >= self.retry.tries {
                return Err(fault);
            }
            self.sleep(failed)?;
        }
    }

    /// Makes a call once, until it ends, makes no progress or the user wants to stop.
    pub(crate) async fn watched<T>(
        &self,
        once: &mut impl AsyncFnMut(Progress) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let progress = Progress::new(&self.counters);
        let mut call = pin!(once(progress.clone()));
        let mut watch = pin!(progress.watch(&self.retry));
        poll_fn(|context| match call.as_mut().poll(context) {
            Poll::Pending => watch.as_mut().poll(context).map(Err),
            done => done,
        })
        .await
    }

    pub(crate) fn sleep(&self, failed: u32) -> Result<(), Fault> {
        let end = Instant::now() + self.retry.pause(failed);
        loop {
            if (self.retry.is_stopped)() {
                return Err(Fault::Stopped);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(crate::retry::TICK));
        }
    }
}

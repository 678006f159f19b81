//! Reads a node, again and again, and connects again when it is lost.

use super::log::{KERNEL, Line};
use super::network::Resources;
use super::reading::{Answer, Reading};
use crate::connection::Connection;
use crate::error::Error;
use crate::known_nodes::KnownNode;
use crate::rates::Sample;
use crate::resource;
use futures_util::future::join_all;
use futures_util::stream::select_all;
use futures_util::{FutureExt, StreamExt};
use osbuild_cosi::resource::{GetRequest, WatchRequest, WatchResponse};
use osbuild_cosi::v1::{
    GetStatusRequest, GetStatusResponse, GetTryRequest, GetTryResponse, GetUsageRequest,
    ListLogsRequest, ListProcessesRequest, ReadKernelLogRequest, ReadLogRequest,
};
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};
use tonic::{Code, Status, Streaming};

/// The time between two readings of the use, and the shortest between two of what is observed. Each
/// call is a line in the node's record, so nothing is read more often than it helps.
const INTERVAL: Duration = Duration::from_secs(2);

/// The time between two readings of the status and the try.
const STATUS_INTERVAL: Duration = Duration::from_secs(4);

/// The time between two lists of the logs, whose number grows when a daemon starts.
const LIST_INTERVAL: Duration = Duration::from_secs(10);

/// How long a node may be silent before it is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(3);

/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The first and the longest pause before connecting again.
const PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The pause before a log is read again that has ended.
const LOG_PAUSE: Duration = Duration::from_secs(3);

/// The lines with which each log begins.
const TAIL: u32 = 200;

/// The logs of daemons that are followed: a node lets 32 logs be read at once.
const MAX_LOGS: usize = 8;

/// The namespace of observed resources.
const SYSTEM: &str = "system";

/// The types of what is observed, in the order of [`Resources`].
const OBSERVED: [&str; 5] = [
    "LinkStatuses.osbuild",
    "AddressStatuses.osbuild",
    "RouteStatuses.osbuild",
    "ResolverStatuses.osbuild",
    "KernelInfos.osbuild",
];

/// The identifier of a resource whose type has only one.
const NODE: &str = "node";

/// A node to read, and where the readings go.
pub struct Source {
    /// The index of the node, which comes with each reading.
    pub index: usize,
    /// The node.
    pub node: KnownNode,
    /// Where the readings go.
    pub readings: mpsc::Sender<(usize, Reading)>,
}

/// A connected node.
#[derive(Clone)]
struct Connected {
    index: usize,
    connection: Arc<Connection>,
    readings: mpsc::Sender<(usize, Reading)>,
    /// A log has ended, as all do when the node is lost.
    log_ended: Arc<Notify>,
    /// Whether the node has answered since this was looked at.
    has_answered: Arc<AtomicBool>,
}

impl Source {
    /// Reads until it is dropped. A slow call delays no other.
    pub async fn run(self) {
        let Source { index, node, readings } = self;
        let mut pause = PAUSE;
        loop {
            let opened =
                Connection::open(&node.address, &node.credentials, Some(&node.fingerprint)).await;
            let why = match opened {
                Err(error) => error.in_one_line(),
                Ok(connection) => {
                    pause = PAUSE;
                    let (connection, readings) = (Arc::new(connection), readings.clone());
                    let (log_ended, has_answered) = Default::default();
                    Connected { index, connection, readings, log_ended, has_answered }.read().await
                }
            };
            // Nobody takes readings when the dashboard ends.
            if readings.send((index, Reading::Lost(why))).await.is_err() {
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

/// A part of a node, which is read by itself.
#[derive(Clone, Copy, Debug)]
enum Part {
    Status,
    Usage,
    Try,
}

impl Connected {
    /// Reads until the node is lost. Returns why.
    async fn read(&self) -> String {
        self.send(Reading::Connected).await;
        let mut tasks = JoinSet::new();
        for part in [Part::Status, Part::Usage, Part::Try] {
            tasks.spawn(self.clone().repeat(part));
        }
        tasks.spawn(self.clone().observe());
        tasks.spawn(self.clone().follow(None));
        let (mut followed, mut list) = (BTreeSet::new(), interval(LIST_INTERVAL));
        loop {
            let is_silent = tokio::select! {
                _ = list.tick() => {
                    for name in self.daemons().await {
                        if followed.len() < MAX_LOGS && followed.insert(name.clone()) {
                            tasks.spawn(self.clone().follow(Some(name)));
                        }
                    }
                    false
                }
                () = sleep(SILENCE) => !self.has_answered.swap(false, Ordering::Relaxed),
                () = self.log_ended.notified() => true,
                // They end by a panic alone, whose message is on the terminal already.
                Some(Err(ended)) = tasks.join_next() => resume_unwind(ended.into_panic()),
            };
            if is_silent && let Some(why) = self.loss().await {
                return why;
            }
        }
    }

    async fn send(&self, reading: Reading) {
        if reading.is_answer() {
            self.has_answered.store(true, Ordering::Relaxed);
        }
        // Nobody takes readings when the dashboard ends, which ends this, too.
        let _ = self.readings.send((self.index, reading)).await;
    }

    /// Reads a part again and again.
    async fn repeat(self, part: Part) {
        loop {
            let (reading, pause) = match part {
                Part::Status => (Reading::Status(answer(self.status()).await), STATUS_INTERVAL),
                Part::Usage => (Reading::Usage(answer(self.usage()).await), INTERVAL),
                Part::Try => (Reading::Try(answer(self.tried()).await), STATUS_INTERVAL),
            };
            self.send(reading).await;
            sleep(pause).await;
        }
    }

    /// Reads what is observed, and again whenever it changes.
    async fn observe(self) {
        loop {
            // Before the first reading, so that no change is missed.
            let watches = answer(join_all(OBSERVED.map(|name| self.watch(name))).map(Ok)).await;
            let watches = watches.into_iter().flatten().filter_map(Result::ok);
            let mut changes = select_all(watches);
            loop {
                self.send(Reading::Observed(answer(self.observed()).await)).await;
                // Without watches this is at once, and it is read after each pause.
                let change = changes.next().await;
                sleep(INTERVAL).await;
                // One reading covers all changes of the pause, so their messages are dropped.
                while let Some(Some(Ok(_))) = changes.next().now_or_never() {}
                if !matches!(change, Some(Ok(_))) {
                    break;
                }
            }
        }
    }

    /// The changes of a type. The first message says that it is watched.
    async fn watch(&self, type_name: &str) -> Result<Streaming<WatchResponse>, Status> {
        let request = WatchRequest {
            namespace: SYSTEM.to_owned(),
            r#type: type_name.to_owned(),
            ..WatchRequest::default()
        };
        let mut changes = self.connection.state().watch(request).await?.into_inner();
        changes.message().await?;
        Ok(changes)
    }

    /// Why the node is lost, if it is. `osd` answers this call itself: that one of its containers
    /// does not run is another matter.
    async fn loss(&self) -> Option<String> {
        let request = GetRequest {
            namespace: SYSTEM.to_owned(),
            r#type: "NodeAddresses.osbuild".to_owned(),
            id: NODE.to_owned(),
            options: None,
        };
        match timeout(TIMEOUT, self.connection.state().get(request)).await {
            Err(_) => Some(format!("no answer for {TIMEOUT:?}")),
            Ok(Err(status)) if is_broken(&status) => Some(Error::from(status).in_one_line()),
            Ok(_) => None,
        }
    }

    async fn status(&self) -> Result<GetStatusResponse, Error> {
        Ok(self.connection.node().get_status(GetStatusRequest {}).await?.into_inner())
    }

    async fn usage(&self) -> Result<Sample, Error> {
        let usage = self.connection.inspect().get_usage(GetUsageRequest {}).await?.into_inner();
        let processes = self.connection.inspect().list_processes(ListProcessesRequest {}).await?;
        Ok(Sample { usage, processes: processes.into_inner().processes })
    }

    async fn tried(&self) -> Result<GetTryResponse, Error> {
        Ok(self.connection.configuration().get_try(GetTryRequest {}).await?.into_inner())
    }

    async fn observed(&self) -> Result<Resources, Error> {
        let list = async |name| resource::list(&self.connection, SYSTEM, name).await;
        let [links, addresses, routes, resolvers, kernels] = OBSERVED;
        Ok(Resources {
            links: list(links).await?,
            addresses: list(addresses).await?,
            routes: list(routes).await?,
            resolvers: list(resolvers).await?,
            kernels: list(kernels).await?,
        })
    }

    /// The names of the daemons' logs. Without an answer, none.
    async fn daemons(&self) -> Vec<String> {
        let mut inspect = self.connection.inspect();
        let listed = timeout(TIMEOUT, inspect.list_logs(ListLogsRequest {})).await;
        let names = listed.ok().and_then(Result::ok).map(|answer| answer.into_inner().names);
        names.unwrap_or_default().into_iter().filter(|name| !name.contains('/')).collect()
    }

    /// Follows the log of a daemon, or the kernel's.
    async fn follow(self, daemon: Option<String>) {
        loop {
            // The error is dropped: its cause also fails the readings of the use, whose error is
            // shown.
            let _ = match &daemon {
                Some(name) => self.read_log(name).await,
                None => self.read_kernel_log().await,
            };
            self.log_ended.notify_one();
            sleep(LOG_PAUSE).await;
        }
    }

    async fn read_log(&self, name: &str) -> Result<(), Status> {
        let request = ReadLogRequest {
            name: name.to_owned(),
            tail_lines: Some(TAIL),
            follow: true,
            previous: false,
        };
        let mut messages = self.connection.inspect().read_log(request).await?.into_inner();
        self.send(Reading::LogBegins(name.to_owned())).await;
        while let Some(message) = messages.message().await? {
            let lines = message.lines.iter().flat_map(|line| Line::of_daemon(name, line));
            self.send(Reading::Lines(lines.collect())).await;
        }
        Ok(())
    }

    async fn read_kernel_log(&self) -> Result<(), Status> {
        let request = ReadKernelLogRequest { tail_lines: Some(TAIL), follow: true };
        let mut messages = self.connection.inspect().read_kernel_log(request).await?.into_inner();
        self.send(Reading::LogBegins(KERNEL.to_owned())).await;
        while let Some(message) = messages.message().await? {
            let lines = message.messages.iter().flat_map(Line::of_kernel);
            self.send(Reading::Lines(lines.collect())).await;
        }
        Ok(())
    }
}

/// The answer to a call that may be slow or fail.
async fn answer<T>(call: impl Future<Output = Result<T, Error>>) -> Answer<T> {
    match timeout(TIMEOUT, call).await {
        Err(_) => Err(format!("no answer for {TIMEOUT:?}")),
        Ok(answer) => answer.map_err(|error| error.in_one_line()),
    }
}

/// Whether this is no answer, because the connection broke.
fn is_broken(status: &Status) -> bool {
    std::error::Error::source(status).is_some() || status.code() == Code::Unavailable
}

//! The use of resources by a node and its processes, from counters at two moments.

use osbuild_cosi::v1::{GetUsageResponse, HostProcess, LinkUsage};
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

/// The counters at one moment.
#[derive(Debug)]
pub struct Sample {
    /// Those of the node.
    pub usage: GetUsageResponse,
    /// Those of its processes.
    pub processes: Vec<HostProcess>,
}

/// The use between two moments.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// The share of all processors that was busy, in percent.
    pub processor_percent: f64,
    /// The links that were there at both moments.
    pub links: Vec<LinkRate>,
    /// The pods, and as one with an empty name all processes that are in none.
    pub pods: Vec<PodUse>,
    /// The processes.
    pub processes: Vec<ProcessUse>,
}

/// The rates at which a link receives and sends.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkRate {
    /// Its name.
    pub name: String,
    /// The bytes that it receives a second.
    pub received_bytes_per_second: f64,
    /// The bytes that it sends a second.
    pub sent_bytes_per_second: f64,
}

/// The use of resources by all processes of a pod together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUse {
    /// `NAMESPACE/POD`.
    pub pod: String,
    /// The use of processors, in percent of one.
    pub processor_percent: f64,
    /// The memory, in bytes. Memory that several processes share counts for each.
    pub memory_bytes: u64,
}

/// The use of resources by a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessUse {
    /// Its identifier.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// The pod to which it belongs. Empty if it belongs to none.
    pub pod: String,
    /// The use of processors, in percent of one.
    pub processor_percent: f64,
    /// The memory, in bytes.
    pub memory_bytes: u64,
}

impl Rates {
    /// The use between two samples of one node, with what uses most processor time first.
    pub fn between(before: &Sample, after: &Sample) -> Rates {
        let processes = processes(before, after);
        Rates {
            processor_percent: busy(&before.usage, &after.usage),
            links: links(&before.usage, &after.usage),
            pods: pods(&processes),
            processes,
        }
    }

    /// Puts first what uses most memory.
    pub fn sort_by_memory(&mut self) {
        self.pods.sort_by_key(|one| Reverse(one.memory_bytes));
        self.processes.sort_by_key(|one| Reverse(one.memory_bytes));
    }
}

fn seconds(before: &GetUsageResponse, after: &GetUsageResponse) -> f64 {
    after.read_milliseconds.saturating_sub(before.read_milliseconds).max(1) as f64 / 1000.0
}

/// The number with one decimal: more would be noise.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn busy(before: &GetUsageResponse, after: &GetUsageResponse) -> f64 {
    let busy = after.busy_milliseconds.saturating_sub(before.busy_milliseconds);
    let idle = after.idle_milliseconds.saturating_sub(before.idle_milliseconds);
    rounded(100.0 * busy as f64 / busy.saturating_add(idle).max(1) as f64)
}

fn links(before: &GetUsageResponse, after: &GetUsageResponse) -> Vec<LinkRate> {
    let seconds = seconds(before, after);
    let rate = |before: u64, after: u64| rounded(after.saturating_sub(before) as f64 / seconds);
    let links = after.links.iter().filter_map(|now| {
        let LinkUsage { received_bytes, sent_bytes, .. } =
            before.links.iter().find(|link| link.name == now.name)?;
        Some(LinkRate {
            name: now.name.clone(),
            received_bytes_per_second: rate(*received_bytes, now.received_bytes),
            sent_bytes_per_second: rate(*sent_bytes, now.sent_bytes),
        })
    });
    links.collect()
}

/// The processes of `after`. The time of one that was started since `before` counts from its start.
fn processes(before: &Sample, after: &Sample) -> Vec<ProcessUse> {
    // The kernel gives the identifier of a process that has ended to another one.
    let key = |process: &HostProcess| (process.pid, process.started_milliseconds);
    let times = before.processes.iter().map(|one| (key(one), one.processor_milliseconds));
    let times: BTreeMap<_, _> = times.collect();
    let seconds = seconds(&before.usage, &after.usage);
    let uses = after.processes.iter().map(|process| {
        let since = times.get(&key(process)).copied().unwrap_or(0);
        let milliseconds = process.processor_milliseconds.saturating_sub(since);
        ProcessUse {
            pid: process.pid,
            name: process.name.clone(),
            pod: process.pod.clone(),
            processor_percent: rounded(milliseconds as f64 / 10.0 / seconds),
            memory_bytes: process.memory_bytes,
        }
    });
    let mut uses: Vec<_> = uses.collect();
    uses.sort_by(|a, b| {
        order((a.processor_percent, a.memory_bytes), (b.processor_percent, b.memory_bytes))
    });
    uses
}

fn pods(processes: &[ProcessUse]) -> Vec<PodUse> {
    let mut sums = BTreeMap::<&str, (f64, u64)>::new();
    for process in processes {
        let (processor, memory) = sums.entry(&process.pod).or_default();
        *processor += process.processor_percent;
        *memory = memory.saturating_add(process.memory_bytes);
    }
    let mut pods: Vec<_> = sums.into_iter().collect();
    pods.sort_by(|(_, a), (_, b)| order(*a, *b));
    let pod = |(pod, (processor, memory_bytes)): (&str, _)| PodUse {
        pod: pod.to_owned(),
        processor_percent: rounded(processor),
        memory_bytes,
    };
    pods.into_iter().map(pod).collect()
}

/// More processor time comes first, and then more memory.
fn order((a, a_memory): (f64, u64), (b, b_memory): (f64, u64)) -> Ordering {
    b.total_cmp(&a).then(b_memory.cmp(&a_memory))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A node with three processes that have used these times, in milliseconds.
    pub fn sample(seconds: u64, busy: u64, used: [u64; 3]) -> Sample {
        let process = |pid: i32, pod: &str, megabytes: u64| HostProcess {
            pid,
            name: format!("p{pid}"),
            pod: pod.to_owned(),
            memory_bytes: megabytes << 20,
            processor_milliseconds: used[usize::try_from(pid).unwrap() - 1],
            ..HostProcess::default()
        };
        let link = LinkUsage {
            name: "eth0".into(),
            received_bytes: seconds << 11,
            ..LinkUsage::default()
        };
        let usage = GetUsageResponse {
            read_milliseconds: seconds * 1000,
            processors: 2,
            busy_milliseconds: busy,
            idle_milliseconds: seconds * 2000 - busy,
            links: vec![link],
            ..GetUsageResponse::default()
        };
        let processes = vec![process(1, "", 9), process(2, "a/x", 1), process(3, "a/x", 2)];
        Sample { usage, processes }
    }

    fn names(rates: &Rates) -> Vec<&str> {
        rates.processes.iter().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn rates_are_of_the_time_between() {
        let (before, after) = (sample(10, 1000, [50, 100, 0]), sample(12, 2000, [150, 900, 200]));
        let mut rates = Rates::between(&before, &after);
        assert_eq!(rates.processor_percent, 25.0);
        let pod = |pod: &str, processor_percent, megabytes: u64| PodUse {
            pod: pod.into(),
            processor_percent,
            memory_bytes: megabytes << 20,
        };
        assert_eq!(rates.pods, [pod("a/x", 50.0, 3), pod("", 5.0, 9)]);
        assert_eq!(names(&rates), ["p2", "p3", "p1"]);
        rates.sort_by_memory();
        assert_eq!(names(&rates), ["p1", "p3", "p2"]);
        assert_eq!(rates.pods[0].pod, "");
        let eth0 = LinkRate {
            name: "eth0".into(),
            received_bytes_per_second: 2048.0,
            sent_bytes_per_second: 0.0,
        };
        assert_eq!(rates.links, [eth0]);
    }

    #[test]
    fn a_process_with_the_identifier_of_an_ended_one_counts_from_its_start() {
        let (before, mut after) = (sample(10, 0, [900, 0, 0]), sample(12, 0, [1000, 0, 0]));
        after.processes[0].started_milliseconds = 11_000;
        let rates = Rates::between(&before, &after);
        assert_eq!((names(&rates)[0], rates.processes[0].processor_percent), ("p1", 50.0));
    }

    #[test]
    fn a_node_that_was_rebooted_between_has_finite_rates() {
        let rates = Rates::between(&sample(900, 5, [9, 9, 9]), &sample(1, 2, [1, 0, 0]));
        assert_eq!(rates.processor_percent, 0.0);
        assert!(rates.processes.iter().all(|one| one.processor_percent == 0.0), "{rates:?}");
    }
}

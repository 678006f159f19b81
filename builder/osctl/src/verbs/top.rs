//! `osctl top`: what uses the processors, the memory, the disk and the network of the node.

use super::output::Output;
use super::print_part;
use super::processes::mebibytes;
use crate::cli::{ListForm, Sorted, Top};
use crate::connection::Connection;
use crate::error::{Result, printable};
use crate::rates::{Rates, Sample};
use crate::resource::escaped_json;
use crate::table::Table;
use osbuild_cosi::v1::{GetUsageRequest, GetUsageResponse, ListProcessesRequest};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::time::Duration;
use tokio::time::sleep;

/// The time over which rates are measured.
const INTERVAL: Duration = Duration::from_secs(2);

/// Empties the screen and puts the cursor at its start.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Measures the node's use of resources over the next two seconds (`INTERVAL`).
pub async fn show(connection: &Connection, top: &Top) -> Result<Output> {
    let before = sample(connection).await?;
    sleep(INTERVAL).await;
    let after = sample(connection).await?;
    let rates = rates(&before, &after, top.sort);
    Ok(match top.output {
        ListForm::Table => Output::Text(text(&after.usage, &rates, top.rows)),
        ListForm::Json => Output::Json(data(&after.usage, &rates)),
    })
}

/// Prints what the node uses, again and again. A terminal shows the last one; JSON is an object a
/// line.
pub async fn watch(connection: &Connection, top: &Top) -> Result<()> {
    let clear = if std::io::stdout().is_terminal() { CLEAR } else { "" };
    let mut before = sample(connection).await?;
    loop {
        sleep(INTERVAL).await;
        let after = sample(connection).await?;
        let rates = rates(&before, &after, top.sort);
        print_part(&match top.output {
            ListForm::Table => format!("{clear}{}\n", text(&after.usage, &rates, top.rows)),
            ListForm::Json => escaped_json(&data(&after.usage, &rates).to_string()) + "\n",
        })?;
        before = after;
    }
}

async fn sample(connection: &Connection) -> Result<Sample> {
    let usage = connection.inspect().get_usage(GetUsageRequest {}).await?.into_inner();
    let processes = connection.inspect().list_processes(ListProcessesRequest {}).await?;
    Ok(Sample { usage, processes: processes.into_inner().processes })
}

fn rates(before: &Sample, after: &Sample, sort: Sorted) -> Rates {
    let mut rates = Rates::between(before, after);
    if sort == Sorted::Memory {
        rates.sort_by_memory();
    }
    rates
}

fn data(usage: &GetUsageResponse, rates: &Rates) -> Value {
    json!({ "usage": usage, "rates": rates })
}

/// The node, its pods and its processes, as three tables.
fn text(usage: &GetUsageResponse, rates: &Rates, rows: usize) -> String {
    let tables = [facts(usage, rates), pods(rates, rows), processes(rates, rows)];
    tables.map(|rows| Table::with(&rows).1.join("\n") + "\n").join("\n")
}

fn facts(usage: &GetUsageResponse, rates: &Rates) -> Vec<Vec<String>> {
    let GetUsageResponse { load_1_minute, load_5_minutes, load_15_minutes, .. } = usage;
    let load = format!("{load_1_minute:.2}, {load_5_minutes:.2}, {load_15_minutes:.2}");
    let memory = used(usage.memory_bytes, usage.available_memory_bytes);
    let mut facts = vec![
        ("CPU".to_owned(), format!("{} of {}", percent(rates.processor_percent), usage.processors)),
        ("load".to_owned(), format!("{load} (1, 5, 15 min)")),
        ("memory".to_owned(), memory),
    ];
    if let Some(data) = &usage.data {
        let inodes = data.inodes.saturating_sub(data.free_inodes);
        let files = format!("{inodes} of {} inodes", data.inodes);
        facts.push(("DATA".to_owned(), format!("{}, {files}", used(data.bytes, data.free_bytes))));
    }
    facts.extend(usage.pressures.iter().map(|pressure| {
        let shares = [
            pressure.percent_10_seconds,
            pressure.percent_60_seconds,
            pressure.percent_300_seconds,
        ];
        let shares = shares.map(percent).join(", ");
        (format!("wait for {}", pressure.resource), format!("{shares} (10, 60, 300 s)"))
    }));
    facts.extend(rates.links.iter().map(|link| {
        let kibibytes = |bytes: f64| format!("{:.1} KiB/s", bytes / 1024.0);
        let received = kibibytes(link.received_bytes_per_second);
        (link.name.clone(), format!("{received} in, {} out", kibibytes(link.sent_bytes_per_second)))
    }));
    facts.into_iter().map(|(name, value)| vec![printable(&name), value]).collect()
}

fn pods(rates: &Rates, rows: usize) -> Vec<Vec<String>> {
    let titles = ["POD", "CPU", "MEMORY"].map(str::to_owned).to_vec();
    let pods = rates.pods.iter().take(rows).map(|one| {
        vec![pod(&one.pod), percent(one.processor_percent), mebibytes(one.memory_bytes)]
    });
    std::iter::once(titles).chain(pods).collect()
}

fn processes(rates: &Rates, rows: usize) -> Vec<Vec<String>> {
    let titles = ["PID", "NAME", "CPU", "MEMORY", "POD"].map(str::to_owned).to_vec();
    let processes = rates.processes.iter().take(rows).map(|one| {
        vec![
            one.pid.to_string(),
            printable(&one.name),
            percent(one.processor_percent),
            mebibytes(one.memory_bytes),
            pod(&one.pod),
        ]
    });
    std::iter::once(titles).chain(processes).collect()
}

fn pod(name: &str) -> String {
    if name.is_empty() { "-".to_owned() } else { printable(name) }
}

fn percent(share: f64) -> String {
    format!("{share:.1} %")
}

fn used(bytes: u64, free: u64) -> String {
    format!("{} of {}", mebibytes(bytes.saturating_sub(free)), mebibytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::sample;
    use osbuild_cosi::v1::{FileSystemUsage, Pressure};

    fn after() -> Sample {
        let mut after = sample(12, 2000, [100, 800, 200]);
        let pressure = Pressure {
            resource: "memory\u{1b}".into(),
            percent_10_seconds: 12.5,
            ..Pressure::default()
        };
        after.usage = GetUsageResponse {
            load_1_minute: 0.5,
            memory_bytes: 1 << 30,
            available_memory_bytes: 1 << 29,
            pressures: vec![pressure],
            data: Some(FileSystemUsage {
                bytes: 3 << 20,
                free_bytes: 1 << 20,
                inodes: 100,
                free_inodes: 40,
            }),
            ..after.usage
        };
        after
    }

    #[test]
    fn the_node_its_pods_and_its_processes_are_tables() {
        let (before, after) = (sample(10, 1000, [0, 0, 0]), after());
        let text = text(&after.usage, &rates(&before, &after, Sorted::Cpu), 2);
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "CPU                    25.0 % of 2",
                "load                   0.50, 0.00, 0.00 (1, 5, 15 min)",
                "memory                 512.0 MiB of 1024.0 MiB",
                "DATA                   2.0 MiB of 3.0 MiB, 60 of 100 inodes",
                "wait for memory\\u{1b}  12.5 %, 0.0 %, 0.0 % (10, 60, 300 s)",
                "eth0                   2.0 KiB/s in, 0.0 KiB/s out",
                "",
                "POD  CPU     MEMORY",
                "a/x  50.0 %  3.0 MiB",
                "-    5.0 %   9.0 MiB",
                "",
                "PID  NAME  CPU     MEMORY   POD",
                "2    p2    40.0 %  1.0 MiB  a/x",
                "3    p3    10.0 %  2.0 MiB  a/x",
            ]
        );
    }

    #[test]
    fn data_have_counters_and_rates() {
        let (before, after) = (sample(10, 1000, [0, 0, 0]), after());
        let data = data(&after.usage, &rates(&before, &after, Sorted::Memory));
        assert_eq!(data["usage"]["data"]["freeInodes"], 40);
        assert_eq!(data["usage"]["load1Minute"], 0.5);
        assert_eq!(data["rates"]["processorPercent"], 25.0);
        assert_eq!(data["rates"]["processes"][0]["name"], "p1");
        assert_eq!(data["rates"]["links"][0]["receivedBytesPerSecond"], 2048.0);
    }
}

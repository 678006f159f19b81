//! `osctl logs` and `osctl dmesg`: what the daemons, the containers and the kernel have written.

use super::output::Output;
use super::print_part;
use crate::cli::Lines;
use crate::connection::Connection;
use crate::error::{Error, Result, printable};
use osbuild_cosi::v1::{
    KernelMessage, ListLogsRequest, LogLine, ReadKernelLogRequest, ReadLogRequest,
};

/// Which lines of a log, and how they are shown.
pub struct Reading {
    /// Which lines.
    pub lines: Lines,
    /// Whether to read the log of the last boot, or of the run before.
    pub previous: bool,
    /// Whether to show when a container wrote each line.
    pub timestamps: bool,
}

/// The names of the logs.
pub async fn list(connection: &Connection) -> Result<Output> {
    let names = names(connection).await?;
    Ok(Output::Lines(names.iter().map(|name| printable(name)).collect()))
}

/// Prints a log.
pub async fn show(connection: &Connection, wanted: &str, reading: Reading) -> Result<()> {
    let Reading { lines: Lines { follow, tail }, previous, timestamps } = reading;
    let name = find(&names(connection).await?, wanted)?;
    let request = ReadLogRequest { name, tail_lines: tail, follow, previous };
    let mut messages = connection.inspect().read_log(request).await?.into_inner();
    while let Some(message) = messages.message().await? {
        let text: String = message.lines.iter().map(|line| log_line(line, timestamps)).collect();
        print_part(&text)?;
    }
    Ok(())
}

/// The last lines of the log with this name, with their times.
pub async fn end(connection: &Connection, name: &str, tail: u32, previous: bool) -> Result<String> {
    let request =
        ReadLogRequest { name: name.to_owned(), tail_lines: Some(tail), follow: false, previous };
    let mut messages = connection.inspect().read_log(request).await?.into_inner();
    let mut text = String::new();
    while let Some(message) = messages.message().await? {
        text.extend(message.lines.iter().map(|line| log_line(line, true)));
    }
    Ok(text)
}

/// The messages of the kernel.
pub async fn kernel(connection: &Connection) -> Result<String> {
    let request = ReadKernelLogRequest { tail_lines: None, follow: false };
    let mut messages = connection.inspect().read_kernel_log(request).await?.into_inner();
    let mut text = String::new();
    while let Some(message) = messages.message().await? {
        text.extend(message.messages.iter().map(kernel_line));
    }
    Ok(text)
}

/// Prints the messages of the kernel.
pub async fn show_kernel(connection: &Connection, Lines { follow, tail }: Lines) -> Result<()> {
    let request = ReadKernelLogRequest { tail_lines: tail, follow };
    let mut messages = connection.inspect().read_kernel_log(request).await?.into_inner();
    while let Some(message) = messages.message().await? {
        print_part(&message.messages.iter().map(kernel_line).collect::<String>())?;
    }
    Ok(())
}

/// The names of the logs.
pub async fn names(connection: &Connection) -> Result<Vec<String>> {
    Ok(connection.inspect().list_logs(ListLogsRequest {}).await?.into_inner().names)
}

/// The log with this name, or the only one of this container or pod.
fn find(names: &[String], wanted: &str) -> Result<String> {
    let is_of = |name: &&String| {
        name.rsplit_once('/').is_some_and(|(pod, container)| {
            let after = format!("/{wanted}");
            let is_end = pod.ends_with(&after) || name.ends_with(&after);
            wanted == pod || wanted == container || is_end
        })
    };
    let exact = names.iter().find(|name| *name == wanted);
    let near: Vec<&String> = names.iter().filter(is_of).collect();
    match (exact, near.as_slice()) {
        (Some(name), _) => Ok(name.clone()),
        (None, [name]) => Ok((*name).clone()),
        (None, []) => Err(Error::usage(format!("there is no log `{}`", printable(wanted)))
            .hint("`osctl logs` lists them")),
        (None, several) => {
            let several: Vec<String> = several.iter().map(|name| printable(name)).collect();
            Err(Error::usage(format!("several logs are of `{}`", printable(wanted)))
                .hint(format!("name one: {}", several.join(", "))))
        }
    }
}

fn log_line(LogLine { text, time, .. }: &LogLine, with_time: bool) -> String {
    let time =
        if with_time && !time.is_empty() { format!("{} ", printable(time)) } else { String::new() };
    format!("{time}{}\n", shown(text))
}

fn kernel_line(KernelMessage { time_microseconds, text, .. }: &KernelMessage) -> String {
    let (seconds, rest) = (time_microseconds / 1_000_000, time_microseconds % 1_000_000);
    format!("[{seconds:5}.{rest:06}] {}\n", shown(text))
}

/// A text of several lines or with tabs stays what it is; nothing else in it moves the cursor.
pub fn shown(text: &str) -> String {
    let lines =
        text.split('\n').map(|line| line.split('\t').map(printable).collect::<Vec<_>>().join("\t"));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_found_by_its_name_or_by_the_only_container_or_pod() {
        let names =
            ["kubelet", "kube-system/osd-a/osd", "kube-system/osd-a/inspect", "x/dhcp-a/dhcp"];
        let names = names.map(str::to_owned);
        let found = |wanted| find(&names, wanted).ok();
        for (wanted, name) in [
            ("kubelet", "kubelet"),
            ("x/dhcp-a/dhcp", "x/dhcp-a/dhcp"),
            ("dhcp", "x/dhcp-a/dhcp"),
            ("dhcp-a", "x/dhcp-a/dhcp"),
            ("x/dhcp-a", "x/dhcp-a/dhcp"),
            ("inspect", "kube-system/osd-a/inspect"),
            ("osd-a/osd", "kube-system/osd-a/osd"),
        ] {
            assert_eq!(found(wanted).as_deref(), Some(name), "{wanted}");
        }
        for wanted in ["", "osd-a", "kube-system/osd-a", "kube", "other"] {
            assert_eq!(found(wanted), None, "{wanted}");
        }
    }

    #[test]
    fn lines_show_no_control_characters() {
        let line =
            LogLine { text: "a\u{1b}[2J\tb".into(), time: "T1".into(), stream: "stdout".into() };
        assert_eq!(log_line(&line, false), "a\\u{1b}[2J\tb\n");
        assert_eq!(log_line(&line, true), "T1 a\\u{1b}[2J\tb\n");
        let message =
            KernelMessage { level: 3, time_microseconds: 12_345_678, text: "x\ny".into() };
        assert_eq!(kernel_line(&message), "[   12.345678] x\ny\n");
    }
}

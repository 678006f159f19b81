//! Looks now and then whether the two daemons still answer, once the node is ready. One that has
//! not answered three times in a row is ended and started anew. The questions are asked by a
//! short-lived child, `init health`.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use osbuild_abi::paths::INIT;
use osbuild_failure::{Explain, Outcome};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};

use crate::node::Node;
use crate::process::State;
use crate::uptime::uptime;
use crate::{containerd, kubelet, sys};

/// The name on the console, and the subcommand.
pub const NAME: &str = "health";

/// The daemons that are asked.
pub const ASKED: [&str; 2] = [kubelet::NAME, containerd::NAME];

/// How long one of them may take to answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long after one question the next is asked.
const INTERVAL: Duration = Duration::from_secs(30);

/// How long the child may take: both answers, and its own start on a busy machine.
const CHILD_TIMEOUT: Duration = Duration::from_secs(40);

/// How often in a row a daemon may give no answer.
const MAX_FAILURES: u32 = 3;

/// How long a daemon has been running before it has to answer.
const START_TIME: Duration = Duration::from_secs(120);

/// The most bytes that a child says.
const MAX_REPORT: usize = 4096;

/// What is known of the daemons.
#[derive(Default)]
pub struct Health {
    /// When to ask next, since boot.
    due: Duration,
    /// The child that asks.
    child: Option<Child>,
    /// Each of [`ASKED`]: how often in a row it has not answered.
    failures: [u32; ASKED.len()],
}

struct Child {
    pid: Pid,
    output: OwnedFd,
    deadline: Duration,
}

/// Asks, if it is time for that, and ends a child that takes too long.
pub fn watch(node: &mut Node) {
    if node.ready.is_none() || node.end.is_some() {
        return;
    }
    let now = uptime();
    match &node.health.child {
        Some(child) if now > child.deadline => {
            // It may have ended already.
            let _ = kill_process(child.pid, Signal::KILL);
        }
        Some(_) => {}
        None if now < node.health.due => {}
        None => {
            node.health.due = now + INTERVAL;
            match start(now) {
                Ok(child) => node.health.child = Some(child),
                Err(failure) => node.console.say(NAME, failure),
            }
        }
    }
}

/// How long the loop may wait.
pub fn timeout(node: &Node, now: Duration) -> Option<Duration> {
    (node.ready.is_some() && node.end.is_none()).then(|| match &node.health.child {
        Some(child) => child.deadline.saturating_sub(now),
        None => node.health.due.saturating_sub(now),
    })
}

/// Takes note that a child has ended. If it was the one that asks, a daemon that did not answer for
/// too long is ended.
pub fn ended(node: &mut Node, pid: Pid) {
    let Some(child) = node.health.child.take_if(|child| child.pid == pid) else { return };
    let mut report = [0; MAX_REPORT];
    let length = rustix::io::read(&child.output, &mut report).unwrap_or(0);
    let report = String::from_utf8_lossy(&report[..length]).into_owned();
    let now = uptime();
    for (index, name) in ASKED.into_iter().enumerate() {
        let silent = silence(&report, name);
        let Some(process) = node.process(name) else { continue };
        let must_answer =
            matches!(process.state, State::Running { since, .. } if now > since + START_TIME);
        let Some(why) = silent.filter(|_| must_answer) else {
            node.health.failures[index] = 0;
            continue;
        };
        node.health.failures[index] += 1;
        if node.health.failures[index] < MAX_FAILURES {
            continue;
        }
        node.health.failures[index] = 0;
        let said =
            format!("{name} has given no answer {MAX_FAILURES} times in a row and is ended: {why}");
        node.console.say(NAME, said);
        if let Some(process) = node.process(name) {
            process.end_hung(now);
        }
    }
}

/// Why a daemon gave no answer, by the child's report. Of one that is not named nothing is known.
fn silence<'a>(report: &'a str, name: &str) -> Option<&'a str> {
    report.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn start(now: Duration) -> Outcome<Child> {
    let (output, input) = pipe_with(PipeFlags::CLOEXEC).explain("make a pipe")?;
    fcntl_setfl(&output, OFlags::NONBLOCK).explain("make a pipe that does not block")?;
    let child = sys::unblock_signals(&mut Command::new(INIT))
        .arg(NAME)
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(input)
        .stderr(Stdio::null())
        .spawn()
        .explain(format_args!("start `{NAME}`"))?;
    // The handle is dropped: `init` reaps every child in one place, by its id.
    Ok(Child { pid: Pid::from_child(&child), output, deadline: now + CHILD_TIMEOUT })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_daemon_that_the_report_names_was_silent() {
        let report = "kubelet: connect: connection refused\n";
        assert_eq!(silence(report, kubelet::NAME), Some("connect: connection refused"));
        assert_eq!(silence(report, containerd::NAME), None);
        assert_eq!(silence("", kubelet::NAME), None);
    }

    #[test]
    fn a_daemon_is_replaced_within_the_time_that_the_readme_gives() {
        let longest = INTERVAL * MAX_FAILURES + CHILD_TIMEOUT + crate::process::KILL_AFTER;
        assert!(longest <= Duration::from_secs(180), "{longest:?}");
        assert!(include_str!("../README.md").contains("within three minutes"));
        assert!(ANSWER_TIMEOUT * 2 < CHILD_TIMEOUT);
    }
}

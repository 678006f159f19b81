//! Holds the host to the firewall rules that `init` asks for: a table of its own in nftables, which
//! is replaced at once, put back when another program changes or removes it, and removed with the
//! last rule. It leaves alone all other tables.

mod kernel;
mod ruleset;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use osbuild_nftables::Table;
use osbuild_protocol::{FirewallRule, NetworkSetting};

use kernel::{Netfilter, TABLE};

/// The wait from a change of the table to the comparison, which covers the changes that follow it.
const DELAY: Duration = Duration::from_millis(100);
/// The wait before rules that the kernel has refused are tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The rules, and what has become of them.
pub struct Firewall {
    /// The connection to the kernel; none if it has no nftables.
    netfilter: io::Result<Netfilter>,
    /// The table that shall be there, or none; unknown before `init` has replied.
    wanted: Option<Option<Table>>,
    /// Whether the host has had it since it is wanted.
    was_set: bool,
    /// Why the rules are not in effect; none if they are, or if that is not known.
    problem: Option<String>,
    /// When to compare the host with the rules.
    due: Option<Duration>,
}

impl Firewall {
    /// Connects to the kernel.
    pub fn start() -> Self {
        Self {
            netfilter: Netfilter::open(),
            wanted: None,
            was_set: false,
            problem: None,
            due: None,
        }
    }

    /// The descriptor to poll for changes of tables; none without nftables.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.netfilter.as_ref().ok().map(Netfilter::reports)
    }

    /// When [`Self::hold`] is due.
    pub fn deadline(&self) -> Option<Duration> {
        self.due
    }

    /// Takes the rules among new settings, and sets them at once: a link that is switched on next
    /// never receives without them.
    pub fn take_settings(&mut self, settings: &[NetworkSetting], now: Duration) {
        let rules: Vec<&FirewallRule> = settings
            .iter()
            .filter_map(|setting| match setting {
                NetworkSetting::FirewallRule(rule) => Some(rule),
                _ => None,
            })
            .collect();
        let wanted = Some(ruleset::table(TABLE, &rules));
        if self.wanted != wanted {
            self.wanted = wanted;
            self.was_set = false;
        }
        self.hold(now);
    }

    /// Takes reports of changes of the table.
    pub fn take_changes(&mut self, now: Duration) {
        if self.netfilter.as_mut().is_ok_and(|netfilter| netfilter.drain_reports()) {
            self.due.get_or_insert(now + DELAY);
        }
    }

    /// Whether the rules are in effect, or why not.
    pub fn outcome(&self) -> Option<Option<String>> {
        self.wanted.as_ref().map(|_| self.problem.clone())
    }

    /// Compares the host with the rules, and replaces the table if it differs.
    pub fn hold(&mut self, now: Duration) {
        self.due = None;
        let Some(wanted) = &self.wanted else { return };
        let netfilter = match &mut self.netfilter {
            Ok(netfilter) => netfilter,
            Err(error) => {
                self.problem = Some(format!("the kernel has no nftables: {error}"));
                return;
            }
        };
        match hold(netfilter, wanted.as_ref(), self.was_set) {
            Ok(()) => (self.problem, self.was_set) = (None, true),
            Err(error) => {
                let reason = error.to_string();
                if self.problem.as_ref() != Some(&reason) {
                    eprintln!("cannot set the firewall: {reason}");
                }
                self.problem = Some(reason);
                self.due = Some(now + RETRY);
            }
        }
    }
}

fn hold(netfilter: &mut Netfilter, wanted: Option<&Table>, was_set: bool) -> io::Result<()> {
    if netfilter.table()?.as_ref() == wanted {
        return Ok(());
    }
    if was_set {
        eprintln!("another program changed the table `{TABLE}` of nftables, it is set again");
    }
    netfilter.set(wanted)?;
    match netfilter.table()?.as_ref() == wanted {
        true => Ok(()),
        false => Err(io::Error::other("the kernel has other rules than it was given")),
    }
}

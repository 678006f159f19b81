//! Holds the host to the firewall rules and the NAT rules that `init` asks for, and to those that
//! keep pods from the metadata of a cloud: a table of its own in nftables for each of them, which
//! is replaced at once, put back when another program changes or removes it, and removed with the
//! last rule. It leaves alone all other tables.

mod kernel;
mod metadata;
mod nat;
mod ruleset;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use osbuild_nftables::Table;
use osbuild_protocol::NetworkSetting;

use crate::pace::Pace;
use kernel::Netfilter;

/// The wait before rules that the kernel has refused are tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The rules of one kind, and what has become of them.
pub struct HeldTable {
    /// The name of the table, which no other program uses.
    name: &'static str,
    /// Makes the table of the settings, or none.
    table: fn(&str, &[NetworkSetting]) -> Option<Table>,
    /// The connection to the kernel; none if it has no nftables.
    netfilter: io::Result<Netfilter>,
    /// The table that shall be there, or none; unknown before `init` has replied.
    wanted: Option<Option<Table>>,
    /// Whether the host has had it since it is wanted.
    was_set: bool,
    /// Why the rules are not in effect; none if they are, or if that is not known.
    problem: Option<String>,
    /// When to compare the host with the rules.
    pace: Pace,
}

impl HeldTable {
    /// Connects to the kernel for the firewall rules.
    pub fn firewall() -> Self {
        Self::start("osbuild", ruleset::table)
    }

    /// Connects to the kernel for the NAT rules. A kernel without NAT has the firewall.
    pub fn nat() -> Self {
        Self::start("osbuild-nat", nat::table)
    }

    /// Connects to the kernel for the rules that keep pods from the metadata of a cloud, which
    /// depend on no setting.
    pub fn metadata() -> Self {
        Self::start("osbuild-metadata", |name, _| Some(metadata::table(name)))
    }

    fn start(name: &'static str, table: fn(&str, &[NetworkSetting]) -> Option<Table>) -> Self {
        Self {
            name,
            table,
            netfilter: Netfilter::open(name),
            wanted: None,
            was_set: false,
            problem: None,
            pace: Pace::default(),
        }
    }

    /// The descriptor to poll for changes of tables; none without nftables.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.netfilter.as_ref().ok().map(Netfilter::reports)
    }

    /// When [`Self::hold`] is due.
    pub fn deadline(&self) -> Option<Duration> {
        self.pace.due()
    }

    /// Takes the rules among new settings, and sets them at once: a link that is switched on next
    /// never receives without them.
    pub fn take_settings(&mut self, settings: &[NetworkSetting], now: Duration) {
        let wanted = Some((self.table)(self.name, settings));
        if self.wanted != wanted {
            self.wanted = wanted;
            self.was_set = false;
        }
        self.hold(now);
    }

    /// Takes reports of changes of the table.
    pub fn take_changes(&mut self, now: Duration) {
        if self.netfilter.as_mut().is_ok_and(|netfilter| netfilter.drain_reports()) {
            self.pace.on_change(now);
        }
    }

    /// Whether the rules are in effect, or why not.
    pub fn outcome(&self) -> Option<Option<String>> {
        self.wanted.as_ref().map(|_| self.problem.clone())
    }

    /// Compares the host with the rules, and replaces the table if it differs.
    pub fn hold(&mut self, now: Duration) {
        self.pace.begin(now);
        let Some(wanted) = &self.wanted else { return };
        let netfilter = match &mut self.netfilter {
            Ok(netfilter) => netfilter,
            Err(error) => {
                self.problem = Some(format!("the kernel has no nftables: {error}"));
                return;
            }
        };
        match hold(netfilter, self.name, wanted.as_ref(), self.was_set) {
            Ok(()) => (self.problem, self.was_set) = (None, true),
            Err(error) => {
                let reason = error.to_string();
                if self.problem.as_ref() != Some(&reason) {
                    eprintln!("cannot set the table `{}` of nftables: {reason}", self.name);
                }
                self.problem = Some(reason);
                self.pace.set(now + RETRY);
            }
        }
    }
}

fn hold(
    netfilter: &mut Netfilter,
    name: &str,
    wanted: Option<&Table>,
    was_set: bool,
) -> io::Result<()> {
    if netfilter.table()?.as_ref() == wanted {
        return Ok(());
    }
    if was_set {
        eprintln!("another program changed the table `{name}` of nftables, it is set again");
    }
    netfilter.set(wanted)?;
    match netfilter.table()?.as_ref() == wanted {
        true => Ok(()),
        false => Err(io::Error::other("the kernel has other rules than it was given")),
    }
}

//! The boot of the node, as a table. It is run from top to bottom.

use std::time::Duration;

use osbuild_abi::console::PHASE;
use osbuild_failure::{Failure, Outcome};

use crate::node::Node;
use crate::uptime::uptime;
use crate::{
    clock, containerd, data, gate, hostname, images, kubelet, kubelet_config, last_resort, limits,
    link, log_files, machine_id, memory, mounts, secure_boot, slot, sockets, sysctl, trial,
    watchdog, writable,
};

use Ends::{AtOnce, Done, Later, When};
use Failing::{Counts, Noted, Reboots};

/// One phase of the boot.
pub struct Phase {
    /// Its name on the console.
    pub name: &'static str,
    /// What it does.
    start: fn(&mut Node) -> Outcome,
    /// When it has ended.
    ends: Ends,
    /// What a failure means.
    failing: Failing,
}

/// When a phase has ended.
pub enum Ends {
    /// When its function returns.
    AtOnce,
    /// When this holds. The next phase waits for it.
    When(fn(&Node) -> bool),
    /// When the job that it started, which has the phase's name, has done its work. The next phase
    /// waits for it.
    Done,
    /// The same, and the next phase does not wait for it.
    Later,
}

/// What the failure of a phase means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// No node without it: say so, wait, reboot.
    Reboots,
    /// The same, and what is kept of containers may be why: it counts for the last resort.
    Counts,
    /// The node is poorer without it: say so and go on.
    Noted,
}

/// The boot. Whatever a phase needs, one above it has made.
pub const BOOT: &[Phase] = &[
    phase("mounts", mounts::start, AtOnce, Reboots),
    phase(watchdog::NAME, watchdog::start, AtOnce, Noted),
    phase("memory", memory::check, AtOnce, Noted),
    phase(secure_boot::NAME, secure_boot::look, AtOnce, Noted),
    phase("clock", clock::not_before_the_image, AtOnce, Noted),
    phase("limits", limits::set, AtOnce, Noted),
    phase("sysctl", sysctl::apply, AtOnce, Noted),
    phase("loopback", link::loopback_up, AtOnce, Noted),
    phase("data", data::mount, AtOnce, Reboots),
    phase(slot::NAME, slot::find, AtOnce, Noted),
    phase("deadline", trial::begin, AtOnce, Noted),
    phase("last-clock", clock::not_before_the_last_boot, AtOnce, Noted),
    phase("machine-id", machine_id::make, AtOnce, Reboots),
    phase(last_resort::NAME, last_resort::take, AtOnce, Noted),
    phase("writable", writable::mount, AtOnce, Reboots),
    phase("logs", log_files::start, AtOnce, Noted),
    phase("hostname", hostname::set_first, AtOnce, Noted),
    phase("doors", sockets::requests::open, AtOnce, Noted),
    phase("old-images", images::forget, AtOnce, Counts),
    phase("containerd", containerd::start, When(containerd::answers), Counts),
    phase(images::NAME, images::start, Done, Counts),
    phase(kubelet_config::NAME, kubelet_config::start, Done, Noted),
    phase("kubelet", kubelet::start, AtOnce, Noted),
    phase(gate::NAME, gate::start, Later, Noted),
];

/// How long the boot waits for a phase that ends [`When`] something holds, or when its job is
/// [`Done`].
const PATIENCE: Duration = Duration::from_secs(120);

const fn phase(
    name: &'static str,
    start: fn(&mut Node) -> Outcome,
    ends: Ends,
    failing: Failing,
) -> Phase {
    Phase { name, start, ends, failing }
}

impl Phase {
    /// Notes for the next boots that the phase has failed.
    pub fn note_failure(&self, node: &mut Node) {
        let _cover = node.watchdog.cover();
        if self.failing == Counts
            && let Err(failure) = last_resort::count(node)
        {
            node.console.say(last_resort::NAME, failure);
        }
    }
}

/// How far the boot has come.
#[derive(Default)]
pub struct Boot {
    /// The index of the phase that is running or comes next.
    at: usize,
    /// When the phase was started, since boot, if it was.
    started: Option<Duration>,
}

impl Boot {
    /// Whether a phase is under way or to come.
    pub fn is_under_way(&self) -> bool {
        self.at < BOOT.len()
    }

    /// Goes on as far as the boot can without waiting. A failure means that the node cannot go on.
    pub fn advance(&mut self, node: &mut Node) -> Result<(), (&'static Phase, Failure)> {
        while let Some(phase) = BOOT.get(self.at) {
            match self.step(phase, node) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(failure) if phase.failing == Noted => node.console.say(phase.name, failure),
                Err(failure) => return Err((phase, failure)),
            }
            self.at += 1;
            self.started = None;
        }
        Ok(())
    }

    /// Starts the phase if it was not, and returns whether the next one may start.
    fn step(&mut self, phase: &Phase, node: &mut Node) -> Outcome<bool> {
        if self.started.is_none() {
            self.started = Some(uptime());
            // Phases before the daemons wait for disks, and nothing else has to be done meanwhile.
            let _cover = node.watchdog.cover();
            (phase.start)(node)?;
        }
        let is_over = match phase.ends {
            AtOnce => true,
            // The end of a job is told when it ends.
            Later => return Ok(true),
            Done if node.has_done(phase.name) => return Ok(true),
            Done => false,
            When(holds) => holds(node),
        };
        if !is_over {
            return match self.started {
                Some(since) if uptime() > since + PATIENCE => {
                    Err(Failure::new(format!("has not come up within {} s", PATIENCE.as_secs())))
                }
                _ => Ok(false),
            };
        }
        tell_end(node, phase.name);
        Ok(true)
    }
}

/// Prints the line that says that a phase has ended.
pub fn tell_end(node: &mut Node, name: &str) {
    node.console.line(&format!("{PHASE}{name} {:.3}", uptime().as_secs_f64()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_phases_share_a_name() {
        for (index, one) in BOOT.iter().enumerate() {
            assert!(BOOT[..index].iter().all(|other| other.name != one.name), "{}", one.name);
        }
    }

    #[test]
    fn the_readme_shows_the_phases_in_their_order() {
        let (_, table) = include_str!("../README.md")
            .split_once("| phase | does | ends | on failure |\n|---|---|---|---|\n")
            .unwrap();
        let rows = table
            .lines()
            .take_while(|line| line.starts_with("| `"))
            .map(|line| line.split('`').nth(1).unwrap());
        assert!(rows.eq(BOOT.iter().map(|phase| phase.name)));
    }

    #[test]
    fn the_kubelet_waits_for_containerd_and_for_the_images_of_this_boot() {
        let place = |name: &str| BOOT.iter().position(|phase| phase.name == name).unwrap();
        assert!(
            place("old-images") < place("containerd") && place("containerd") < place(images::NAME)
        );
        assert!(place(images::NAME) < place("kubelet"));
        assert!(matches!(BOOT[place("containerd")].ends, When(_)));
        // Without them the kubelet could run what somebody has put on the disk.
        for name in ["old-images", images::NAME] {
            assert!(
                matches!(BOOT[place(name)].ends, AtOnce | Done)
                    && BOOT[place(name)].failing != Noted
            );
        }
    }

    #[test]
    fn what_may_fail_by_what_is_kept_of_containers_counts_for_the_last_resort() {
        for phase in BOOT {
            let reads = ["old-images", containerd::NAME, images::NAME].contains(&phase.name);
            assert_eq!(phase.failing == Counts, reads, "{}", phase.name);
        }
    }

    #[test]
    fn the_last_resort_comes_between_data_and_what_is_bound_to_it() {
        let place = |name: &str| BOOT.iter().position(|phase| phase.name == name).unwrap();
        assert!(
            place("data") < place(last_resort::NAME)
                && place(last_resort::NAME) < place("writable")
        );
    }
}

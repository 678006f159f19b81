//! How a service executes steps: the first step of a build finds out. And the words for why a
//! service executes none.

use super::execute::{Stop, Tried, lock, malformed};
use super::foreign::{End, executed};
use super::{Remote, probe};
use crate::engine::action::{Action, ActionResult};
use crate::engine::launcher::Launcher;
use crate::engine::store::Store;
use crate::error::{Kind, Result};
use osbuild_remote::Fault;
use std::collections::BTreeSet;

/// The length of a reason that a worker printed, in characters.
const MAX_REASON: usize = 200;

/// How a service executes steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It does not.
    Nowhere,
    /// The input root is the `/` of a step.
    Root,
    /// It runs actions in a folder of its worker, where a launcher makes the `/` of a step.
    Folder,
}

impl Remote {
    /// How it executes steps as this machine does. The first step of a build finds out.
    pub(super) fn way(
        &self,
        store: &Store,
        action: &Action,
        launcher: Option<&Launcher>,
        here: &mut dyn FnMut(&Action) -> Result<ActionResult>,
    ) -> Result<Way> {
        let _first = lock(&self.first_step);
        let known = *lock(&self.execution.way);
        if let Some(known) = known {
            return Ok(known);
        }
        match self.find_way(store, action, launcher, here) {
            // Another step may have met a fault of the cache meanwhile.
            Ok(Ok(way)) => return Ok(*lock(&self.execution.way).get_or_insert(way)),
            Ok(Err(why)) => self.only_caches(&why),
            Err(Stop::Build(error)) => return Err(error),
            // Further steps would wait in the same queue.
            Err(Stop::Fault(Fault::Unfinished(why))) => {
                self.only_caches(&format!("a probe of its workers did not end: {why}"));
            }
            Err(Stop::Fault(fault)) => self.give_up(action, fault)?,
        }
        Ok(Way::Nowhere)
    }

    /// How it executes steps, or why it does not.
    fn find_way(
        &self,
        store: &Store,
        action: &Action,
        launcher: Option<&Launcher>,
        here: &mut dyn FnMut(&Action) -> Result<ActionResult>,
    ) -> Tried<std::result::Result<Way, String>> {
        if let Some(why) = self.cache.no_execution()? {
            return Ok(Err(why.to_owned()));
        }
        let probe = probe::probe(store, action).map_err(Stop::Build)?;
        let seen_here = match here(&probe) {
            Err(error) if error.kind == Kind::Build => {
                return Ok(Err("a shell of the sandbox's root does not run here".to_owned()));
            }
            result => result.and_then(|result| store.read(&result.output(probe::SEEN)?)),
        };
        let seen_here = seen_here.map_err(Stop::Build)?;
        let at_root = match self.look_around(store, &probe, None, &seen_here) {
            Ok(None) => return Ok(Ok(Way::Root)),
            Ok(Some(why)) => why,
            // The worker may lack the program, which it looked for among its own. Services have
            // different statuses for that.
            Err(Stop::Fault(Fault::Refused(why) | Fault::Temporary(why))) if launcher.is_some() => {
                why
            }
            Err(stop) => return Err(stop),
        };
        let Some(launcher) = launcher else { return Ok(Err(without_launcher(&at_root))) };
        let in_folder = self.look_around(store, &probe, Some(launcher), &seen_here)?;
        Ok(in_folder.map_or(Ok(Way::Folder), |why| Err(with_launcher(&at_root, &why))))
    }

    /// Why a step would not run there as it does here; `None` if it would.
    fn look_around(
        &self,
        store: &Store,
        probe: &Action,
        launcher: Option<&Launcher>,
        seen_here: &[u8],
    ) -> Tried<Option<String>> {
        let whole = self.whole(store, probe, launcher, true).map_err(Stop::Build)?;
        let bytes = self.try_out(store, &whole)?;
        let run = executed(&bytes, probe, "").ok_or_else(malformed)?;
        let result = match (run.end, launcher) {
            (End::Made(result), _) => result,
            (_, None) => {
                return Ok(Some("a shell of the input root does not run there".to_owned()));
            }
            (_, Some(_)) => return Ok(Some(reason(&self.printed(run.printed)?))),
        };
        let seen = result.output(probe::SEEN).map_err(Stop::Build)?;
        if seen.size() > probe::MAX_SEEN {
            return Ok(Some(format!("a step would see more than {} bytes there", probe::MAX_SEEN)));
        }
        self.read(store, BTreeSet::from([seen]))?;
        let seen_there = store.read(&seen).map_err(Stop::Build)?;
        let difference = probe::difference(&seen_there, seen_here);
        Ok(difference.map(|(there, here)| {
            format!("a step would see `{there}` there, and sees `{here}` here")
        }))
    }
}

/// Why a service executes nothing for which there is no launcher.
fn without_launcher(at_root: &str) -> String {
    format!("{at_root}; the lock has no launcher, which `cargo osbuild lock` adds")
}

/// Why a service executes nothing although there is a launcher: `in_folder` is why that failed.
fn with_launcher(at_root: &str, in_folder: &str) -> String {
    format!("{at_root}; and in a folder of the worker: {in_folder}")
}

/// The last line that a launcher printed on a worker.
fn reason(printed: &[u8]) -> String {
    let text = String::from_utf8_lossy(printed);
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    let plain = |letter: &char| !letter.is_control();
    match last {
        Some(line) => line.chars().filter(plain).take(MAX_REASON).collect(),
        None => "the launcher does not run there".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_last_line_without_control_characters() {
        assert_eq!(reason(b"first\nbwrap: no \x1b[1mnamespaces\n\n"), "bwrap: no [1mnamespaces");
        assert_eq!(reason(&[b'a'; 500]).len(), MAX_REASON);
        assert_eq!(reason(b"\n"), "the launcher does not run there");
    }
}

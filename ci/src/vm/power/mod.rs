//! Power cuts. Ending QEMU loses no write, so a machine's writes are recorded, and then replayed up
//! to any point, without some of those that were not flushed and with others in another order.
//! Every disk that comes of it is judged, and some are booted.

mod booting;
mod cut;
mod findings;
mod judge;
mod progress;
mod recording;
mod session;

use crate::check::Verdict;
use crate::site::Site;
use crate::vm::update::Played;
use booting::{Booting, boot_all};
use cut::{Cut, Extract, Medium};
use findings::Findings;
use judge::Judge;
use osbuild::error::{Context, Problem, Result};
use recording::{Entry, Recording};
use session::Session;
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, sync_channel};

/// How many disks that lie have to be found out.
const LIES: usize = 5;

/// How far a check goes.
struct Effort {
    /// How many disks are judged.
    judged: usize,
    /// How many are booted, and go on until the update is complete.
    booted: usize,
}

const SHORT: Effort = Effort { judged: 400, booted: 4 };
const LONG: Effort = Effort { judged: 10_000, booted: 60 };

/// How many machines boot beside each other.
const MACHINES: usize = 2;

/// A node's first boot, which grows DATA, a pod's files that it flushes, the update that it
/// installs, slotboot's replacement, and the first boot of the other slot: the power may go
/// anywhere.
pub fn a_node_survives_any_power_cut(site: &Site) -> Result<Verdict> {
    try_all(site, &SHORT)
}

/// The same, with as many cuts as give rare ones a chance. If it is interrupted it goes on from
/// there.
pub fn a_node_survives_any_power_cut_at_length(site: &Site) -> Result<Verdict> {
    try_all(site, &LONG)
}

fn try_all(site: &Site, effort: &Effort) -> Result<Verdict> {
    let session = Session::new(site, Played::any(site)?, effort.judged)?;
    let recording = Recording::open(&session.recording())?;
    let findings = Findings::open(&session.done())?;
    // Nobody waits in between: the judge gives a disk to a machine that is free, or waits for one.
    let (give, take) = sync_channel(0);
    let take = Mutex::new(take);
    std::thread::scope(|scope| {
        let machines: Vec<_> =
            (0..MACHINES).map(|_| scope.spawn(|| boot_all(&session, &take, &findings))).collect();
        let judged = judge_all(site, &session, &recording, &findings, give, effort);
        let booted = machines
            .into_iter()
            .map(|machine| machine.join().expect("a machine's thread does not panic"));
        booted.chain([judged]).collect::<Result<()>>()
    })?;
    let mut verdict = Verdict { problems: findings.problems(), ..Verdict::default() };
    verdict.problems.extend(lies_are_found(site, &session, &recording)?);
    verdict.passed = usize::from(verdict.problems.is_empty());
    verdict.said = format!(
        "{} writes, {} cuts, {} booted",
        recording.entries.len(),
        effort.judged,
        effort.booted
    );
    if verdict.problems.is_empty() {
        session.end()?;
    }
    Ok(verdict)
}

/// Judges what every cut leaves, and gives some of the disks to machines.
fn judge_all(
    site: &Site,
    session: &Session,
    recording: &Recording,
    findings: &Findings,
    machines: SyncSender<Booting>,
    effort: &Effort,
) -> Result<()> {
    let mut court = Court::new(site, session, recording)?;
    let every = (effort.judged / effort.booted).max(1);
    for index in (0..effort.judged).filter(|index| !findings.has(*index)) {
        let cut = cut(recording, index, effort.judged);
        let boots = index % every == every / 2;
        let about = format!("cut {index} of {}, after {} writes", effort.judged, cut.sent);
        let disk = session.disk(index);
        match court.judge(&cut, boots.then_some(&disk)) {
            Ok(()) if boots => {
                machines
                    .send(Booting { index, about, disk })
                    .expect("who takes disks outlives this");
            }
            judged => findings.add(index, &about, judged)?,
        }
        if findings.are_enough() {
            return Ok(());
        }
    }
    Ok(())
}

/// A disk that loses a file that it said was on it is found out: otherwise nothing was shown.
fn lies_are_found(site: &Site, session: &Session, recording: &Recording) -> Result<Vec<Problem>> {
    let mut court = Court::new(site, session, recording)?;
    let synced = court.synced.iter().enumerate().filter_map(|(at, file)| Some((at, (*file)?)));
    let begins: Vec<(usize, u32)> = synced.fold(Vec::new(), |mut begins, (at, file)| {
        begins.extend(begins.last().is_none_or(|(_, last)| file > *last).then_some((at, file)));
        begins
    });
    // Who wrote the later file of two had flushed the earlier one.
    let lies: Vec<Cut> =
        begins.windows(2).map(|files| Cut::of_a_liar(files[0].0, files[1].0 + 1)).collect();
    let mut problems = Vec::new();
    for lie in lies.iter().step_by((lies.len() / LIES).max(1)).take(LIES) {
        if court.judge(lie, None).is_ok() {
            problems.push(Problem::new(format!(
                "nobody notices that a disk lost a flushed file, after {} writes",
                lie.sent
            )));
        }
    }
    if lies.len() < LIES {
        problems.push(Problem::new(format!(
            "only {} of the probe's files were flushed in the recording",
            lies.len()
        )));
    }
    Ok(problems)
}

/// One disk, and what was found to be good on it.
struct Court<'a> {
    recording: &'a Recording,
    judge: Judge<'a>,
    medium: Medium<'a>,
    synced: Vec<Option<u32>>,
    /// Parts of it, with the number of files that were asked for.
    good: HashSet<(Extract, u32)>,
}

impl<'a> Court<'a> {
    fn new(site: &'a Site, session: &'a Session, recording: &'a Recording) -> Result<Self> {
        let disk = session.before()?;
        let open = File::options()
            .read(true)
            .write(true)
            .open(&disk)
            .or_build(|| format!("cannot open `{}`", disk.display()))?;
        Ok(Court {
            judge: Judge::new(site, &disk, session.folder(), session.size()?, session.programs()?)?,
            medium: Medium::new(recording, open),
            synced: synced(recording)?,
            good: HashSet::new(),
            recording,
        })
    }

    /// Judges what the cut leaves, as far as it was not judged before. `copy` is where a machine
    /// wants to have the disk.
    fn judge(&mut self, cut: &Cut, copy: Option<&PathBuf>) -> Result<()> {
        // Who wrote a file had flushed the one before.
        let files = self.synced[..cut.sent].iter().flatten().last().map_or(0, |file| file - 1);
        let (judge, good) = (&self.judge, &self.good);
        let data = (cut.extract(self.recording, |entry| judge.is_data(entry)), files);
        let rest = (cut.extract(self.recording, |entry| judge.is_rest(entry)), 0);
        self.medium.after(cut, |undo| {
            if !good.contains(&data) {
                judge.keeps(undo.disk(), files)?;
            }
            // Before the judge spends a try, as slotboot does.
            copy.map_or(Ok(()), |copy| whole(undo.disk(), copy))?;
            if !good.contains(&rest) {
                judge.starts(undo)?;
            }
            Ok(())
        })?;
        self.good.extend([rest, data]);
        Ok(())
    }
}

/// Copies the disk to `to`.
fn whole(disk: &File, to: &Path) -> Result<()> {
    let length =
        disk.metadata().or_build(|| "cannot read the disk of a power cut".to_owned())?.len();
    judge::copy(disk, 0, length, to).or_build(|| format!("cannot write `{}`", to.display()))
}

/// Cut `index` of `number`, in the order of what was sent: every prefix comes if there are as many
/// cuts as writes.
fn cut(recording: &Recording, index: usize, number: usize) -> Cut {
    let sent = ((index + 1) * recording.entries.len()).div_ceil(number);
    Cut::roll(recording, sent, &mut fastrand::Rng::with_seed(index as u64))
}

/// For each entry the number of the probe's file whose bytes it has, if it has any.
fn synced(recording: &Recording) -> Result<Vec<Option<u32>>> {
    let look = |entry: &Entry| match entry.length {
        4096 => Ok(number(&recording.read(entry, 0, 64)?)),
        _ => Ok(None),
    };
    recording.entries.iter().map(look).collect()
}

/// The number in a line of one of the probe's files.
fn number(line: &[u8]) -> Option<u32> {
    std::str::from_utf8(line).ok()?.strip_prefix("synced ")?.trim().parse().ok()
}

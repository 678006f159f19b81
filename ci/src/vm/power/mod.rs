//! Power cuts. Killing QEMU would lose no write, so a machine's writes are recorded and replayed up
//! to any point: some unflushed writes are left out, others are reordered. Each resulting disk is
//! checked, and some are booted.

mod booting;
mod cut;
mod cut_checker;
mod disk_checker;
mod findings;
mod progress;
mod recording;
mod session;

use crate::check::Outcome;
use crate::site::Site;
use crate::vm::update::RecordedUpdate;
use booting::{Booting, boot_all};
use cut::Cut;
use cut_checker::CutChecker;
use findings::Findings;
use osbuild::error::{Problem, Result};
use recording::Recording;
use session::Session;
use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, sync_channel};

/// How many disks that lost a flushed write the control makes.
const LOSSES: usize = 5;

/// The power cuts to check: enough for rare ones to occur.
const CUTS: usize = 10_000;
/// The cuts among them whose disk is booted until the update is complete.
const BOOTED: usize = 60;

/// How many machines boot in parallel.
const MACHINES: usize = 2;

/// The power may fail at any moment of a node's first boot, which grows DATA, of a pod's flushed
/// writes, of the update, of slotboot's replacement, and of the first boot of the other slot. An
/// interrupted check resumes.
pub fn a_node_survives_any_power_cut(site: &Site) -> Result<Outcome> {
    let session = Session::new(site, RecordedUpdate::existing_or_new(site)?, CUTS)?;
    let recording = Recording::open(&session.recording())?;
    let findings = Findings::open(&session.done()?)?;
    // The channel has no buffer: the checker waits for a free machine.
    let (sender, receiver) = sync_channel(0);
    let receiver = Mutex::new(receiver);
    std::thread::scope(|scope| {
        let machines: Vec<_> = (0..MACHINES)
            .map(|_| scope.spawn(|| boot_all(&session, &receiver, &findings)))
            .collect();
        let checked = check_all(site, &session, &recording, &findings, sender);
        let booted = machines
            .into_iter()
            .map(|machine| machine.join().expect("a machine's thread does not panic"));
        booted.chain([checked]).collect::<Result<()>>()
    })?;
    let mut outcome = Outcome { problems: findings.problems(), ..Outcome::default() };
    outcome.problems.extend(undetected_losses(site, &session, &recording)?);
    outcome.passed = usize::from(outcome.problems.is_empty());
    outcome.summary =
        format!("{} writes, {} cuts, {} booted", recording.entries.len(), CUTS, BOOTED);
    if outcome.problems.is_empty() {
        session.end()?;
    }
    Ok(outcome)
}

/// Checks the disk of every cut, and sends some of the disks to machines.
fn check_all(
    site: &Site,
    session: &Session,
    recording: &Recording,
    findings: &Findings,
    machines: SyncSender<Booting>,
) -> Result<()> {
    let mut checker = CutChecker::new(site, session, recording)?;
    let every = (CUTS / BOOTED).max(1);
    for index in (0..CUTS).filter(|index| !findings.has(*index)) {
        let cut = cut(recording, index, CUTS);
        let boots = index % every == every / 2;
        let about = format!("cut {index} of {}, after {} writes", CUTS, cut.sent);
        let disk = session.disk(index);
        match checker.check(&cut, boots.then_some(&disk)) {
            Ok(()) if boots => {
                machines
                    .send(Booting { index, about, disk })
                    .expect("the machines receive until the channel closes");
            }
            checked => findings.add(index, &about, checked)?,
        }
        if findings.are_enough() {
            return Ok(());
        }
    }
    Ok(())
}

/// The control: a disk that lost a flushed file must be detected.
fn undetected_losses(
    site: &Site,
    session: &Session,
    recording: &Recording,
) -> Result<Vec<Problem>> {
    let mut checker = CutChecker::new(site, session, recording)?;
    let synced = checker.synced().iter().enumerate().filter_map(|(at, file)| Some((at, (*file)?)));
    let begins: Vec<(usize, u32)> = synced.fold(Vec::new(), |mut begins, (at, file)| {
        begins.extend(begins.last().is_none_or(|(_, last)| file > *last).then_some((at, file)));
        begins
    });
    // The probe flushes each file before it writes the next.
    let losses: Vec<Cut> =
        begins.windows(2).map(|files| Cut::with_loss(files[0].0, files[1].0 + 1)).collect();
    let mut problems = Vec::new();
    for loss in losses.iter().step_by((losses.len() / LOSSES).max(1)).take(LOSSES) {
        if checker.check(loss, None).is_ok() {
            problems.push(Problem::new(format!(
                "the check misses a disk that lost a flushed file, after {} writes",
                loss.sent
            )));
        }
    }
    if losses.len() < LOSSES {
        problems.push(Problem::new(format!(
            "only {} of the probe's files were flushed in the recording",
            losses.len()
        )));
    }
    Ok(problems)
}

/// Cut `index` of `number`, in the order of the writes: with as many cuts as writes each prefix
/// occurs.
fn cut(recording: &Recording, index: usize, number: usize) -> Cut {
    let sent = ((index + 1) * recording.entries.len()).div_ceil(number);
    Cut::random(recording, sent, &mut fastrand::Rng::with_seed(index as u64))
}

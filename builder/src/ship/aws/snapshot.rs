//! The snapshot of a disk: found or started, filled, completed.

use super::tags::{IMAGE, SEALED, SENT};
use super::{ATTEMPTS, Content, Subject, done, late, upload};
use crate::error::{Error, Result};
use crate::report::Report;
use osbuild_aws::{NewSnapshot, RegionalClient, Snapshot, tag};

/// After how many minutes without a new block AWS cancels a snapshot. An interrupted publish can be
/// continued for that long.
const TIMEOUT_MINUTES: u64 = 24 * 60;

/// Error codes for blocks, or the end, of a snapshot that is not in the state that we believe.
const UNUSABLE: [&str; 3] =
    ["ResourceNotFoundException", "ValidationException", "ConflictException"];

/// How many blocks the snapshot has for certain.
fn sent(snapshot: &Snapshot) -> usize {
    tag(&snapshot.tags, SENT).and_then(|sent| sent.parse().ok()).unwrap_or(0)
}

/// Makes sure that AWS has a complete snapshot of the disk, and returns its identifier.
pub(super) fn complete(
    here: &RegionalClient,
    report: &Report,
    subject: &Subject,
) -> Result<String> {
    let mut rejected: Vec<String> = Vec::new();
    for _ in 0..ATTEMPTS {
        let digest = subject.content.digest.hex();
        let mut found = here.snapshots(&[(&format!("tag:{IMAGE}"), &digest)])?;
        found.retain(|snapshot| !rejected.contains(&snapshot.id));
        if let Some(whole) = found.iter().find(|snapshot| snapshot.state == "completed") {
            return Ok(whole.id.clone());
        }
        for failed in found.iter().filter(|snapshot| snapshot.state == "error") {
            here.delete_snapshot(&failed.id)?;
            rejected.push(failed.id.clone());
        }
        let snapshot = match found.into_iter().find(|snapshot| snapshot.state == "pending") {
            Some(half) => half,
            None => start(here, subject, &rejected)?,
        };
        // AWS accepted it as complete, and is still assembling it.
        let is_complete = match tag(&snapshot.tags, SEALED).is_some() {
            true => wait(here, report, &snapshot.id)?,
            false => fill_and_wait(here, report, subject, &snapshot)?,
        };
        if is_complete {
            return Ok(snapshot.id);
        }
        report.note(format!("cannot continue snapshot {}: starting another one", snapshot.id));
        here.delete_snapshot(&snapshot.id)?;
        rejected.push(snapshot.id);
    }
    Err(Error::build(format!("no snapshot in {} takes the image", here.region))
        .cause(format!("these were started and removed: {}", rejected.join(", "))))
}

/// Sends the missing blocks of a snapshot, and waits until AWS has assembled it. Returns whether it
/// is complete then.
fn fill_and_wait(
    here: &RegionalClient,
    report: &Report,
    subject: &Subject,
    snapshot: &Snapshot,
) -> Result<bool> {
    let error = match fill(here, report, &subject.content, snapshot) {
        Ok(()) => return wait(here, report, &snapshot.id),
        Err(upload::Failed::Call(error)) => error,
        Err(upload::Failed::Disk(error)) => return Err(error),
    };
    match error.code() {
        Some(code) if UNUSABLE.contains(&code) => was_completed(here, report, &snapshot.id),
        _ => Err(error.into()),
    }
}

/// Returns whether a snapshot that refuses a block, or its end, is or becomes complete. Either AWS
/// accepted its end before: the response was lost, or another publisher of the disk was faster and
/// may be about to tag it. Or it holds other bytes, and stays `pending`.
fn was_completed(here: &RegionalClient, report: &Report, id: &str) -> Result<bool> {
    let is_accepted = here.retry().until_settled(|| -> Result<_> {
        let found = here.snapshot(id)?;
        let is_pending = found.as_ref().is_some_and(|found| found.state == "pending");
        let is_sealed = found.is_some_and(|found| tag(&found.tags, SEALED).is_some());
        Ok((is_sealed || !is_pending).then_some(()))
    })?;
    match is_accepted {
        Some(()) => wait(here, report, id),
        None => Ok(false),
    }
}

/// Starts a snapshot. The token makes AWS return the same snapshot to each caller that has the same
/// disk and tags, and knows the same rejected snapshots.
fn start(here: &RegionalClient, subject: &Subject, rejected: &[String]) -> Result<Snapshot> {
    let description = subject.name();
    let token = subject.token(&description, &[here.region.name(), &rejected.join("\n")]);
    let (id, state) = here.start_snapshot(&NewSnapshot {
        size_gib: subject.content.gibibytes(),
        description: &description,
        timeout_minutes: TIMEOUT_MINUTES,
        tags: &subject.tags,
        token: &token,
    })?;
    Ok(Snapshot { id, description, state, started: String::new(), tags: Vec::new() })
}

/// Sends the missing blocks of a snapshot, and ends it.
fn fill(
    here: &RegionalClient,
    report: &Report,
    content: &Content,
    snapshot: &Snapshot,
) -> std::result::Result<(), upload::Failed> {
    let step = report.sized_step("upload", content.bytes());
    let (id, blocks, sent) = (&snapshot.id, content.blocks.len(), sent(snapshot));
    if sent > 0 {
        report.note(format!("snapshot {id} has {sent} of {blocks} blocks already"));
    }
    if sent < blocks {
        let note = |sent: usize| here.tag_snapshot(id, SENT, &sent.to_string());
        upload::send(here, id, content, sent, &step, &note)?;
    }
    here.complete_snapshot(id, blocks, &content.checksum())?;
    here.tag_snapshot(id, SEALED, "true")?;
    done(step, id, Some(content.bytes()));
    Ok(())
}

/// `None` while a snapshot is `pending`, its state after that. An unknown snapshot ends as
/// `Some(None)`.
fn end_state(here: &RegionalClient, id: &str) -> Result<Option<Option<String>>> {
    let state = here.snapshot(id)?.map(|snapshot| snapshot.state);
    Ok((state.as_deref() != Some("pending")).then_some(state))
}

/// Waits until AWS has assembled the blocks, and returns whether it could.
fn wait(here: &RegionalClient, report: &Report, id: &str) -> Result<bool> {
    let step = report.step("snapshot");
    step.doing("pending");
    match here.retry().until(|| end_state(here, id))? {
        Some(Some(state)) if state == "completed" => done(step, id, None),
        Some(_) => return Ok(false),
        None => return Err(late(here, id)),
    }
    Ok(true)
}

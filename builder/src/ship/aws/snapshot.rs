//! The snapshot of a disk: found, begun, gone on with, completed.

use super::regional::{Regional, ours, parameters, tag, tags};
use super::tags::{IMAGE, SEALED, SENT};
use super::upload::{self, Broken};
use super::{ATTEMPTS, Content, Subject, done};
use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use crate::produce::aws::{Action, Element, Failure, Method, Request};
use crate::report::Report;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// For how many minutes AWS keeps a snapshot to which nothing is added, before it fails: a publish
/// that broke can be gone on with as long.
const KEPT_MINUTES: u64 = 24 * 60;

/// A snapshot at AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub id: String,
    pub description: String,
    /// `pending`, `completed`, `error`.
    pub state: String,
    /// How many of its blocks it has for certain.
    pub sent: usize,
    /// Whether AWS has accepted it as complete. It is `pending` until AWS has put it together.
    pub is_sealed: bool,
    pub tags: Vec<(String, String)>,
    /// When it was begun: `2026-11-21T12:00:00.000Z`.
    pub started: String,
}

/// The snapshots that are ours and fit these filters.
pub(super) fn find(here: &Regional, filters: &[(&str, &str)]) -> Result<Vec<Snapshot>> {
    let mut asked = ours(filters);
    asked.extend(parameters([("Owner.1", "self")]));
    let request = Request::query(Action::DescribeSnapshots, asked);
    here.said(
        request.action,
        here.attempt(&request).and_then(|answer| answer.xml()).map(|root| read(&root)),
    )
}

fn read(root: &Element) -> Vec<Snapshot> {
    let one = |item: &Element| {
        let (text, tags) = (|name| item.get(name).unwrap_or_default().to_owned(), tags(item));
        Snapshot {
            id: text("snapshotId"),
            description: text("description"),
            state: text("status"),
            sent: tag(&tags, SENT).and_then(|sent| sent.parse().ok()).unwrap_or(0),
            is_sealed: tag(&tags, SEALED).is_some(),
            started: text("startTime"),
            tags,
        }
    };
    root.items("snapshotSet").iter().map(one).collect()
}

/// Removes a snapshot, and gives whether it is gone. One that another image is made of stays.
pub(super) fn remove(here: &Regional, id: &str) -> Result<bool> {
    let request = Request::query(Action::DeleteSnapshot, parameters([("SnapshotId", id)]));
    match here.attempt(&request) {
        Err(failure) if failure.code() == Some("InvalidSnapshot.NotFound") => Ok(true),
        Err(failure) if failure.code() == Some("InvalidSnapshot.InUse") => Ok(false),
        done => here.said(request.action, done).map(|_| true),
    }
}

/// Sees to it that AWS has a complete snapshot of the disk, and gives its identifier.
pub(super) fn complete(here: &Regional, report: &Report, subject: &Subject) -> Result<String> {
    let mut useless: Vec<String> = Vec::new();
    for _ in 0..ATTEMPTS {
        let digest = subject.content.digest.hex();
        let found = find(here, &[(&format!("tag:{IMAGE}"), &digest)])?;
        let found: Vec<_> =
            found.into_iter().filter(|snapshot| !useless.contains(&snapshot.id)).collect();
        if let Some(whole) = found.iter().find(|snapshot| snapshot.state == "completed") {
            return Ok(whole.id.clone());
        }
        for failed in found.iter().filter(|snapshot| snapshot.state == "error") {
            remove(here, &failed.id)?;
            useless.push(failed.id.clone());
        }
        let snapshot = match found.into_iter().find(|snapshot| snapshot.state == "pending") {
            Some(half) => half,
            None => start(here, subject, &useless)?,
        };
        let is_whole = match snapshot.is_sealed {
            true => wait(here, report, &snapshot.id)?,
            false => fill_and_wait(here, report, subject, &snapshot)?,
        };
        if is_whole {
            return Ok(snapshot.id);
        }
        report
            .note(format!("snapshot {} cannot be gone on with: another one is begun", snapshot.id));
        remove(here, &snapshot.id)?;
        useless.push(snapshot.id);
    }
    Err(Error::build(format!("no snapshot in {} takes the image", here.region))
        .cause(format!("these were begun and removed: {}", useless.join(", "))))
}

/// Sends what a snapshot lacks, and waits until AWS has put it together. Gives whether it could.
fn fill_and_wait(
    here: &Regional,
    report: &Report,
    subject: &Subject,
    snapshot: &Snapshot,
) -> Result<bool> {
    match fill(here, report, &subject.content, snapshot) {
        Ok(()) => wait(here, report, &snapshot.id),
        // AWS may have accepted it as complete before, and nobody heard so: then it becomes
        // complete soon. Otherwise it holds other bytes.
        Err((Action::CompleteSnapshot, Failure::Refused { code, .. }))
            if UNUSABLE.contains(&code.as_str()) =>
        {
            let ended = here.cloud.patience().settled(|| ended(here, &snapshot.id))?;
            Ok(ended.flatten().as_deref() == Some("completed"))
        }
        // What another process has begun may be gone, or be completed and not be shown as such: not
        // ours to mend.
        Err((_, Failure::Refused { code, .. })) if UNUSABLE.contains(&code.as_str()) => {
            Ok(state(here, &snapshot.id)?.as_deref() == Some("completed"))
        }
        Err((action, failure)) => Err(failure.error(action, &here.region)),
    }
}

/// Codes by which AWS refuses blocks, or the end, of a snapshot that is not as we believe.
const UNUSABLE: [&str; 3] =
    ["ResourceNotFoundException", "ValidationException", "ConflictException"];

/// Begins a snapshot. Whoever asks for the same disk again, and knows of the same useless
/// snapshots, is given the same one.
fn start(here: &Regional, subject: &Subject, useless: &[String]) -> Result<Snapshot> {
    let content = &subject.content;
    let token = [&content.digest.hex(), here.region.name(), &useless.join("\n")].join("\n");
    let tags: Vec<Value> =
        subject.tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect();
    let request = Request::json(
        Action::StartSnapshot,
        "/snapshots",
        &json!({ "VolumeSize": content.gibibytes(), "Description": subject.name(), "Timeout": KEPT_MINUTES, "Tags": tags,
            "ClientToken": Digest::of(token.as_bytes()).hex() }),
    );
    let answer = here.call(&request)?;
    let text = |name| here.said(request.action, answer.member(name));
    Ok(Snapshot {
        id: text("SnapshotId")?,
        description: subject.name(),
        state: text("Status")?,
        sent: 0,
        is_sealed: false,
        started: String::new(),
        tags: Vec::new(),
    })
}

/// Puts what a snapshot lacks into it, and says that this is all.
fn fill(
    here: &Regional,
    report: &Report,
    content: &Content,
    snapshot: &Snapshot,
) -> std::result::Result<(), Broken> {
    let step = report.sized_step("upload", content.bytes());
    if snapshot.sent > 0 {
        report.note(format!(
            "snapshot {} has {} of {} blocks already",
            snapshot.id,
            snapshot.sent,
            content.blocks.len()
        ));
    }
    let note = |sent: usize| note(here, &snapshot.id, SENT, &sent.to_string());
    if snapshot.sent < content.blocks.len() {
        upload::send(here.cloud, &here.region, &snapshot.id, content, snapshot.sent, &step, &note)?;
    }
    let headers = vec![
        ("x-amz-changedblockscount", content.blocks.len().to_string()),
        ("x-amz-checksum", STANDARD.encode(content.checksum())),
        ("x-amz-checksum-algorithm", "SHA256".to_owned()),
        ("x-amz-checksum-aggregation-method", "LINEAR".to_owned()),
    ];
    let path = format!("/snapshots/completion/{}", snapshot.id);
    let complete = Request::with_headers(Action::CompleteSnapshot, Method::Post, path, headers);
    here.attempt(&complete).map_err(|failure| (complete.action, failure))?;
    self::note(here, &snapshot.id, SEALED, "true")?;
    done(step, &snapshot.id, Some(content.bytes()));
    Ok(())
}

/// Notes something at the snapshot. One that EC2 does not know yet goes without: then the next
/// publish does more again if this one breaks.
fn note(here: &Regional, id: &str, tag: &str, value: &str) -> std::result::Result<(), Broken> {
    let said = parameters([("ResourceId.1", id), ("Tag.1.Key", tag), ("Tag.1.Value", value)]);
    let request = Request::query(Action::CreateTags, said);
    match here.attempt(&request) {
        Err(failure) if failure.code() != Some("InvalidSnapshot.NotFound") => {
            Err((request.action, failure))
        }
        _ => Ok(()),
    }
}

/// The state of a snapshot; nothing if AWS knows of none.
fn state(here: &Regional, id: &str) -> Result<Option<String>> {
    let request = Request::query(Action::DescribeSnapshots, parameters([("SnapshotId.1", id)]));
    match here.attempt(&request) {
        Err(failure) if failure.code() == Some("InvalidSnapshot.NotFound") => Ok(None),
        answer => {
            let root = here.said(request.action, answer.and_then(|answer| answer.xml()))?;
            Ok(read(&root).into_iter().next().map(|snapshot| snapshot.state))
        }
    }
}

/// The state in which a snapshot stays; nothing as long as it is `pending`. That of one that AWS
/// does not know is nothing, for good.
fn ended(here: &Regional, id: &str) -> Result<Option<Option<String>>> {
    Ok(match state(here, id)?.as_deref() {
        Some("pending") => None,
        state => Some(state.map(str::to_owned)),
    })
}

/// Waits until AWS has put the blocks together. Gives whether it could.
fn wait(here: &Regional, report: &Report, id: &str) -> Result<bool> {
    let step = report.step("snapshot");
    step.doing("pending");
    match here.cloud.patience().until(|| ended(here, id))? {
        Some(Some(state)) if state == "completed" => done(step, id, None),
        Some(_) => return Ok(false),
        None => return Err(super::late(here, id)),
    }
    Ok(true)
}

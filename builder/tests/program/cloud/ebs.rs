//! EBS direct.

use super::wire::{Call, refusal};
use super::{Answer, Snapshot, State};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild::engine::digest::Digest;
use serde_json::{Value, json};

const BLOCK: usize = 512 << 10;

pub fn answer(state: &mut State, call: &Call) -> Answer {
    match call.action.as_str() {
        "StartSnapshot" => start(state, call),
        "PutSnapshotBlock" => put(state, call),
        _ => complete(state, call),
    }
}

fn start(state: &mut State, call: &Call) -> Answer {
    let request: Value = serde_json::from_slice(&call.body).unwrap();
    let token = request["ClientToken"].as_str().unwrap().to_owned();
    assert!(
        (1..=255).contains(&token.len())
            && (10..=4320).contains(&request["Timeout"].as_u64().unwrap())
    );
    let known = state.started.entry((call.region.clone(), token.clone()));
    if *known.or_insert_with(|| call.body.clone()) != call.body {
        return refusal(call, 409, "ConflictException", "the token had another request");
    }
    let same = state
        .snapshots
        .iter()
        .find(|((region, _), snapshot)| *region == call.region && snapshot.token == token);
    let (id, status) = match same {
        Some(((_, id), snapshot)) => (id.clone(), snapshot.state.clone()),
        None => {
            let id = state.name("snap");
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let tags = request["Tags"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tag| (text(&tag["Key"]), text(&tag["Value"])))
                .collect();
            let gibibytes = request["VolumeSize"].as_u64().unwrap();
            let (state_, started) = ("pending".to_owned(), state.time());
            let description = text(&request["Description"]);
            let snapshot = Snapshot {
                description,
                state: state_,
                token,
                started,
                gibibytes,
                tags,
                ..Snapshot::default()
            };
            state.snapshots.insert((call.region.clone(), id.clone()), snapshot);
            (id, "pending".to_owned())
        }
    };
    (201, json!({ "SnapshotId": id, "Status": status, "BlockSize": BLOCK }).to_string())
}

/// The snapshot of a call, if it still accepts blocks.
fn open<'s>(state: &'s mut State, call: &Call, id: &str) -> Result<&'s mut Snapshot, Answer> {
    match state.snapshots.get_mut(&(call.region.clone(), id.to_owned())) {
        None => Err(refusal(call, 404, "ResourceNotFoundException", "there is no such snapshot")),
        Some(snapshot) if snapshot.state != "pending" || snapshot.sealed => {
            Err(refusal(call, 400, "ValidationException", "the snapshot is not pending"))
        }
        Some(snapshot) => Ok(snapshot),
    }
}

/// Completes and tags the snapshot of a call, as another publisher of the disk does.
pub fn overtake(state: &mut State, call: &Call) {
    let path = call.path.replace("/completion/", "/");
    let id = path.split('/').nth(2).unwrap().to_owned();
    let slow = state.slow;
    let snapshot = state.snapshots.get_mut(&(call.region.clone(), id)).unwrap();
    (snapshot.sealed, snapshot.looks) = (true, slow);
    snapshot.tags.insert("osbuild:sealed".to_owned(), "true".to_owned());
}

fn header<'c>(call: &'c Call, name: &str) -> &'c str {
    call.headers.get(name).map(String::as_str).unwrap_or_default()
}

fn put(state: &mut State, call: &Call) -> Answer {
    let parts: Vec<&str> = call.path.split('/').collect();
    let ["", "snapshots", id, "blocks", index] = parts[..] else { panic!("{}", call.path) };
    let checksum = STANDARD.encode(Digest::of(&call.body).hash());
    let is_whole = header(call, "x-amz-checksum") == checksum
        && header(call, "x-amz-checksum-algorithm") == "SHA256"
        && header(call, "x-amz-data-length") == BLOCK.to_string()
        && call.body.len() == BLOCK;
    if !is_whole {
        state.wrong.push(format!("block {index} does not match its checksum"));
        return refusal(call, 400, "ValidationException", "the checksum does not match");
    }
    if call.body.iter().all(|byte| *byte == 0) {
        state.wrong.push(format!("block {index} is zero"));
    }
    match open(state, call, id) {
        Err(refused) => refused,
        Ok(snapshot) => {
            snapshot.blocks.insert(index.parse().unwrap(), call.body.clone());
            (201, "{}".to_owned())
        }
    }
}

fn complete(state: &mut State, call: &Call) -> Answer {
    let id = call.path.strip_prefix("/snapshots/completion/").unwrap().to_owned();
    let sent =
        ["changedblockscount", "checksum", "checksum-algorithm", "checksum-aggregation-method"]
            .map(|name| header(call, &format!("x-amz-{name}")).to_owned());
    let slow = state.slow;
    let snapshot = match open(state, call, &id) {
        Err(refused) => return refused,
        Ok(snapshot) => snapshot,
    };
    let linear: Vec<u8> =
        snapshot.blocks.values().flat_map(|block| *Digest::of(block).hash()).collect();
    let checksum = STANDARD.encode(Digest::of(&linear).hash());
    if sent
        != [snapshot.blocks.len().to_string(), checksum, "SHA256".to_owned(), "LINEAR".to_owned()]
    {
        return refusal(
            call,
            400,
            "ValidationException",
            "the checksum of all blocks does not match",
        );
    }
    // It stays `pending` while AWS assembles it.
    (snapshot.sealed, snapshot.looks) = (true, slow);
    (202, r#"{"Status":"pending"}"#.to_owned())
}

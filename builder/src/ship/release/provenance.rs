//! How a release was built: an in-toto statement (<https://github.com/in-toto/attestation>) with
//! the predicate of SLSA 1.0.

use super::parts::{Commit, Parts};
use crate::engine::digest::Digest;
use crate::engine::executor::Made;
use crate::error::{Error, Result};
use crate::plan::{Purl, Source};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The type of the envelope's payload.
pub const STATEMENT: &str = "application/vnd.in-toto+json";
/// The type of the statement.
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The type of its predicate.
const PREDICATE: &str = "https://slsa.dev/provenance/v1";
/// The name of the project among the resolved dependencies.
const PROJECT: &str = "project";

/// The statement about the files of a release, by name, as JSON. `builder` is the name of the
/// builder's keys.
pub(super) fn statement(parts: &Parts, files: &BTreeMap<&str, Vec<u8>>, builder: &str) -> Vec<u8> {
    let (plan, lock) = (parts.plan, parts.lock());
    let subject = |(name, bytes): (&&str, &Vec<u8>)| -> Value {
        json!({ "name": name, "digest": { "sha256": Digest::of(bytes).hex() } })
    };
    let mut parameters = json!({
        "recipe": format!("recipes/{}.toml", plan.recipe),
        "version": plan.version,
        "architecture": plan.architecture.name(),
    });
    if !parts.set.is_empty() {
        parameters["set"] = json!(parts.set);
    }
    let inputs = [project(parts.commit.as_ref()), dependencies(&parts.sources())].concat();
    let statement = json!({
        "_type": STATEMENT_TYPE,
        "subject": files.iter().map(subject).collect::<Vec<_>>(),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:osbuild:build:1",
                "externalParameters": parameters,
                "internalParameters": {
                    "epoch": plan.lock.get().epoch,
                    "lock": { "sha256": Digest::of(lock.as_bytes()).hex() },
                },
                "resolvedDependencies": inputs,
            },
            "runDetails": {
                "builder": {
                    "id": format!("urn:osbuild:keys:{builder}"),
                    "version": { "osbuild": env!("CARGO_PKG_VERSION") },
                },
                "byproducts": parts.made.iter().map(step).collect::<Vec<_>>(),
            },
        },
    });
    serde_json::to_vec(&statement).expect("strings always serialize")
}

/// A step of the build: its REAPI action, and where the result was made: `here`, the address of the
/// cache that it came from, or `executed by` and the address of a service.
fn step((name, made): (&String, &Made)) -> Value {
    json!({
        "name": name,
        "digest": { "sha256": made.action.hex() },
        "annotations": { "made": made.place() },
    })
}

/// The commit of the project, if known. No digest covers uncommitted changes, so they are marked.
fn project(commit: Option<&Commit>) -> Vec<Value> {
    let one = |commit: &Commit| {
        let dirty =
            commit.is_dirty.map_or_else(|| json!({}), |is_dirty| json!({ "dirty": is_dirty }));
        json!({ "name": PROJECT, "digest": { "gitCommit": commit.id }, "annotations": dirty })
    };
    commit.map(one).into_iter().collect()
}

fn dependencies(sources: &[Source]) -> Vec<Value> {
    let one = |source: &Source| {
        let digest = json!({ "sha256": source.digest });
        json!({ "name": source.name, "uri": Purl::of(&source.kind).url, "digest": digest })
    };
    sources.iter().map(one).collect()
}

/// Compares a statement with the digests of its release's files, by name, with the digest of the
/// lock, and with the sources in the lock.
///
/// # Errors
/// It names different ones (`Kind::Digest`).
pub fn check(
    payload: &[u8],
    files: &BTreeMap<String, String>,
    lock: &str,
    sources: &[Source],
) -> Result<()> {
    let wrong = |what: &str| Error::digest(format!("the provenance {what}"));
    let statement: Value =
        serde_json::from_slice(payload).map_err(|error| wrong("is not JSON").cause(error))?;
    if statement["_type"] != STATEMENT_TYPE || statement["predicateType"] != PREDICATE {
        return Err(wrong("is not an SLSA 1.0 statement"));
    }
    let named = |value: &Value| {
        Some((value["name"].as_str()?.to_owned(), value["digest"]["sha256"].clone()))
    };
    let subjects: Option<Map<String, Value>> =
        statement["subject"].as_array().into_iter().flatten().map(named).collect();
    let expected =
        files.iter().map(|(name, sha256)| (name.clone(), Value::from(sha256.as_str()))).collect();
    if subjects != Some(expected) {
        return Err(wrong("names different files"));
    }
    let definition = &statement["predicate"]["buildDefinition"];
    if definition["internalParameters"]["lock"]["sha256"] != lock {
        return Err(wrong("names a different lock"));
    }
    // There is nothing to compare the commit with.
    let named = definition["resolvedDependencies"].as_array().into_iter().flatten();
    let named: Vec<&Value> = named
        .filter(|one| one["name"] != PROJECT || one["digest"]["gitCommit"].is_null())
        .collect();
    match named.into_iter().eq(&dependencies(sources)) {
        true => Ok(()),
        false => Err(wrong("names different sources from the lock")),
    }
}

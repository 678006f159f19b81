//! The list of what is in a release, and of what it was made with (SPDX 2.3,
//! <https://spdx.github.io/spdx-spec/v2.3/>).
//!
//! A module of which only the go.mod was read is not in it: nothing of its code is in the node, and
//! a scanner would say otherwise.

use super::parts::Parts;
use super::purl::Purl;
use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use crate::plan::{Locked, Plan, Source, SourceKind};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The node's own identifier.
const NODE: &str = "SPDXRef-node";
/// That of slotboot.
const BOOT: &str = "SPDXRef-boot";

/// The SBOM of a release, as JSON.
pub(super) fn document(parts: &Parts) -> Vec<u8> {
    let plan = parts.plan;
    let [node, boot] = parts.programs();
    let mut packages = vec![
        package(NODE, &plan.recipe, &plan.version, &node.hex(), None),
        package(BOOT, &plan.boot.component, &plan.version, &boot.hex(), None),
    ];
    let mut relations =
        vec![relation("SPDXRef-DOCUMENT", "DESCRIBES", NODE), relation(NODE, "DEPENDS_ON", BOOT)];
    for source in parts.sources().iter().filter(|source| is_listed(source)) {
        let (id, Purl { name, version, url }) = (id(source), Purl::of(source));
        packages.push(package(&id, &name, &version, &source.digest, Some(&url)));
        relations.extend(relations_of(source, plan, &id));
    }
    let namespace = uuid::Uuid::new_v5(
        &uuid::Uuid::NAMESPACE_URL,
        format!("osbuild:sbom:{node}:{boot}").as_bytes(),
    );
    let document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("{} {}", plan.recipe, plan.version),
        "documentNamespace": format!("urn:uuid:{namespace}"),
        "creationInfo": {
            "created": format!("{}T00:00:00Z", parts.date),
            "creators": [format!("Tool: osbuild-{}", env!("CARGO_PKG_VERSION"))],
        },
        "packages": packages,
        "relationships": relations,
    });
    let mut text = serde_json::to_vec_pretty(&document).expect("strings always serialize");
    text.push(b'\n');
    text
}

/// Compares an SBOM with the programs of its release and with the sources of its lock, and gives
/// the number of packages.
///
/// # Errors
/// It lists something else (`Kind::Digest`).
pub fn check(bytes: &[u8], programs: [&str; 2], sources: &[Source]) -> Result<usize> {
    let wrong = |what: &str| Error::digest(format!("the SBOM {what}"));
    let document: Value =
        serde_json::from_slice(bytes).map_err(|error| wrong("is not JSON").cause(error))?;
    if document["spdxVersion"] != "SPDX-2.3" {
        return Err(wrong("is not SPDX 2.3"));
    }
    let listed: BTreeSet<(String, String)> =
        document["packages"].as_array().into_iter().flatten().map(said).collect();
    let programs = [NODE, BOOT]
        .into_iter()
        .zip(programs)
        .map(|(id, sha256)| (id.to_owned(), sha256.to_owned()));
    let sources = sources
        .iter()
        .filter(|source| is_listed(source))
        .map(|source| (Purl::of(source).url, source.digest.clone()));
    let expected: BTreeSet<(String, String)> = programs.chain(sources).collect();
    match expected.symmetric_difference(&listed).next() {
        None => Ok(listed.len()),
        Some((name, _)) if expected.iter().any(|(other, _)| other == name) => {
            Err(wrong(&format!("has no `{name}`, or another one")))
        }
        Some((name, _)) => Err(wrong(&format!("has `{name}`, which is not in the lock"))),
    }
}

/// The package URL, or the identifier of what has none, and the digest.
fn said(package: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let url = package["externalRefs"][0]["referenceLocator"].as_str();
    (
        url.map_or_else(|| text(&package["SPDXID"]), str::to_owned),
        text(&package["checksums"][0]["checksumValue"]),
    )
}

fn package(id: &str, name: &str, version: &str, sha256: &str, url: Option<&str>) -> Value {
    let mut package = json!({
        "SPDXID": id,
        "name": name,
        "versionInfo": version,
        // Where it comes from is a matter of the user's mirrors: its package URL and its digest say
        // what it is.
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "checksums": [{ "algorithm": "SHA256", "checksumValue": sha256 }],
    });
    if let Some(url) = url {
        let reference = json!({
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": url,
        });
        package["externalRefs"] = json!([reference]);
    }
    package
}

fn relation(one: &str, kind: &str, other: &str) -> Value {
    json!({ "spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other })
}

fn id(source: &Source) -> String {
    let digest = Digest::of(source.name.as_bytes()).hex();
    format!("SPDXRef-{}-{}", source.kind.word(), &digest[..16])
}

fn is_listed(source: &Source) -> bool {
    !matches!(source.kind, SourceKind::GoMod { .. })
}

/// What a source and the node have to do with each other. Of a tool that only runs while the node
/// is built, nothing is in the node; a toolchain is one, and its standard library is linked into
/// each program besides.
fn relations_of(source: &Source, plan: &Plan<Locked>, id: &str) -> Vec<Value> {
    let tool = || relation(id, "BUILD_TOOL_OF", NODE);
    let linked = || relation(NODE, "STATIC_LINK", id);
    match &source.kind {
        SourceKind::Debian(package) if plan.statically_linked().any(|linked| linked == package) => {
            vec![linked()]
        }
        SourceKind::Debian(package) if plan.lock.get().sandbox.packages.contains(package) => {
            vec![tool()]
        }
        SourceKind::GoToolchain { .. } | SourceKind::RustToolchain { .. } => vec![tool(), linked()],
        SourceKind::PodImage { .. } => vec![relation(NODE, "CONTAINS", id)],
        SourceKind::Debian(_)
        | SourceKind::GoZip { .. }
        | SourceKind::GoMod { .. }
        | SourceKind::Crate { .. } => {
            vec![relation(NODE, "GENERATED_FROM", id)]
        }
    }
}

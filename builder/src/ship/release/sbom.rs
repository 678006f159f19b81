//! The SBOM of a release: its contents and its build tools (SPDX 2.3,
//! <https://spdx.github.io/spdx-spec/v2.3/>). It leaves out modules of which only the go.mod was
//! read: none of their code is in the node, but scanners would report it.

use super::parts::Parts;
use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use crate::plan::{Locked, Plan, Purl, Source, SourceKind};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The identifier of the node.
const NODE: &str = "SPDXRef-node";
/// The identifier of slotboot.
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
        let (id, Purl { name, version, url }) = (id(source), Purl::of(&source.kind));
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

/// Compares an SBOM with the programs of its release and with the sources of its lock, and returns
/// the number of packages.
///
/// # Errors
/// It lists different ones (`Kind::Digest`).
pub fn check(bytes: &[u8], programs: [&str; 2], sources: &[Source]) -> Result<usize> {
    let wrong = |what: &str| Error::digest(format!("the SBOM {what}"));
    let document: Value =
        serde_json::from_slice(bytes).map_err(|error| wrong("is not JSON").cause(error))?;
    if document["spdxVersion"] != "SPDX-2.3" {
        return Err(wrong("is not SPDX 2.3"));
    }
    let listed: BTreeSet<(String, String)> =
        document["packages"].as_array().into_iter().flatten().map(identity).collect();
    let programs = [NODE, BOOT]
        .into_iter()
        .zip(programs)
        .map(|(id, sha256)| (id.to_owned(), sha256.to_owned()));
    let sources = sources
        .iter()
        .filter(|source| is_listed(source))
        .map(|source| (Purl::of(&source.kind).url, source.digest.clone()));
    let expected: BTreeSet<(String, String)> = programs.chain(sources).collect();
    match expected.symmetric_difference(&listed).next() {
        None => Ok(listed.len()),
        Some((name, _)) if expected.iter().any(|(other, _)| other == name) => {
            Err(wrong(&format!("has no `{name}`, or a different one")))
        }
        Some((name, _)) => Err(wrong(&format!("has `{name}`, which is not in the lock"))),
    }
}

/// The package URL, or else the identifier, and the digest of a package.
fn identity(package: &Value) -> (String, String) {
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
        // The location depends on the user's mirrors. The package URL and the digest identify it.
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

/// The relationships between a source and the node. A build tool leaves nothing in the node, but a
/// toolchain's standard library is also linked into each program.
fn relations_of(source: &Source, plan: &Plan<Locked>, id: &str) -> Vec<Value> {
    let lock = plan.lock.get();
    let tools = [&lock.sandbox, &lock.launcher, &lock.pahole];
    let is_tool = |package| tools.iter().any(|list| list.has(package));
    let tool = || relation(id, "BUILD_TOOL_OF", NODE);
    let linked = || relation(NODE, "STATIC_LINK", id);
    match &source.kind {
        SourceKind::Debian(package) if plan.statically_linked().any(|linked| linked == package) => {
            vec![linked()]
        }
        SourceKind::Debian(package) if is_tool(package) => vec![tool()],
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

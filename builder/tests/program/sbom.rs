//! The SBOM of a release, which spdx-tools reads.

use crate::builds::done;
use crate::keys::tool;
use crate::pods::with_archive;
use crate::provenance::provenance;
use crate::releases::{release, released, target, verify, workshop, wrong};
use crate::scratch::{RECIPE, Scratch};
use serde_json::Value;
use std::fs;

#[test]
fn spdx_tools_accept_the_sbom() {
    let scratch = released();
    let sbom = sbom(&scratch);
    let packages = sbom["packages"].as_array().unwrap();
    let digests: Vec<&str> = packages
        .iter()
        .map(|package| package["checksums"][0]["checksumValue"].as_str().unwrap())
        .collect();
    let sources = scratch.sources();
    for source in sources.iter().filter(|source| !source.name.starts_with("go.mod of ")) {
        assert!(digests.contains(&source.digest.as_str()), "{}", source.name);
    }
    let urls: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["externalRefs"][0]["referenceLocator"].as_str())
        .collect();
    assert!(
        urls.contains(&"pkg:golang/k8s.io/kubernetes@v1.35.8")
            && urls.contains(&"pkg:cargo/libc@0.2.1"),
        "{urls:?}"
    );
}

/// The SBOM of the release, after spdx-tools accepted it.
fn sbom(scratch: &Scratch) -> Value {
    let path = target(scratch, "_sbom.spdx.json");
    tool(
        &scratch.project(),
        "pip3 install spdx-tools",
        &["pyspdxtools", "--infile", path.to_str().unwrap()],
    );
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The types of the SBOM's relationships between a package and the node.
fn relations(sbom: &Value, package: &str) -> Vec<String> {
    let packages = sbom["packages"].as_array().unwrap().iter();
    let id = packages
        .clone()
        .find(|one| one["name"] == package)
        .unwrap_or_else(|| panic!("no {package}"))["SPDXID"]
        .clone();
    let relations = sbom["relationships"].as_array().unwrap().iter();
    let about =
        relations.filter(|one| one["spdxElementId"] == id || one["relatedSpdxElement"] == id);
    about.map(|one| one["relationshipType"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_sbom_separates_runtime_from_build_dependencies() {
    let sbom = sbom(&released());
    for (package, expected) in [
        // runc for arm64 contains C and is statically linked.
        ("libc6-dev-arm64-cross", &["STATIC_LINK"][..]),
        ("libseccomp-dev", &["STATIC_LINK"]),
        ("libc6-dev", &["BUILD_TOOL_OF"]),
        ("gcc-aarch64-linux-gnu", &["BUILD_TOOL_OF"]),
        ("go", &["BUILD_TOOL_OF", "STATIC_LINK"]),
        ("rust", &["BUILD_TOOL_OF", "STATIC_LINK"]),
        ("systemd-boot-efi", &["GENERATED_FROM"]),
        ("libc", &["GENERATED_FROM"]),
    ] {
        assert_eq!(relations(&sbom, package), expected, "{package}");
    }
}

#[test]
fn a_pods_image_is_in_the_sbom_provenance_sources_and_export() {
    let scratch = workshop();
    let digest = with_archive(&scratch, 2).hex();
    done(&release(&scratch, &[]));
    let sbom = sbom(&scratch);
    assert_eq!(relations(&sbom, "localhost/hello"), ["CONTAINS"]);
    let image = sbom["packages"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "localhost/hello")
        .unwrap();
    assert_eq!(
        (&image["checksums"][0]["checksumValue"], &image["versionInfo"]),
        (&digest.as_str().into(), &"1".into())
    );
    let statement = provenance(&scratch);
    let inputs =
        statement["predicate"]["buildDefinition"]["resolvedDependencies"].as_array().unwrap();
    assert!(
        inputs.iter().any(|one| one["digest"]["sha256"] == digest
            && one["uri"] == "pkg:generic/localhost/hello@1")
    );
    let list = fs::read_to_string(target(&scratch, "_sources.txt")).unwrap();
    assert!(
        list.lines().any(|line| line == format!("{digest} pod-image image localhost/hello:1")),
        "{list}"
    );
    assert_eq!(wrong(&verify(&scratch, &[])), [""; 0]);
    let folder = scratch.path("exported");
    done(&scratch.osbuild(&["sources", "export", RECIPE, folder.to_str().unwrap()]));
    let archive = fs::read(scratch.project().join("recipes/hello.tar")).unwrap();
    assert!(fs::read(folder.join("sha256").join(&digest)).unwrap() == archive);
    assert!(fs::read_to_string(folder.join("sources.json")).unwrap().contains("\"pod-image\""));
}

//! The payload of an image: a component at a version that the recipe names, and programs of Debian
//! packages.

use crate::{changed, expect, refusal, resolve};
use osbuild::plan::{Project, set_version, upstream};

const BASE: &str = "recipes/base.toml";
const POD: &str = "components/pods/dhcp/component.toml";

/// The small project with a payload in the pod `dhcp`, after more changes.
fn carrying(changes: &[(&str, &str, &str)]) -> Project {
    let payload = "program = \"pod-dhcp\"\n\n\
                   [image.payload]\ncomponent = \"plugins\"\n\n[image.payload.debian.nft]\n\
                   package = \"nftables\"\npath = \"usr/sbin/nft\"\nlibraries = [\"libc6\"]";
    let versioned = "dhcp = { component = \"dhcp\", version = \"1.9.1\" }";
    let mut all = vec![
        (POD, "program = \"pod-dhcp\"", payload),
        (BASE, "dhcp = { component = \"dhcp\" }", versioned),
    ];
    all.extend(changes);
    let mut project = changed(&all);
    let component = "about = \"Plugins\"\n\n[go]\nmodule = \"example.org/plugins\"\n\n\
                     [go.programs]\nbridge = \"./bridge\"\n";
    project.files.insert("components/plugins/component.toml".to_owned(), component.into());
    project
}

#[test]
fn a_payload_is_locked_like_a_component_of_the_host() {
    let plan = resolve(&carrying(&[]));
    let go = plan.requirements.go_modules.iter().find(|go| go.component == "plugins").unwrap();
    assert_eq!(
        (go.module.as_str(), go.version.as_str(), go.cgo),
        ("example.org/plugins", "v1.9.1", false)
    );
    let files: Vec<&str> =
        plan.requirements.files.iter().map(|package| package.package.as_str()).collect();
    assert_eq!(files, ["ca-certificates", "libc6", "nftables"]);
    let printed = plan.print();
    let shown = "payload = { go = \"example.org/plugins\", version = \"1.9.1\", \
                 programs = [\"bridge\"], debian = { nft = { package = \"nftables\", \
                 path = \"usr/sbin/nft\", libraries = [\"libc6\"] } } }";
    assert!(printed.contains(shown), "{printed}");
}

#[test]
fn an_update_sets_the_version_of_a_payload() {
    let project = carrying(&[]);
    let followed = upstream(&project, "small").unwrap().go;
    let plugins = followed.iter().find(|go| go.component == "plugins").unwrap();
    assert_eq!(
        (plugins.module.as_str(), plugins.version.to_string().as_str()),
        ("example.org/plugins", "1.9.1")
    );
    let files = set_version(&project, "small", "plugins", "1.9.2".parse().unwrap()).unwrap();
    assert!(
        files[BASE].contains("dhcp = { component = \"dhcp\", version = \"1.9.2\" }"),
        "{files:?}"
    );
}

#[test]
fn a_pod_has_a_version_exactly_if_its_image_has_a_payload() {
    let version = (BASE, ", version = \"1.9.1\"", "");
    expect("payload-without-version.txt", &format!("{}\n", refusal(&carrying(&[version]))));
    let needless = changed(&[(
        BASE,
        "dhcp = { component = \"dhcp\" }",
        "dhcp = { component = \"dhcp\", version = \"1.9.1\" }",
    )]);
    expect("version-without-payload.txt", &format!("{}\n", refusal(&needless)));
}

#[test]
fn an_unfit_payload_is_refused() {
    let twice = (POD, "debian.nft", "debian.bridge");
    expect("payload-twice.txt", &format!("{}\n", refusal(&carrying(&[twice]))));
    let linked = (POD, "component = \"plugins\"", "component = \"runc\"");
    expect("payload-with-cgo.txt", &format!("{}\n", refusal(&carrying(&[linked]))));
    let absent = (POD, "component = \"plugins\"", "component = \"plugin\"");
    expect("payload-absent.txt", &format!("{}\n", refusal(&carrying(&[absent]))));
}

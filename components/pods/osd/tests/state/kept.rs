//! Resources that outlast the program.

use crate::osd::{Client, NAMESPACE, Osd, code, create, metadata, thing, update};
use osbuild_cosi::resource::{GetRequest, Resource, Spec, TeardownAndDestroyRequest};
use std::path::Path;
use tonic::{Code, Status};

const TYPE: &str = "KernelParameters.osbuild";

fn parameter(id: &str, yaml: &str) -> Resource {
    let mut sent = thing(id);
    metadata(&mut sent).r#type = TYPE.into();
    Resource { spec: Some(Spec { proto_spec: vec![], yaml_spec: yaml.into() }), ..sent }
}

async fn get(client: &mut Client, id: &str) -> Result<Resource, Status> {
    get_of(client, TYPE, id).await
}

pub async fn get_of(client: &mut Client, type_name: &str, id: &str) -> Result<Resource, Status> {
    let (namespace, r#type, id) = (NAMESPACE.into(), type_name.into(), id.into());
    let request = GetRequest { namespace, r#type, id, options: None };
    Ok(client.get(request).await?.into_inner().resource.unwrap())
}

pub fn keep(folder: &Path) -> [String; 2] {
    ["--keep".to_owned(), folder.canonicalize().unwrap().display().to_string()]
}

#[tokio::test]
async fn what_was_answered_outlasts_a_crash_with_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let [flag, value] = keep(folder.path());
    let keep = [flag.as_str(), value.as_str()];
    let mut osd = Osd::start_with(&keep);
    let client = &mut osd.client().await;
    let created = create(client, parameter("a", "key: vm.swappiness\nvalue: 10\n")).await.unwrap();
    create(client, parameter("b", "key: fs.nr_open\nvalue: 1048576\n")).await.unwrap();
    let mut changed = created.clone();
    metadata(&mut changed).labels.insert("rack".into(), "7".into());
    let updated = update(client, changed).await.unwrap();
    osd.restart_with(&keep);
    let client = &mut osd.client().await;
    assert_eq!(get(client, "a").await.unwrap(), updated);
    get(client, "b").await.unwrap();
    assert_eq!(code(update(client, created).await), Code::FailedPrecondition, "an old version");
}

#[tokio::test]
async fn a_damaged_file_costs_its_resources_and_not_the_program() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("resources"), [0xff; 100]).unwrap();
    let [flag, value] = keep(folder.path());
    let osd = Osd::start_with(&[&flag, &value]);
    let client = &mut osd.client().await;
    assert_eq!(code(get(client, "a").await), Code::NotFound);
    create(client, parameter("a", "key: vm.swappiness\nvalue: 10\n")).await.unwrap();
}

#[tokio::test]
async fn a_deletion_that_the_disk_does_not_take_is_in_effect() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let [flag, value] = keep(&kept);
    let osd = Osd::start_with(&[&flag, &value]);
    let client = &mut osd.client().await;
    create(client, parameter("a", "key: vm.swappiness\nvalue: 10\n")).await.unwrap();
    std::fs::remove_dir_all(&kept).unwrap();
    let (namespace, r#type, id) = (NAMESPACE.into(), TYPE.into(), "a".into());
    let request = TeardownAndDestroyRequest { namespace, r#type, id, options: None };
    let refused = client.teardown_and_destroy(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("is in effect"), "{refused}");
    assert_eq!(code(get(client, "a").await), Code::NotFound);
}

#[tokio::test]
async fn a_spec_of_a_known_type_is_checked_and_completed() {
    let osd = Osd::start_with(&[]);
    let client = &mut osd.client().await;
    for yaml in ["", "key: vm.swappiness\n", "key: ../x\nvalue: 1\n", "key: [", "- 1\n"] {
        let refused = create(client, parameter("a", yaml)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{yaml}");
    }
    let created = create(client, parameter("a", "{value: 10, key: vm.swappiness}")).await.unwrap();
    let spec = created.spec.unwrap();
    assert_eq!(spec.yaml_spec, "key: vm.swappiness\nvalue: \"10\"\n");
    assert!(!spec.proto_spec.is_empty());
    let same = parameter("b", "key: vm.swappiness\nvalue: 20\n");
    assert_eq!(code(create(client, same).await), Code::InvalidArgument);
}

//! Several resources at once, from YAML documents.

use crate::kept::{get_of, keep};
use crate::osd::{Osd, code, create_as, metadata, thing};
use osbuild_cosi::resource::{Resource, Spec};
use osbuild_cosi::v1::applied_resource::Outcome;
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use osbuild_cosi::v1::{AppliedResource, ApplyRequest};
use tonic::transport::Channel;
use tonic::{Code, Status};

const RESOLVER: &str = "Resolvers.osbuild";
const PARAMETER: &str = "KernelParameters.osbuild";

async fn apply(
    client: &mut ConfigurationClient<Channel>,
    documents: &str,
    dry_run: bool,
) -> Result<Vec<AppliedResource>, Status> {
    let request = ApplyRequest { documents: documents.to_owned(), dry_run };
    Ok(client.apply(request).await?.into_inner().resources)
}

fn outcomes(applied: &[AppliedResource]) -> Vec<(&str, Outcome)> {
    applied.iter().map(|one| (one.id.as_str(), one.outcome())).collect()
}

const BOTH: &str = "{type: Resolver, id: dns, labels: {rack: '7'}, spec: {search: local}}\n---\n\
                    {type: KernelParameter, id: swap, spec: {key: vm.swappiness, value: 10}}\n";

#[tokio::test]
async fn documents_create_then_change_nothing_then_update() {
    let folder = tempfile::tempdir().unwrap();
    let [flag, value] = keep(folder.path());
    let mut osd = Osd::start_with(&[&flag, &value]);
    let client = &mut ConfigurationClient::new(osd.channel().await);
    let created = apply(client, BOTH, false).await.unwrap();
    assert_eq!(outcomes(&created), [("dns", Outcome::Created), ("swap", Outcome::Created)]);
    assert_eq!((created[1].before.as_str(), created[1].r#type.as_str()), ("", PARAMETER));
    let again = apply(client, BOTH, false).await.unwrap();
    assert_eq!(outcomes(&again), [("dns", Outcome::Unchanged), ("swap", Outcome::Unchanged)]);
    let other = "{type: resolver, id: dns, spec: {nameserver: 192.0.2.1}}";
    let [updated] = apply(client, other, false).await.unwrap().try_into().unwrap();
    assert_eq!(updated.outcome(), Outcome::Updated);
    assert_eq!(updated.before, "nameserver: []\nsearch:\n- local\n");
    osd.restart_with(&[&flag, &value]);
    let state = &mut osd.client().await;
    let mut found = get_of(state, RESOLVER, "dns").await.unwrap();
    assert_eq!(found.spec.as_ref().unwrap().yaml_spec, updated.after);
    let metadata = metadata(&mut found);
    assert_eq!((metadata.version.as_str(), metadata.labels["rack"].as_str()), ("2", "7"));
}

#[tokio::test]
async fn a_dry_run_says_what_would_change_and_changes_nothing() {
    let osd = Osd::start_with(&[]);
    let client = &mut ConfigurationClient::new(osd.channel().await);
    let would = apply(client, BOTH, true).await.unwrap();
    assert_eq!(outcomes(&would), [("dns", Outcome::Created), ("swap", Outcome::Created)]);
    let found = get_of(&mut osd.client().await, RESOLVER, "dns").await;
    assert_eq!(code(found), Code::NotFound);
}

#[tokio::test]
async fn the_order_of_documents_and_keys_changes_nothing() {
    let osd = Osd::start_with(&[]);
    let client = &mut ConfigurationClient::new(osd.channel().await);
    apply(client, BOTH, false).await.unwrap();
    let reversed = "{spec: {value: 10, key: vm.swappiness}, id: swap, type: KernelParameter}\n---\n\
                    {spec: {search: local}, labels: {rack: '7'}, id: dns, type: Resolver}\n";
    let would = apply(client, reversed, true).await.unwrap();
    assert_eq!(outcomes(&would), [("swap", Outcome::Unchanged), ("dns", Outcome::Unchanged)]);
    assert!(would.iter().all(|one| one.before == one.after && one.metadata_after.is_empty()));
}

#[tokio::test]
async fn one_mistake_keeps_all_from_being_applied() {
    let osd = Osd::start_with(&[]);
    let client = &mut ConfigurationClient::new(osd.channel().await);
    let mount = format!("{BOTH}---\n{{type: Mount, id: tmp, spec: {{target: /tmp}}}}\n");
    let same = format!("{BOTH}---\n{{type: Resolver, id: other, spec: {{search: a}}}}\n");
    for documents in [&mount, &same] {
        let refused = apply(client, documents, false).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        for (type_name, id) in [(RESOLVER, "dns"), (PARAMETER, "swap")] {
            let found = get_of(&mut osd.client().await, type_name, id).await;
            assert_eq!(code(found), Code::NotFound, "{documents}");
        }
    }
}

#[tokio::test]
async fn resources_may_exchange_what_they_set() {
    let osd = Osd::start_with(&[]);
    let client = &mut ConfigurationClient::new(osd.channel().await);
    let both = |first: &str, second: &str| {
        format!(
            "{{type: KernelParameter, id: a, spec: {{key: {first}, value: 1}}}}\n---\n\
             {{type: KernelParameter, id: b, spec: {{key: {second}, value: 1}}}}\n"
        )
    };
    apply(client, &both("vm.swappiness", "fs.nr_open"), false).await.unwrap();
    let exchanged = apply(client, &both("fs.nr_open", "vm.swappiness"), false).await.unwrap();
    assert_eq!(outcomes(&exchanged), [("a", Outcome::Updated), ("b", Outcome::Updated)]);
    let twice = both("vm.swappiness", "vm.swappiness");
    assert_eq!(code(apply(client, &twice, false).await), Code::InvalidArgument);
}

#[tokio::test]
async fn the_resource_of_an_owner_is_refused() {
    let osd = Osd::start_with(&[]);
    let mut owned = thing("dns");
    metadata(&mut owned).r#type = RESOLVER.into();
    let spec = Some(Spec { proto_spec: vec![], yaml_spec: "search: local".into() });
    create_as(&mut osd.client().await, Resource { spec, ..owned }, "dhcp").await.unwrap();
    let client = &mut ConfigurationClient::new(osd.channel().await);
    assert_eq!(code(apply(client, BOTH, false).await), Code::PermissionDenied);
}

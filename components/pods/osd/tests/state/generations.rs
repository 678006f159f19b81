//! Settings as they were before.

use crate::kept::{get_of, keep};
use crate::osd::{Osd, code, create, create_as, metadata, thing};
use osbuild_cosi::resource::{Resource, Spec, TeardownRequest};
use osbuild_cosi::v1::applied_resource::Outcome;
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use osbuild_cosi::v1::{
    AppliedResource, ApplyRequest, Generation, ListGenerationsRequest, RestoreGenerationRequest,
};
use tonic::transport::Channel;
use tonic::{Code, Status};

type Client = ConfigurationClient<Channel>;

const RESOLVER: &str = "Resolvers.osbuild";

async fn apply(client: &mut Client, documents: &str) {
    let request = ApplyRequest { documents: documents.to_owned(), dry_run: false };
    client.apply(request).await.unwrap();
}

async fn generations(client: &mut Client) -> Vec<Generation> {
    client.list_generations(ListGenerationsRequest {}).await.unwrap().into_inner().generations
}

async fn restore(
    client: &mut Client,
    number: u64,
    dry_run: bool,
) -> Result<Vec<AppliedResource>, Status> {
    let request = RestoreGenerationRequest { number, dry_run };
    Ok(client.restore_generation(request).await?.into_inner().resources)
}

fn outcomes(changes: &[AppliedResource]) -> Vec<(&str, Outcome)> {
    changes.iter().map(|one| (one.id.as_str(), one.outcome())).collect()
}

#[tokio::test]
async fn an_earlier_generation_is_restored_as_a_new_one_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let [flag, value] = keep(folder.path());
    let mut osd = Osd::start_with(&[&flag, &value]);
    let client = &mut Client::new(osd.channel().await);
    apply(client, "{type: Resolver, id: dns, spec: {search: local}}").await;
    let both = "{type: Resolver, id: dns, spec: {search: example.org}}\n---\n\
                {type: Hostname, id: name, spec: {hostname: edge-7}}";
    apply(client, both).await;
    let before = generations(client).await;
    let numbers: Vec<_> = before.iter().map(|one| (one.number, one.caller.as_str())).collect();
    assert_eq!(numbers, [(3, "local"), (2, "local"), (1, "osd")]);
    assert_eq!(
        outcomes(&before[0].changes),
        [("name", Outcome::Created), ("dns", Outcome::Updated)]
    );
    assert!(before[0].time_seconds >= before[1].time_seconds && before[2].changes.is_empty());

    osd.restart_with(&[&flag, &value]);
    let client = &mut Client::new(osd.channel().await);
    assert_eq!(generations(client).await, before);
    let expected = [("name", Outcome::Destroyed), ("dns", Outcome::Updated)];
    assert_eq!(outcomes(&restore(client, 2, true).await.unwrap()), expected);
    assert_eq!(generations(client).await, before, "a dry run changes nothing");
    assert_eq!(outcomes(&restore(client, 2, false).await.unwrap()), expected);
    let state = &mut osd.client().await;
    let found = get_of(state, RESOLVER, "dns").await.unwrap();
    assert_eq!(found.spec.unwrap().yaml_spec, "nameserver: []\nsearch:\n- local\n");
    let gone = get_of(state, "Hostnames.osbuild", "name").await;
    assert_eq!(code(gone), Code::NotFound);
    let after = generations(client).await;
    assert_eq!((after[0].number, &after[1..]), (4, &before[..]));
    assert_eq!(outcomes(&restore(client, 1, false).await.unwrap()), [("dns", Outcome::Destroyed)]);
    assert_eq!(code(restore(client, 99, false).await), Code::NotFound);
}

/// A generation has only what its author could have written.
#[tokio::test]
async fn a_generation_leaves_alone_what_is_torn_down_or_has_an_owner() {
    let osd = Osd::start_with(&[]);
    let (client, state) = (&mut Client::new(osd.channel().await), &mut osd.client().await);
    let resource = |type_name: &str, yaml: &str| {
        let mut sent = thing("held");
        metadata(&mut sent).r#type = type_name.into();
        Resource { spec: Some(Spec { proto_spec: vec![], yaml_spec: yaml.into() }), ..sent }
    };
    let mut held = resource("KernelParameters.osbuild", "key: vm.swappiness\nvalue: 10\n");
    metadata(&mut held).finalizers.push("controller".into());
    create(state, held).await.unwrap();
    apply(client, "{type: Hostname, id: name, spec: {hostname: edge-7}}").await;
    let with_it = generations(client).await[0].number;
    let teardown = TeardownRequest {
        namespace: "system".into(),
        r#type: "KernelParameters.osbuild".into(),
        id: "held".into(),
        options: None,
    };
    state.teardown(teardown).await.unwrap();
    let newest = generations(client).await[0].number;
    assert_eq!(restore(client, newest, false).await.unwrap(), []);
    let found = get_of(state, "KernelParameters.osbuild", "held").await.unwrap();
    assert_eq!(found.metadata.unwrap().phase, "tearingDown");
    apply(client, "{type: Hostname, id: name, spec: {hostname: edge-8}}").await;
    let changes = restore(client, with_it, false).await.unwrap();
    assert_eq!(outcomes(&changes), [("name", Outcome::Updated)]);
    let found = get_of(state, "KernelParameters.osbuild", "held").await.unwrap();
    assert_eq!(found.metadata.unwrap().phase, "tearingDown");

    apply(client, "{type: Resolver, id: dns, spec: {search: local}}").await;
    let with_other = generations(client).await[0].number;
    restore(client, with_it, false).await.unwrap();
    create_as(state, resource(RESOLVER, "search: local\n"), "controller").await.unwrap();
    for is_dry in [true, false] {
        let restored = restore(client, with_other, is_dry).await;
        assert_eq!(code(restored), Code::FailedPrecondition, "dry: {is_dry}");
    }
    let changes = restore(client, 1, false).await.unwrap();
    assert_eq!(outcomes(&changes), [("name", Outcome::Destroyed)]);
    get_of(state, RESOLVER, "held").await.unwrap();
}

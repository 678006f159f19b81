//! Calls that end at once, and their errors.

use crate::osd::{Client, NAMESPACE, Osd, TYPE, code, create, create_as, metadata, thing, update};
use osbuild_cosi::resource::label_term::Operation;
use osbuild_cosi::resource::{
    DestroyOptions, DestroyRequest, GetRequest, IdQuery, LabelQuery, LabelTerm, ListOptions,
    ListRequest, Resource, Spec, TeardownAndDestroyRequest, TeardownRequest,
};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;
use tonic::{Code, Request, Status};

async fn list(client: &mut Client, options: ListOptions) -> Result<Vec<String>, Status> {
    list_of(client, NAMESPACE, TYPE, options).await
}

async fn list_of(
    client: &mut Client,
    namespace: &str,
    type_name: &str,
    options: ListOptions,
) -> Result<Vec<String>, Status> {
    let (namespace, r#type) = (namespace.into(), type_name.into());
    let request = ListRequest { namespace, r#type, options: Some(options) };
    let mut stream = client.list(request).await?.into_inner();
    let mut ids = Vec::new();
    while let Some(message) = stream.message().await? {
        ids.push(message.resource.unwrap().metadata.unwrap().id);
    }
    Ok(ids)
}

async fn get(client: &mut Client, id: &str) -> Result<Resource, Status> {
    let (namespace, r#type, id) = (NAMESPACE.into(), TYPE.into(), id.into());
    let request = GetRequest { namespace, r#type, id, options: None };
    Ok(client.get(request).await?.into_inner().resource.unwrap())
}

fn teardown(id: &str) -> TeardownRequest {
    TeardownRequest {
        namespace: NAMESPACE.into(),
        r#type: TYPE.into(),
        id: id.into(),
        options: None,
    }
}

fn teardown_and_destroy(id: &str) -> TeardownAndDestroyRequest {
    TeardownAndDestroyRequest {
        namespace: NAMESPACE.into(),
        r#type: TYPE.into(),
        id: id.into(),
        options: None,
    }
}

fn destroy(id: &str, owner: &str) -> DestroyRequest {
    DestroyRequest {
        namespace: NAMESPACE.into(),
        r#type: TYPE.into(),
        id: id.into(),
        options: Some(DestroyOptions { owner: owner.into() }),
    }
}

#[tokio::test]
async fn a_spec_comes_back_as_it_was_sent_with_times() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let created = create(client, thing("a")).await.unwrap();
    assert_eq!(created.spec, thing("a").spec);
    let mut changed = created.clone();
    let spec = Spec { proto_spec: vec![8, 1], yaml_spec: "value: '2'\n".into() };
    changed.spec = Some(spec.clone());
    update(client, changed).await.unwrap();
    let mut found = get(client, "a").await.unwrap();
    assert_eq!(found.spec, Some(spec));
    let metadata = metadata(&mut found);
    assert_eq!((metadata.version.as_str(), metadata.phase.as_str()), ("2", "running"));
    assert_eq!(metadata.created, created.metadata.unwrap().created);
    assert!(metadata.updated.unwrap().seconds >= metadata.created.unwrap().seconds);
}

#[tokio::test]
async fn each_conflict_has_its_code() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let created = create_as(client, thing("a"), "me").await.unwrap();
    assert_eq!(code(create(client, thing("a")).await), Code::AlreadyExists);
    assert_eq!(code(update(client, created.clone()).await), Code::PermissionDenied);
    assert_eq!(code(update(client, thing("b")).await), Code::NotFound);
    assert_eq!(code(client.destroy(destroy("a", "you")).await), Code::PermissionDenied);
    assert_eq!(code(client.teardown(teardown("a")).await), Code::PermissionDenied);
    assert_eq!(code(client.destroy(destroy("b", "")).await), Code::NotFound);
    let theirs = Resource { metadata: created.metadata, ..thing("a") };
    client.destroy(destroy("a", "me")).await.unwrap();
    assert_eq!(code(create(client, theirs).await), Code::PermissionDenied, "names an owner");

    let held = create(client, {
        let mut held = thing("c");
        metadata(&mut held).finalizers.push("network".into());
        held
    });
    let held = held.await.unwrap();
    assert_eq!(code(client.destroy(destroy("c", "")).await), Code::FailedPrecondition);
    update(client, held.clone()).await.unwrap();
    assert_eq!(code(update(client, held).await), Code::FailedPrecondition, "an old version");
}

#[tokio::test]
async fn a_malformed_resource_is_refused() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let changes: [fn(&mut Resource); 5] = [
        |sent| sent.metadata = None,
        |sent| metadata(sent).id.clear(),
        |sent| metadata(sent).namespace.clear(),
        |sent| metadata(sent).phase = "gone".into(),
        |sent| metadata(sent).version = "first".into(),
    ];
    for change in changes {
        let mut sent = thing("a");
        change(&mut sent);
        assert_eq!(code(create(client, sent).await), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn a_list_is_what_queries_select() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    for (id, size) in [("net.b", "10k"), ("net.a", "2Ki"), ("vm.c", "1M")] {
        let mut sent = thing(id);
        metadata(&mut sent).labels.insert("size".into(), size.into());
        create(client, sent).await.unwrap();
    }
    let term = |op: Operation, value: &[&str]| LabelTerm {
        key: "size".into(),
        op: op.into(),
        value: value.iter().map(|value| value.to_string()).collect(),
        invert: false,
    };
    let labels = |terms| ListOptions { label_query: vec![LabelQuery { terms }], id_query: None };
    let id = |regexp: &str| ListOptions {
        label_query: vec![],
        id_query: Some(IdQuery { regexp: regexp.into() }),
    };
    assert_eq!(list(client, ListOptions::default()).await.unwrap(), ["net.a", "net.b", "vm.c"]);
    let small = labels(vec![term(Operation::LtNumeric, &["10k"])]);
    assert_eq!(list(client, small).await.unwrap(), ["net.a"]);
    let gone = labels(vec![term(Operation::NotExists, &[])]);
    assert_eq!(list(client, gone).await.unwrap(), [""; 0]);
    assert_eq!(list(client, id("^net")).await.unwrap(), ["net.a", "net.b"]);
    assert_eq!(code(list(client, id("(")).await), Code::InvalidArgument);
    let no_value = labels(vec![term(Operation::Equal, &[])]);
    assert_eq!(code(list(client, no_value).await), Code::InvalidArgument);
    let mut unknown = term(Operation::Equal, &["1"]);
    unknown.op = 99;
    assert_eq!(code(list(client, labels(vec![unknown])).await), Code::Unimplemented);
}

/// The identifiers of the definitions of all types of the node.
const DEFINITIONS: &[&str] = &[
    "addresses.osbuild",
    "addresssettingstatuses.osbuild",
    "addressstatuses.osbuild",
    "bpfprograms.osbuild",
    "clusterjoins.osbuild",
    "clusterjoinstatuses.osbuild",
    "cnistatuses.osbuild",
    "controllerstatuses.osbuild",
    "controlplanes.osbuild",
    "controlplanestatuses.osbuild",
    "credentialproviders.osbuild",
    "credentialproviderstatuses.osbuild",
    "deviceinfos.osbuild",
    "diagnostics.osbuild",
    "firewallrules.osbuild",
    "firewallrulestatuses.osbuild",
    "hostnames.osbuild",
    "hostnamestatuses.osbuild",
    "kernelinfos.osbuild",
    "kernelmodules.osbuild",
    "kernelmodulestatuses.osbuild",
    "kernelparameters.osbuild",
    "kernelparameterstatuses.osbuild",
    "kubeletconfigs.osbuild",
    "kubeletconfigstatuses.osbuild",
    "links.osbuild",
    "linksettingstatuses.osbuild",
    "linkstatuses.osbuild",
    "motds.osbuild",
    "motdstatuses.osbuild",
    "mounts.osbuild",
    "mountstatuses.osbuild",
    "namespaces.meta.cosi.dev",
    "nats.osbuild",
    "natstatuses.osbuild",
    "nodeaddresses.osbuild",
    "nodelabels.osbuild",
    "nodelabelstatuses.osbuild",
    "nodetaints.osbuild",
    "nodetaintstatuses.osbuild",
    "observationstatuses.osbuild",
    "osimages.osbuild",
    "plugingrants.osbuild",
    "processstatuses.osbuild",
    "proxies.osbuild",
    "proxystatuses.osbuild",
    "registrycredentials.osbuild",
    "registrycredentialstatuses.osbuild",
    "registrymirrors.osbuild",
    "registrymirrorstatuses.osbuild",
    "resolvers.osbuild",
    "resolverstatuses.osbuild",
    "resourcedefinitions.meta.cosi.dev",
    "revocations.osbuild",
    "roles.osbuild",
    "routes.osbuild",
    "routesettingstatuses.osbuild",
    "routestatuses.osbuild",
    "routingrules.osbuild",
    "routingrulestatuses.osbuild",
    "runtimeclients.osbuild",
    "sbomitems.osbuild",
    "seccompprofiles.osbuild",
    "seccompprofilestatuses.osbuild",
    "securitystates.osbuild",
    "slotstatuses.osbuild",
    "staticpods.osbuild",
    "staticpodstatuses.osbuild",
    "storagedrivers.osbuild",
    "swaps.osbuild",
    "swapstatuses.osbuild",
    "systemimages.osbuild",
    "systemimagestatuses.osbuild",
    "timeservers.osbuild",
    "timeserverstatuses.osbuild",
    "tokenissuers.osbuild",
    "trustedroots.osbuild",
    "trustedrootstatuses.osbuild",
    "updatestatuses.osbuild",
    "volumes.osbuild",
    "volumestatuses.osbuild",
];

#[tokio::test]
async fn clients_find_the_known_types_and_cannot_change_them() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let mut ids =
        async |type_name| list_of(client, "meta", type_name, ListOptions::default()).await.unwrap();
    assert_eq!(ids("Namespaces.meta.cosi.dev").await, ["meta", "plugins", "system"]);
    assert_eq!(ids("ResourceDefinitions.meta.cosi.dev").await, DEFINITIONS);
    let namespace = DestroyRequest {
        namespace: "meta".into(),
        r#type: "Namespaces.meta.cosi.dev".into(),
        id: "system".into(),
        options: Some(DestroyOptions { owner: "meta".into() }),
    };
    assert_eq!(code(client.destroy(namespace).await), Code::PermissionDenied);
}

#[tokio::test]
async fn an_unknown_type_is_refused_unless_the_command_line_allows_any() {
    let mut path = thing("/var/run");
    metadata(&mut path).r#type = "os/path".into();
    let osd = Osd::start_with(&[]);
    assert_eq!(code(create(&mut osd.client().await, path.clone()).await), Code::InvalidArgument);
    let osd = Osd::of_any_type();
    create(&mut osd.client().await, path).await.unwrap();
}

#[tokio::test]
async fn teardown_and_destroy_waits_for_the_last_finalizer() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let mut held = thing("a");
    metadata(&mut held).finalizers = vec!["network".into(), "time".into()];
    let mut held = create(client, held).await.unwrap();
    let mut waiting = Request::new(teardown_and_destroy("a"));
    waiting.set_timeout(Duration::from_millis(100));
    let ended = client.clone().teardown_and_destroy(waiting).await;
    assert!(matches!(code(ended), Code::Cancelled | Code::DeadlineExceeded));

    let mut other = client.clone();
    let mut waits = std::pin::pin!(other.teardown_and_destroy(teardown_and_destroy("a")));
    for finalizers in [vec!["time".to_owned()], vec![]] {
        let pause = tokio::time::sleep(Duration::from_millis(50));
        tokio::select! {
            ended = &mut waits => panic!("it did not wait: {ended:?}"),
            () = pause => {}
        }
        held = get(client, "a").await.unwrap();
        assert_eq!(metadata(&mut held).phase, "tearingDown");
        metadata(&mut held).finalizers = finalizers;
        update(client, held.clone()).await.unwrap();
    }
    waits.await.unwrap();
    assert_eq!(code(get(client, "a").await), Code::NotFound);
    assert!(metadata(&mut held).finalizers.is_empty());
}

#[test]
fn the_help_says_what_is_lost_at_the_end() {
    let osd = || Command::new(env!("CARGO_BIN_EXE_osd"));
    let help = osd().arg("--help").output().unwrap();
    assert!(help.status.success());
    assert!(
        String::from_utf8(help.stdout).unwrap().contains("without it they are gone when osd ends")
    );
    assert_eq!(osd().arg("--socket").output().unwrap().status.code(), Some(2));
}

#[tokio::test]
async fn a_socket_in_use_is_kept_and_that_of_a_dead_process_replaced() {
    let mut osd = Osd::of_any_type();
    create(&mut osd.client().await, thing("a")).await.unwrap();
    let mode = std::fs::metadata(osd.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "only the user of osd may connect");
    let second =
        Command::new(env!("CARGO_BIN_EXE_osd")).arg("--socket").arg(osd.socket()).output().unwrap();
    assert!(String::from_utf8(second.stderr).unwrap().ends_with("is in use\n"));
    get(&mut osd.client().await, "a").await.unwrap();
    osd.restart();
    assert_eq!(code(get(&mut osd.client().await, "a").await), Code::NotFound, "it is in memory");
}

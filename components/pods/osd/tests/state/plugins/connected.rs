//! A plugin on a connection, and what it registers and writes.

use super::node::{GREETINGS, HOSTNAMES, PLUGINS};
use osbuild_cosi::resource::{Metadata, Resource, Spec};
use osbuild_cosi::runtime::controller_adapter_client::ControllerAdapterClient;
use osbuild_cosi::runtime::controller_runtime_client::ControllerRuntimeClient;
use osbuild_cosi::runtime::{
    ControllerInput, ControllerInputKind, ControllerOutput, ControllerOutputKind,
    ReconcileEventsRequest, ReconcileEventsResponse, RegisterControllerRequest,
    RuntimeAddFinalizerRequest, RuntimeCreateRequest, RuntimeGetRequest, RuntimeListRequest,
    RuntimeRemoveFinalizerRequest, RuntimeUpdateRequest,
};
use std::fmt::Debug;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Response, Status, Streaming};

/// A plugin on a connection of its own.
#[derive(Clone)]
pub struct Connected {
    pub channel: Channel,
    pub token: String,
}

impl Connected {
    pub fn adapter(&self) -> ControllerAdapterClient<Channel> {
        ControllerAdapterClient::new(self.channel.clone())
    }

    pub fn runtime(&self) -> ControllerRuntimeClient<Channel> {
        ControllerRuntimeClient::new(self.channel.clone())
    }

    pub async fn register(
        &mut self,
        name: &str,
        inputs: Vec<ControllerInput>,
        outputs: Vec<ControllerOutput>,
    ) -> Result<(), Status> {
        let controller_name = name.to_owned();
        let request = RegisterControllerRequest { controller_name, inputs, outputs };
        let registered = self.runtime().register_controller(request).await?;
        self.token = registered.into_inner().controller_token;
        Ok(())
    }

    pub async fn events(&self) -> Streaming<ReconcileEventsResponse> {
        let request = ReconcileEventsRequest { controller_token: self.token.clone() };
        let mut events = self.adapter().reconcile_events(request).await.unwrap().into_inner();
        assert!(is_woken(&mut events).await, "a message comes at once");
        events
    }

    pub async fn create(&self, resource: Resource) -> Result<Resource, Status> {
        let (controller_token, resource) = (self.token.clone(), Some(resource));
        let request = RuntimeCreateRequest { controller_token, resource };
        Ok(self.adapter().create(request).await?.into_inner().resource.unwrap())
    }

    pub async fn update(&self, resource: Resource) -> Result<Resource, Status> {
        let (controller_token, new_resource) = (self.token.clone(), Some(resource));
        let request = RuntimeUpdateRequest { controller_token, new_resource };
        Ok(self.adapter().update(request).await?.into_inner().resource.unwrap())
    }

    pub async fn get(
        &self,
        namespace: &str,
        type_name: &str,
        id: &str,
    ) -> Result<Resource, Status> {
        let request = RuntimeGetRequest {
            controller_token: self.token.clone(),
            namespace: namespace.to_owned(),
            r#type: type_name.to_owned(),
            id: id.to_owned(),
        };
        Ok(self.adapter().get(request).await?.into_inner().resource.unwrap())
    }

    pub async fn list(&self, namespace: &str, type_name: &str) -> Result<usize, Status> {
        let request = RuntimeListRequest {
            controller_token: self.token.clone(),
            namespace: namespace.to_owned(),
            r#type: type_name.to_owned(),
            options: None,
        };
        let mut found = self.adapter().list(request).await?.into_inner();
        let mut count = 0;
        while found.message().await?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    pub async fn add_finalizer(&self, type_name: &str, id: &str) -> Result<(), Status> {
        let request = RuntimeAddFinalizerRequest {
            controller_token: self.token.clone(),
            namespace: "system".to_owned(),
            r#type: type_name.to_owned(),
            id: id.to_owned(),
            finalizers: vec!["greeter".to_owned()],
        };
        self.adapter().add_finalizer(request).await.map(drop)
    }

    pub async fn remove_finalizer(&self, type_name: &str, id: &str) -> Result<(), Status> {
        let request = RuntimeRemoveFinalizerRequest {
            controller_token: self.token.clone(),
            namespace: "system".to_owned(),
            r#type: type_name.to_owned(),
            id: id.to_owned(),
            finalizers: vec!["greeter".to_owned()],
        };
        self.adapter().remove_finalizer(request).await.map(drop)
    }
}

pub fn input(kind: ControllerInputKind, type_name: &str, id: Option<&str>) -> ControllerInput {
    ControllerInput {
        kind: kind.into(),
        namespace: "system".to_owned(),
        r#type: type_name.to_owned(),
        id: id.map(str::to_owned),
    }
}

pub fn inputs() -> Vec<ControllerInput> {
    vec![input(ControllerInputKind::Strong, HOSTNAMES, None)]
}

pub fn output(kind: ControllerOutputKind, type_name: &str) -> ControllerOutput {
    ControllerOutput { r#type: type_name.to_owned(), kind: kind.into() }
}

pub fn outputs() -> Vec<ControllerOutput> {
    vec![output(ControllerOutputKind::Exclusive, GREETINGS)]
}

pub fn resource(namespace: &str, type_name: &str, id: &str) -> Resource {
    let metadata = Metadata {
        namespace: namespace.to_owned(),
        r#type: type_name.to_owned(),
        id: id.to_owned(),
        version: "undefined".to_owned(),
        phase: "running".to_owned(),
        ..Metadata::default()
    };
    let spec = Spec { proto_spec: vec![], yaml_spec: "greeting: hello\n".to_owned() };
    Resource { metadata: Some(metadata), spec: Some(spec) }
}

pub fn greeting(id: &str) -> Resource {
    resource(PLUGINS, GREETINGS, id)
}

/// Whether a message comes in time.
pub async fn is_woken(events: &mut Streaming<ReconcileEventsResponse>) -> bool {
    let message = tokio::time::timeout(Duration::from_millis(500), events.message()).await;
    message.is_ok_and(|message| message.is_ok_and(|message| message.is_some()))
}

/// The end of what a connection has sent.
pub async fn end<T: Debug>(outcome: impl Future<Output = Result<T, Status>>) -> Option<Status> {
    tokio::time::timeout(Duration::from_secs(10), outcome).await.expect("it does not end").err()
}

pub fn answered<T>(outcome: Result<Response<T>, Status>) -> Code {
    outcome.err().map_or(Code::Ok, |status| status.code())
}

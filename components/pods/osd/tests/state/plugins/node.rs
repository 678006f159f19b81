//! A node that serves a plugin.

use super::connected::{Connected, inputs, outputs};
use crate::osd::{Osd, channel};
use osbuild_cosi::resource::state_client::StateClient;
use osbuild_cosi::resource::{
    DestroyOptions, DestroyRequest, GetRequest, ListRequest, TeardownRequest,
};
use osbuild_cosi::v1::ApplyRequest;
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tonic::Status;
use tonic::transport::Channel;

pub const GRANT: &str = "
type: PluginGrant
id: greeter
spec:
  inputs:
  - {namespace: system, type: Hostnames.osbuild, kind: strong}
  - {namespace: system, type: Resolvers.osbuild, id: dns, kind: weak}
  outputs:
  - type: Greetings.example
    singular: Greeting
    kind: exclusive
    columns: [{name: Greeting, jsonPath: '{.greeting}'}]
  - {type: Letters.example, singular: Letter, kind: shared}
";
pub const HOSTNAMES: &str = "Hostnames.osbuild";
pub const GREETINGS: &str = "Greetings.example";
pub const PLUGINS: &str = "plugins";

/// An `osd` that serves plugins.
pub struct Node {
    pub osd: Osd,
    pub plugins: TempDir,
}

impl Node {
    pub async fn start() -> Node {
        Node::start_with(&[]).await
    }

    pub async fn start_with(more: &[&str]) -> Node {
        let plugins = tempfile::tempdir().unwrap();
        let folder = plugins.path().display().to_string();
        let osd = Osd::start_with(&[&["--plugins", &folder], more].concat());
        let node = Node { osd, plugins };
        node.osd.client().await;
        node
    }

    /// A node that has the grant.
    pub async fn granted() -> Node {
        let node = Node::start().await;
        node.apply(GRANT).await.unwrap();
        node
    }

    pub async fn apply(&self, documents: &str) -> Result<(), Status> {
        let request = ApplyRequest { documents: documents.to_owned(), dry_run: false };
        let mut client = ConfigurationClient::new(self.osd.channel().await);
        client.apply(request).await.map(drop)
    }

    pub fn socket(&self, plugin: &str) -> PathBuf {
        self.plugins.path().join(plugin).join("socket")
    }

    pub async fn connect(&self) -> Connected {
        Connected { channel: channel(&self.socket("greeter")).await, token: String::new() }
    }

    /// The plugin with its controller.
    pub async fn registered(&self) -> Connected {
        let mut plugin = self.connect().await;
        plugin.register("greeter", inputs(), outputs()).await.unwrap();
        plugin
    }

    pub async fn state(&self) -> StateClient<Channel> {
        self.osd.client().await
    }

    /// The YAML of a resource, as soon as there is one that has the text.
    pub async fn yaml(&self, type_name: &str, id: &str, text: &str) -> String {
        let mut state = self.state().await;
        let mut last = String::new();
        for _ in 0..500 {
            let request = GetRequest {
                namespace: "system".to_owned(),
                r#type: type_name.to_owned(),
                id: id.to_owned(),
                options: None,
            };
            last = match state.get(request).await {
                Ok(found) => found.into_inner().resource.unwrap().spec.unwrap().yaml_spec,
                Err(status) => status.to_string(),
            };
            if last.contains(text) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{text} is not in {last}");
    }

    pub async fn definitions(&self) -> Vec<String> {
        self.ids("meta", "ResourceDefinitions.meta.cosi.dev").await
    }

    pub async fn ids(&self, namespace: &str, type_name: &str) -> Vec<String> {
        let request = ListRequest {
            namespace: namespace.to_owned(),
            r#type: type_name.to_owned(),
            options: None,
        };
        let mut found = self.state().await.list(request).await.unwrap().into_inner();
        let mut ids = Vec::new();
        while let Some(message) = found.message().await.unwrap() {
            ids.push(message.resource.unwrap().metadata.unwrap().id);
        }
        ids
    }

    pub async fn destroy(&self, type_name: &str, id: &str) -> Result<(), Status> {
        let request = DestroyRequest {
            namespace: "system".to_owned(),
            r#type: type_name.to_owned(),
            id: id.to_owned(),
            options: Some(DestroyOptions::default()),
        };
        self.state().await.destroy(request).await.map(drop)
    }

    pub async fn tear_down(&self, type_name: &str, id: &str) -> Result<(), Status> {
        let (namespace, r#type, id) = ("system".to_owned(), type_name.to_owned(), id.to_owned());
        let request = TeardownRequest { namespace, r#type, id, options: None };
        self.state().await.teardown(request).await.map(drop)
    }
}

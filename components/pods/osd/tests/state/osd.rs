//! A running `osd`, and the requests of the tests.

use osbuild_cosi::resource::state_client::StateClient;
use osbuild_cosi::resource::{
    CreateOptions, CreateRequest, Metadata, Resource, Spec, UpdateOptions, UpdateRequest,
    WatchOptions, WatchRequest, WatchResponse,
};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

pub const NAMESPACE: &str = "system";
/// A type that only these tests have, so that a spec of it may be anything.
pub const TYPE: &str = "Things.example";

/// Has the program accept types that it does not know.
pub const ANY_TYPE: &str = "--accept-any-type";

/// The variable with the program to test in place of the one that was compiled with the tests.
const PROGRAM: &str = "OSD_TEST_PROGRAM";

pub type Client = StateClient<Channel>;

/// An `osd` with a socket in a folder of its own. It ends with the test.
pub struct Osd {
    folder: TempDir,
    child: Child,
}

impl Osd {
    /// Starts the program with [`ANY_TYPE`].
    pub fn of_any_type() -> Osd {
        Osd::start_with(&[ANY_TYPE])
    }

    pub fn start_with(arguments: &[&str]) -> Osd {
        let folder = tempfile::tempdir().unwrap();
        let child = spawn(&folder.path().join("socket"), arguments);
        Osd { folder, child }
    }

    /// The program that was started, with its socket in the folder.
    pub fn of(folder: TempDir, child: Child) -> Osd {
        Osd { folder, child }
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Child {
        &mut self.child
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A client with a connection of its own.
    pub async fn client(&self) -> Client {
        Client::new(self.channel().await).max_decoding_message_size(4 << 20)
    }

    /// A connection, as soon as the program serves.
    pub async fn channel(&self) -> Channel {
        channel(&self.socket()).await
    }

    /// Ends the program as a crash does, and starts another with the same socket.
    pub fn restart(&mut self) {
        self.restart_with(&[ANY_TYPE]);
    }

    pub fn restart_with(&mut self, arguments: &[&str]) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(&self.socket(), arguments);
    }
}

/// A connection to the socket, as soon as somebody serves there.
pub async fn channel(socket: &Path) -> Channel {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).unwrap();
    for _ in 0..500 {
        if let Ok(channel) = endpoint.connect().await {
            return channel;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("osd does not serve");
}

impl Drop for Osd {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn spawn(socket: &Path, arguments: &[&str]) -> Child {
    let own = || env!("CARGO_BIN_EXE_osd").into();
    let mut command = Command::new(std::env::var_os(PROGRAM).unwrap_or_else(own));
    // Its record would be among the lines of the tests.
    command.arg("--socket").arg(socket).args(arguments).stdout(Stdio::null()).spawn().unwrap()
}

/// A resource that nobody wrote yet.
pub fn thing(id: &str) -> Resource {
    Resource {
        metadata: Some(Metadata {
            namespace: NAMESPACE.into(),
            r#type: TYPE.into(),
            id: id.into(),
            version: "undefined".into(),
            phase: "running".into(),
            ..Metadata::default()
        }),
        spec: Some(Spec { proto_spec: vec![], yaml_spec: "value: '1'\n".into() }),
    }
}

/// The metadata of a resource, to read or change.
pub fn metadata(resource: &mut Resource) -> &mut Metadata {
    resource.metadata.as_mut().unwrap()
}

pub async fn create(client: &mut Client, resource: Resource) -> Result<Resource, Status> {
    create_as(client, resource, "").await
}

pub async fn create_as(
    client: &mut Client,
    resource: Resource,
    owner: &str,
) -> Result<Resource, Status> {
    let options = Some(CreateOptions { owner: owner.into() });
    let created = client.create(CreateRequest { resource: Some(resource), options }).await?;
    Ok(created.into_inner().resource.unwrap())
}

pub async fn update(client: &mut Client, resource: Resource) -> Result<Resource, Status> {
    let options = Some(UpdateOptions::default());
    let updated = client.update(UpdateRequest { new_resource: Some(resource), options }).await?;
    Ok(updated.into_inner().resource.unwrap())
}

/// A watch of all resources of the type by a client that knows all events.
pub fn all(options: WatchOptions) -> WatchRequest {
    WatchRequest {
        namespace: NAMESPACE.into(),
        r#type: TYPE.into(),
        id: None,
        options: Some(options),
        api_version: 1,
    }
}

/// Begins a watch and takes its first message, which must be empty.
pub async fn watch(
    client: &mut Client,
    request: WatchRequest,
) -> Result<Streaming<WatchResponse>, Status> {
    let mut stream = client.watch(request).await?.into_inner();
    assert_eq!(stream.message().await?, Some(WatchResponse::default()));
    Ok(stream)
}

/// The code of a refusal.
pub fn code<T: std::fmt::Debug>(outcome: Result<T, Status>) -> Code {
    outcome.unwrap_err().code()
}

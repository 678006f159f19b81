//! Holds the host to the kernel parameters in the store, through `init`: it applies what they say,
//! withdraws what they no longer say, and writes their statuses. It compares all of them after each
//! change, so nothing is lost when it or `init` was away.

use crate::catalog::{KERNEL_PARAMETER_STATUSES, KERNEL_PARAMETERS, SYSTEM};
use crate::keeper::Keeper;
use crate::kernel_parameters;
use crate::shared::SharedStore;
use osbuild_cosi::v1::KernelParameterStatusSpec;
use osbuild_protocol::{Client, ClientError, HeldParameter, KernelParameter, RefusalCode, Request};
use osbuild_resources::{Content, Expected, Key, Kind, Owner, Phase, Query, Spec, Store};
use prost::Message;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long `init` may take to answer, as it waits for the disk.
const TIMEOUT: Duration = Duration::from_secs(150);
/// The pause before `init` is asked again, when it could not be reached.
const PAUSE: Duration = Duration::from_secs(1);

/// The owner of the statuses.
const OWNER: &str = "host";

/// A kernel parameter in the store.
#[derive(Clone)]
struct Wanted {
    id: String,
    version: String,
    parameter: KernelParameter,
}

/// The statuses by the identifiers of their resources.
type Statuses = BTreeMap<String, KernelParameterStatusSpec>;

/// The resources, and `init`.
pub struct Host {
    /// The resources.
    pub store: Arc<SharedStore>,
    /// What keeps them.
    pub keeper: Option<Arc<Keeper>>,
    /// The socket of `init`.
    pub socket: PathBuf,
}

impl Host {
    /// Acts until the process ends. If `adopts`, the store begins with what `init` holds.
    pub async fn run(self, adopts: bool) {
        if adopts {
            self.adopt().await;
        }
        let mut changes = self.store.changes(&kind(KERNEL_PARAMETERS));
        loop {
            changes.borrow_and_update();
            publish(&self.store, self.exchange(apply).await);
            changes.changed().await.expect("the store has the sender while there is a receiver");
        }
    }

    async fn adopt(&self) {
        let held = self.exchange(|socket, _| held(socket)).await;
        held.iter().for_each(|held| adopt(&self.store, &held.wanted));
        if let Some(keeper) = &self.keeper
            && let Err(status) = keeper.keep().await
        {
            eprintln!("error: {}", status.message());
        }
    }

    /// Talks with `init`, which blocks, until that succeeds.
    async fn exchange<T: Send + 'static>(
        &self,
        exchange: fn(&Path, &SharedStore) -> Result<T, ClientError>,
    ) -> T {
        let mut printed = String::new();
        loop {
            let (store, socket) = (self.store.clone(), self.socket.clone());
            let exchange = tokio::task::spawn_blocking(move || exchange(&socket, &store));
            match exchange.await.expect("no exchange panics") {
                Ok(found) => return found,
                Err(error) => {
                    let error = error.to_string();
                    if error != printed {
                        eprintln!("error: cannot set kernel parameters: {error}");
                        printed = error;
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn kind(type_name: &str) -> Kind {
    Kind::new(SYSTEM, type_name).expect("the catalog has the type")
}

/// The kernel parameters of the store that are not being torn down.
fn wanted(store: &Store) -> Vec<Wanted> {
    let query = Query::default();
    let found = store.list(&kind(KERNEL_PARAMETERS), &query);
    let running = found.filter(|found| found.content.phase == Phase::Running);
    let wanted = running.filter_map(|found| {
        Some(Wanted {
            id: found.content.key.id().to_owned(),
            version: found.version.to_string(),
            parameter: kernel_parameters::read(&found.content.spec).ok()?,
        })
    });
    wanted.collect()
}

fn held(socket: &Path) -> Result<Vec<HeldParameter>, ClientError> {
    Client::connect(socket, TIMEOUT)?.kernel_parameters()
}

/// Has `init` hold exactly the parameters of the store.
fn apply(socket: &Path, store: &SharedStore) -> Result<Statuses, ClientError> {
    let mut client = Client::connect(socket, TIMEOUT)?;
    let wanted = store.read(wanted);
    let held: Vec<KernelParameter> =
        client.kernel_parameters()?.into_iter().map(|held| held.wanted).collect();
    for held in &held {
        if !wanted.iter().any(|wanted| wanted.parameter.key == held.key) {
            client.send(&Request::WithdrawKernelParameter(held.key.clone()))?;
        }
    }
    let mut errors = BTreeMap::new();
    for Wanted { id, parameter, .. } in &wanted {
        if held.contains(parameter) {
            continue;
        }
        match client.send(&Request::ApplyKernelParameter(parameter.clone())) {
            Ok(()) => {}
            Err(ClientError::Refused(refusal)) if refusal.code != RefusalCode::Busy => {
                errors.insert(id, refusal.reason);
            }
            Err(error) => return Err(error),
        }
    }
    let held = client.kernel_parameters()?;
    let statuses = wanted.iter().map(|Wanted { id, version, parameter }| {
        let current = held.iter().find(|held| held.wanted == *parameter);
        let status = KernelParameterStatusSpec {
            key: parameter.key.to_string(),
            value: parameter.value.to_string(),
            current: current.map_or_else(String::new, |held| held.current.clone()),
            error: errors.remove(id).unwrap_or_default(),
            version: version.clone(),
        };
        (id.clone(), status)
    });
    Ok(statuses.collect())
}

/// Adds a parameter that `init` holds to the store, under its name.
fn adopt(store: &SharedStore, parameter: &KernelParameter) {
    let kind = kind(KERNEL_PARAMETERS);
    let key = Key::new(kind.clone(), parameter.key.as_str());
    let (Ok(key), Ok(spec)) = (key, kernel_parameters::write(parameter)) else { return };
    let content = Content::new(key, spec);
    let created = |store: &mut Store| store.create(content, Owner::default(), SystemTime::now());
    // A client may have created it in the meantime.
    let _ = store.write(&kind, created);
}

/// Replaces the statuses in the store.
fn publish(store: &SharedStore, mut statuses: Statuses) {
    let kind = kind(KERNEL_PARAMETER_STATUSES);
    let (owner, query) = (Owner(OWNER.to_owned()), Query::default());
    let outcome = store.write(&kind, |store| {
        let found: Vec<_> = store.list(&kind, &query).collect();
        for found in found {
            let key = &found.content.key;
            let Some(status) = statuses.remove(key.id()) else {
                store.destroy(key, &owner)?;
                continue;
            };
            let content = Content { spec: spec(&status), ..found.content.clone() };
            if content == found.content {
                continue;
            }
            let version = Some(found.version);
            let expected = Expected { version, owner: owner.clone(), phase: None };
            store.update(content, expected, SystemTime::now())?;
        }
        statuses.iter().try_for_each(|(id, status)| {
            let Ok(key) = Key::new(kind.clone(), id) else { return Ok(()) };
            let content = Content::new(key, spec(status));
            store.create(content, owner.clone(), SystemTime::now()).map(drop)
        })
    });
    if let Err(error) = outcome {
        eprintln!("error: cannot write the status of a kernel parameter: {error}");
    }
}

/// Both forms of a status.
fn spec(status: &KernelParameterStatusSpec) -> Spec {
    #[derive(Serialize)]
    struct Yaml<'a> {
        key: &'a str,
        value: &'a str,
        current: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        error: &'a str,
        version: &'a str,
    }
    let KernelParameterStatusSpec { key, value, current, error, version } = status;
    let yaml = Yaml { key, value, current, error, version };
    let yaml = serde_saphyr::to_string(&yaml).expect("five strings are YAML");
    Spec { proto: status.encode_to_vec(), yaml }
}

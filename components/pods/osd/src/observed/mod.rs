//! Observes the state of the node. Each type is a row of [`TYPES`] and a file here, which reads
//! the source and builds the specs. The program alone writes the resources.
//!
//! Three threads observe: [`network`] the kernel's links, addresses and routes, [`device`] the
//! hardware, and [`node`] the kernel itself and the reports of `init`. [`publisher`] writes the
//! differences.

mod address;
mod bpf_program;
mod cni;
pub mod device;
mod diagnostic;
mod kernel_info;
mod link;
mod name;
mod netlink;
mod network;
mod node;
mod node_address;
mod observation;
mod os_image;
mod process;
mod publisher;
mod route;
mod rows;
mod runtime_client;
pub mod sbom_item;
mod security_state;
mod slot;
mod storage_driver;
mod update;

use crate::settings;
use crate::shared::SharedStore;
use osbuild_failure::{Explain, Outcome};
use osbuild_resources::{Kind, Names, PrintColumn, Room};
use publisher::Publisher;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How old a resource may be, if no event has said that it has to be read again.
const REFRESH: Duration = Duration::from_secs(5);

/// Bytes that a resource takes on average at most, with its key and both forms of its spec.
const AVERAGE_SIZE: usize = 3 << 9;

/// The same for a type with a few resources, one of which may have the kernel's command line.
const FEW: usize = 64;
const SIZE_OF_FEW: usize = 64 << 10;

/// A type of what is observed.
pub struct ObservedType {
    /// The names of the type.
    pub names: Names<'static>,
    /// Its columns.
    pub columns: &'static [PrintColumn<'static>],
    /// How many resources there are at most.
    pub max_count: usize,
}

/// All types.
pub const TYPES: [ObservedType; 18] = [
    address::TYPE,
    bpf_program::TYPE,
    cni::TYPE,
    device::TYPE,
    diagnostic::TYPE,
    kernel_info::TYPE,
    link::TYPE,
    node_address::TYPE,
    observation::TYPE,
    os_image::TYPE,
    process::TYPE,
    route::TYPE,
    runtime_client::TYPE,
    sbom_item::TYPE,
    security_state::TYPE,
    slot::TYPE,
    storage_driver::TYPE,
    update::TYPE,
];

impl ObservedType {
    /// The kind of its resources.
    pub fn kind(&self) -> Kind {
        settings::kind(&self.names)
    }

    /// The room that its resources have in the store, beside that of clients: neither side can
    /// take the other's.
    pub fn room(&self) -> Room {
        let bytes = (self.max_count * AVERAGE_SIZE).max(SIZE_OF_FEW);
        Room { resources: self.max_count, bytes }
    }
}

/// The sources beside the kernel and the hardware.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The socket `admin` of `init`, which reports the state of the node.
    pub admin: Option<PathBuf>,
    /// The list of the packages that the image is made of.
    pub packages: Option<PathBuf>,
}

/// Observes until the process ends.
///
/// # Errors
/// There is no thread for it.
pub fn start(store: Arc<SharedStore>, sources: Sources) -> Outcome<()> {
    let publisher = Arc::new(Publisher::new(store));
    let spawn = |name: &str, observe: Box<dyn FnOnce() + Send>| {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(observe);
        thread.map(drop).explain("start a thread")
    };
    let same = publisher.clone();
    spawn("network", Box::new(move || network::observe(&same)))?;
    let same = publisher.clone();
    spawn("devices", Box::new(move || device::observe(&same)))?;
    spawn("node", Box::new(move || node::observe(&publisher, &sources)))
}

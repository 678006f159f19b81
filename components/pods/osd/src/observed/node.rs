//! Observes the kernel itself, and what `init` reports of the node.

use super::publisher::Publisher;
use super::{
    REFRESH, Sources, bpf_program, cni, diagnostic, kernel_info, node_address, os_image, process,
    runtime_client, sbom_item, security_state, slot, storage_driver, update,
};
use osbuild_protocol::{Client, ClientError, NodeStatus};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long `init` may take to answer, as it reads the slots from the disk. After that nothing is
/// known.
const TIMEOUT: Duration = Duration::from_secs(10);
/// For how long `init` is asked again that refuses, such as when many jobs wait for the disk, and
/// the pause before that.
const RETRY_TIME: Duration = REFRESH;
const PAUSE: Duration = Duration::from_secs(1);

/// Observes until the process ends. The packages of the image stay as they are until then.
pub fn observe(publisher: &Publisher, Sources { admin, packages }: &Sources) {
    if let Some(list) = packages {
        sbom_item::publish(publisher, list);
    }
    loop {
        let kernel = kernel_info::read().map_err(|error| error.to_string());
        publisher.publish(&kernel_info::TYPE, kernel);
        if let Some(socket) = admin.as_deref() {
            let status = persist(socket).map_err(|error| format!("init: {error}"));
            publish(publisher, status.as_ref().map_err(String::as_str));
        }
        sleep(REFRESH);
    }
}

fn persist(socket: &Path) -> Result<NodeStatus, ClientError> {
    let began = Instant::now();
    loop {
        match status(socket) {
            Err(_) if began.elapsed() < RETRY_TIME => sleep(PAUSE),
            other => return other,
        }
    }
}

fn status(socket: &Path) -> Result<NodeStatus, ClientError> {
    Client::connect(socket, TIMEOUT)?.status()
}

fn publish(publisher: &Publisher, status: Result<&NodeStatus, &str>) {
    let status = status.map_err(str::to_owned);
    let of = || status.clone();
    let command_line = || kernel_info::command_line().map_err(|error| error.to_string());
    let image = of().and_then(|status| os_image::rows(status, &command_line()?));
    publisher.publish(&os_image::TYPE, image);
    publisher.publish(&security_state::TYPE, of().map(security_state::rows));
    publisher.publish(&slot::TYPE, of().and_then(slot::rows));
    publisher.publish(&update::TYPE, of().map(update::rows));
    publisher.publish(&process::TYPE, of().map(process::rows));
    publisher.publish(&diagnostic::TYPE, of().map(diagnostic::rows));
    publisher.publish(&cni::TYPE, of().and_then(cni::rows));
    publisher.publish(&bpf_program::TYPE, of().and_then(bpf_program::rows));
    publisher.publish(&runtime_client::TYPE, of().and_then(runtime_client::rows));
    publisher.publish(&storage_driver::TYPE, of().and_then(storage_driver::rows));
    publisher.publish(&node_address::TYPE, of().map(node_address::rows));
}

//! Clients that reach the node by its link-local address, when the network has given it no other.

use crate::remote::RemoteOsd;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::lookup_host;

/// A client and a node, each in a network namespace of its own, which end with the test.
struct Link {
    folder: TempDir,
    near: Child,
}

impl Link {
    fn make() -> Link {
        let folder = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/state/link_local.sh");
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "bash", script]).arg(folder.path());
        let near = unshare.process_group(0).spawn();
        let near = near.expect("`unshare` of util-linux is not installed");
        let mut link = Link { folder, near };
        while !link.folder.path().join("ready").exists() {
            assert!(link.near.try_wait().unwrap().is_none(), "link_local.sh has failed");
            std::thread::sleep(Duration::from_millis(10));
        }
        link
    }

    /// The line in this file of the folder.
    fn line(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap().trim().to_owned()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Both fail only if the script has ended: the test has failed already.
        let _ = kill_process_group(Pid::from_child(&self.near), Signal::KILL);
        let _ = self.near.wait();
    }
}

/// Moves this thread, and the programs that it starts, to the network of a process.
fn enter_network_of(process: &str) {
    let namespace = File::open(format!("/proc/{process}/ns/net")).unwrap();
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

#[test]
fn a_client_reaches_the_node_by_its_address_on_the_link() {
    let thread = std::thread::spawn(|| {
        let link = Link::make();
        enter_network_of(&link.line("far"));
        let mut node = RemoteOsd::start_at("[::]:0", &[]);
        enter_network_of(&link.near.id().to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (port, alice) = (node.address.port(), node.identity("alice", "reader"));
            // As `osctl` does for `[fe80::1%near]:50000`.
            let host = format!("{}%near", link.line("address"));
            node.address = lookup_host((host.as_str(), port)).await.unwrap().next().unwrap();
            assert!(node.address.ip().to_string().starts_with("fe80::"), "{}", node.address);
            assert!(node.lets_in(&alice).await);
            node.recorded("connection: reader \"alice\" from [fe80::", 1).await;
        });
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

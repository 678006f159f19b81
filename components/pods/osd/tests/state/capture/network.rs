//! `osd inspect` in a network of its own, and what a capture there has.

use crate::osd::channel;
use osbuild_cosi::v1::{CaptureResponse, CapturedPacket};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;
use tonic::{Status, Streaming};

/// How long a packet may take from the link to the test.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The network, which ends with the test.
pub struct Network {
    folder: TempDir,
    child: Child,
}

/// Runs a test in a network of its own: a thread of it, and the programs that it starts.
pub fn inside(test: impl AsyncFnOnce(Network) + Send + 'static) {
    let thread = std::thread::spawn(|| {
        let network = Network::start();
        let namespace = File::open(format!("/proc/{}/ns/net", network.child.id())).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            channel(Path::new(&network.socket())).await;
            test(network).await;
        });
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

impl Network {
    fn start() -> Network {
        let folder = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/state/capture/network.sh");
        let child = Command::new("unshare")
            .args(["--net", "bash", script])
            .arg(folder.path())
            .env("OSD", env!("CARGO_BIN_EXE_osd"))
            .process_group(0)
            .spawn()
            .expect("`unshare` of util-linux is not installed");
        let mut network = Network { folder, child };
        while !network.folder.path().join("ready").exists() {
            assert!(network.child.try_wait().unwrap().is_none(), "network.sh has failed");
            std::thread::sleep(Duration::from_millis(10));
        }
        network
    }

    /// The socket of `osd inspect`.
    pub fn socket(&self) -> String {
        self.folder.path().join("socket").display().to_string()
    }

    /// The most memory that `osd inspect` has used, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// The output of tcpdump for the captured packets, in lines.
    pub fn shown(&self, capture: &Capture) -> Vec<String> {
        let file: PathBuf = self.folder.path().join("packets.pcap");
        fs::write(&file, capture.pcap()).unwrap();
        let mut tcpdump = Command::new("tcpdump");
        let output = tcpdump.args(["-nn", "-e", "-r"]).arg(&file).output();
        let output = output.expect("tcpdump is not installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        kill_process_group(group, Signal::KILL).unwrap();
        self.child.wait().unwrap();
    }
}

/// Runs a program, which must succeed.
pub fn run(words: &[&str]) {
    assert!(Command::new(words[0]).args(&words[1..]).status().unwrap().success(), "{words:?}");
}

/// A capture, with the packets received so far.
pub struct Capture {
    stream: Streaming<CaptureResponse>,
    pub link_type: u32,
    pub packets: Vec<CapturedPacket>,
    pub captured: u64,
    pub dropped: u64,
}

impl Capture {
    /// A capture that has begun.
    pub async fn of(mut stream: Streaming<CaptureResponse>) -> Result<Capture, Status> {
        let first = timeout(TIMEOUT, stream.message()).await.unwrap()?.unwrap();
        assert!(first.packets.is_empty() && first.links.iter().any(|link| link.name == "near"));
        let link_type = first.link_type;
        Ok(Capture { stream, link_type, packets: Vec::new(), captured: 0, dropped: 0 })
    }

    /// Reads a message. Returns whether there was one.
    pub async fn next(&mut self) -> Result<bool, Status> {
        let message =
            timeout(TIMEOUT, self.stream.message()).await.expect("there is no message")?;
        let Some(message) = message else { return Ok(false) };
        (self.captured, self.dropped) = (message.captured, message.dropped);
        self.packets.extend(message.packets);
        Ok(true)
    }

    /// Reads until there are so many packets.
    pub async fn until(&mut self, count: usize) {
        while self.packets.len() < count {
            assert!(self.next().await.unwrap(), "it ends after {} packets", self.packets.len());
        }
    }

    /// Reads until it ends.
    pub async fn until_end(&mut self) {
        while self.next().await.unwrap() {}
    }

    /// A file of pcap, with times in nanoseconds.
    fn pcap(&self) -> Vec<u8> {
        let mut file = Vec::new();
        for number in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, self.link_type] {
            file.extend(u32::to_le_bytes(number));
        }
        for packet in &self.packets {
            let (seconds, rest) =
                (packet.time_nanoseconds / 1_000_000_000, packet.time_nanoseconds % 1_000_000_000);
            let kept = packet.data.len() as u32;
            for number in [seconds as u32, rest as u32, kept, packet.length] {
                file.extend(u32::to_le_bytes(number));
            }
            file.extend(&packet.data);
        }
        file
    }
}

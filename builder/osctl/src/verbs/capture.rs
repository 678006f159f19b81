//! `osctl capture`: packets of a link of the node.

use crate::capture::pcap;
use crate::capture::summary::Summary;
use crate::cli::{Capture, Seconds};
use crate::connection::Connection;
use crate::error::{Error, Result, printable};
use crate::stderr;
use jiff::tz::TimeZone;
use osbuild_cosi::v1::{CaptureRequest, CaptureResponse, CapturedPacket};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use tokio::signal::ctrl_c;
use tonic::Streaming;

/// The name of all links together.
const ALL: &str = "any";

/// Where the packets go.
enum Target {
    /// A file of pcap.
    File(PathBuf),
    /// stdout, as a file of pcap.
    Stdout,
    /// stdout, as a line for each packet.
    Lines,
}

/// A target, open for writing.
enum Sink {
    File(File),
    Stdout,
    Lines(Summary),
}

/// Captures packets until the user interrupts it, and then prints how many there were.
///
/// # Errors
/// The node refuses it, or the packets cannot be written.
pub async fn run(connection: &Connection, capture: Capture) -> Result<()> {
    let target = target(capture.output.as_deref())?;
    let snap_length = capture.snaplen;
    let mut messages = connection.inspect().capture(request(capture)).await?.into_inner();
    let Some(first) = messages.message().await? else {
        return Err(Error::failed("the node has sent nothing"));
    };
    let mut sink = Sink::open(target, &first, snap_length)?;
    let (mut captured, mut dropped) = (0, 0);
    let end = receive(&mut messages, async |message| {
        (captured, dropped) = (message.captured, message.dropped);
        sink.write(&message.packets)
    })
    .await;
    let packets = if captured == 1 { "packet" } else { "packets" };
    stderr::print_line(format_args!("{captured} {packets} captured, {dropped} dropped"));
    end
}

/// Takes the messages until there are no more, the user interrupts it, or nobody reads stdout.
async fn receive(
    messages: &mut Streaming<CaptureResponse>,
    mut take: impl AsyncFnMut(CaptureResponse) -> io::Result<()>,
) -> Result<()> {
    let mut interrupted = pin!(ctrl_c());
    loop {
        let message = tokio::select! {
            biased;
            _ = &mut interrupted => return Ok(()),
            message = messages.message() => message?,
        };
        let Some(message) = message else { return Ok(()) };
        match take(message).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(Error::failed("cannot write packets").caused_by(&error)),
        }
    }
}

fn request(capture: Capture) -> CaptureRequest {
    let Capture { link, filter, count, duration, snaplen, promiscuous, own_connection, .. } =
        capture;
    CaptureRequest {
        link: if link == ALL { String::new() } else { link },
        filter: filter.join(" "),
        snap_length: snaplen,
        count: count.unwrap_or(0),
        milliseconds: duration.map_or(0, |Seconds(seconds)| u64::from(seconds) * 1000),
        promiscuous,
        own_connection,
    }
}

fn target(output: Option<&Path>) -> Result<Target> {
    let is_terminal = io::stdout().is_terminal();
    match output {
        None if is_terminal => Ok(Target::Lines),
        None => Ok(Target::Stdout),
        Some(path) if path != Path::new("-") => Ok(Target::File(path.to_owned())),
        Some(_) if is_terminal => Err(Error::usage("packets are no text for a terminal")
            .hint("write `-o FILE`, or append `| tcpdump -r -`")),
        Some(_) => Ok(Target::Stdout),
    }
}

impl Sink {
    /// Begins to write once the node has begun to capture, so a wrong filter costs no file.
    fn open(target: Target, first: &CaptureResponse, snap_length: u32) -> Result<Sink> {
        let mut sink = match target {
            Target::Lines => {
                let links = first.links.iter().cloned().map(|mut link| {
                    link.name = printable(&link.name);
                    link
                });
                let summary = Summary::new(first.link_type, links.collect(), TimeZone::system());
                return Ok(Sink::Lines(summary));
            }
            Target::Stdout => Sink::Stdout,
            Target::File(path) => {
                let file = open(&path).map_err(|error| cannot_write(&path, &error))?;
                Sink::File(file)
            }
        };
        match sink.write_bytes(&pcap::header(first.link_type, snap_length)) {
            Ok(()) => Ok(sink),
            Err(error) => Err(Error::failed("cannot write packets").caused_by(&error)),
        }
    }

    /// Writes whole packets, so that what is there can be read at any time.
    fn write(&mut self, packets: &[CapturedPacket]) -> io::Result<()> {
        let bytes: Vec<u8> = match self {
            Sink::Lines(summary) => {
                packets.iter().map(|packet| summary.line(packet)).collect::<String>().into_bytes()
            }
            _ => packets.iter().flat_map(pcap::record).collect(),
        };
        self.write_bytes(&bytes)
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::File(file) => file.write_all(bytes),
            Sink::Stdout | Sink::Lines(_) => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes).and_then(|()| stdout.flush())
            }
        }
    }
}

/// Opens an empty file that its owner alone may read, as packets may have secrets in them. What is
/// no file, such as a pipe, is as it is.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // The length of a file that is not ours to change has to stay.
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path)?;
    let found = file.metadata()?;
    if found.is_file() {
        let named = fs::symlink_metadata(path)?;
        if (named.dev(), named.ino()) != (found.dev(), found.ino()) {
            return Err(io::Error::other("it is a link to a file"));
        }
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(0)?;
    }
    Ok(file)
}

fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::failed(format!("cannot write `{}`", path.display())).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn packets_are_for_the_owner_of_the_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [shared, link] = ["shared", "link"].map(|name| folder.path().join(name));
        fs::write(&shared, "of before").unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o644)).unwrap();
        symlink(&shared, &link).unwrap();
        assert!(open(&link).unwrap_err().to_string().contains("link"));
        assert_eq!(fs::read_to_string(&shared).unwrap(), "of before");
        open(&shared).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&shared).unwrap(), "new");
        for path in [shared, folder.path().join("other")] {
            open(&path).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        }
        open(Path::new("/dev/null")).unwrap();
    }
}

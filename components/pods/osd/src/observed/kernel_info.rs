//! `KernelInfos.osbuild`: the kernel that runs.

use super::ObservedType;
use super::rows::Rows;
use crate::settings::{NODE, column, names};
use osbuild_cosi::v1::KernelInfoSpec;
use prost_types::Timestamp;
use rustix::system::uname;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind};

pub const TYPE: ObservedType = ObservedType {
    names: names("KernelInfos", "KernelInfo"),
    columns: &[
        column("Release", "{.release}"),
        column("Architecture", "{.architecture}"),
        column("Boot time", "{.bootTime}"),
    ],
    max_count: 1,
};

/// The command line.
pub const COMMAND_LINE: &str = "/proc/cmdline";
/// The file with the line `btime`: the time of the boot, in seconds since 1970.
const STATISTICS: &str = "/proc/stat";

/// Reads what the kernel says of itself.
pub fn read() -> io::Result<Rows<KernelInfoSpec>> {
    let (kernel, text) = (uname(), |text: &CStr| text.to_string_lossy().into_owned());
    let spec = KernelInfoSpec {
        release: text(kernel.release()),
        version: text(kernel.version()),
        architecture: text(kernel.machine()),
        command_line: command_line()?,
        boot_time: boot_time(BufReader::new(File::open(STATISTICS)?))?,
    };
    let mut rows = Rows::at_most(TYPE.max_count);
    rows.insert(0, NODE.to_owned(), spec);
    Ok(rows)
}

/// The command line. It need not be UTF-8.
pub fn command_line() -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(COMMAND_LINE)?).trim_end().to_owned())
}

fn boot_time(statistics: impl BufRead) -> io::Result<String> {
    for line in statistics.lines() {
        if let Some(seconds) = line?.strip_prefix("btime ") {
            let seconds = seconds.parse().map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
            return Ok(Timestamp { seconds, nanos: 0 }.to_string());
        }
    }
    Err(io::Error::new(ErrorKind::InvalidData, "/proc/stat has no line `btime`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_boot_is_a_line_among_others() {
        let text = "cpu 1 2\nctxt 5\nbtime 1790000000\nprocesses 7\n";
        assert_eq!(boot_time(text.as_bytes()).unwrap(), "2026-09-21T14:13:20Z");
        assert!(boot_time(&b"btime soon\n"[..]).is_err());
        assert!(boot_time(&b"cpu 1 2\n"[..]).is_err());
    }

    #[test]
    fn the_kernel_of_this_machine_is_read() {
        let spec = &read().unwrap().into_specs()[NODE];
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(spec.release, release.trim_end());
    }
}

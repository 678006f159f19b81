//! How much the node uses of its processors, memory, disk and network.

use osbuild_cosi::v1::{FileSystemUsage, GetUsageResponse, LinkUsage, Pressure};
use procfs::net::{DeviceStatus, InterfaceDeviceStatus};
use procfs::prelude::{FromRead, FromReadSI};
use procfs::{
    CpuPressure, IoPressure, KernelStats, LoadAverage, Meminfo, MemoryPressure, PressureRecord,
    current_system_info,
};
use rustix::fs::statvfs;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Reads the counters of now from the file system `processes` (proc(5)). `log_folder` is on DATA,
/// whose use it shows. The links are those of this process, which has the network of the node.
pub fn read(processes: &Path, log_folder: &Path) -> io::Result<GetUsageResponse> {
    let file = |name: &str| processes.join(name);
    let error = io::Error::other;
    let stats = KernelStats::from_file(file("stat"), current_system_info()).map_err(error)?;
    let load = LoadAverage::from_file(file("loadavg")).map_err(error)?;
    let memory = Meminfo::from_file(file("meminfo")).map_err(error)?;
    let links = InterfaceDeviceStatus::from_file(file("self/net/dev")).map_err(error)?;
    let time = &stats.total;
    let idle = time.idle.saturating_add(time.iowait.unwrap_or(0));
    // `user` and `nice` include the time of guests.
    let busy = [time.user, time.nice, time.system]
        .into_iter()
        .chain([time.irq, time.softirq, time.steal].map(|ticks| ticks.unwrap_or(0)))
        .fold(0, u64::saturating_add);
    let milliseconds = |ticks: u64| ticks.saturating_mul(1000) / procfs::ticks_per_second().max(1);
    Ok(GetUsageResponse {
        read_milliseconds: milliseconds_since_boot(),
        processors: u32::try_from(stats.cpu_time.len()).unwrap_or(u32::MAX),
        busy_milliseconds: milliseconds(busy),
        idle_milliseconds: milliseconds(idle),
        load_1_minute: decimal(load.one),
        load_5_minutes: decimal(load.five),
        load_15_minutes: decimal(load.fifteen),
        memory_bytes: memory.mem_total,
        available_memory_bytes: memory.mem_available.unwrap_or(memory.mem_free),
        pressures: pressures(processes),
        data: Some(file_system(log_folder)?),
        links: sorted(links),
    })
}

fn milliseconds_since_boot() -> u64 {
    let now = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// The number with the two decimals that the kernel prints, which a wider type would not keep.
fn decimal(number: f32) -> f64 {
    (f64::from(number) * 100.0).round() / 100.0
}

/// The pressures; none if the kernel does not measure them.
fn pressures(processes: &Path) -> Vec<Pressure> {
    let file = |name: &str| processes.join("pressure").join(name);
    let records = [
        ("processor", CpuPressure::from_file(file("cpu")).map(|found| found.some)),
        ("memory", MemoryPressure::from_file(file("memory")).map(|found| found.some)),
        ("disk", IoPressure::from_file(file("io")).map(|found| found.some)),
    ];
    let pressures = records.into_iter().filter_map(|(resource, record)| {
        let PressureRecord { avg10, avg60, avg300, .. } = record.ok()?;
        Some(Pressure {
            resource: resource.to_owned(),
            percent_10_seconds: decimal(avg10),
            percent_60_seconds: decimal(avg60),
            percent_300_seconds: decimal(avg300),
        })
    });
    pressures.collect()
}

fn file_system(folder: &Path) -> io::Result<FileSystemUsage> {
    let found = statvfs(folder)?;
    Ok(FileSystemUsage {
        bytes: found.f_blocks.saturating_mul(found.f_frsize),
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        inodes: found.f_files,
        free_inodes: found.f_favail,
    })
}

fn sorted(InterfaceDeviceStatus(links): InterfaceDeviceStatus) -> Vec<LinkUsage> {
    let mut links: Vec<LinkUsage> = links.into_values().map(link).collect();
    links.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    links
}

fn link(status: DeviceStatus) -> LinkUsage {
    LinkUsage {
        received_bytes: status.recv_bytes,
        sent_bytes: status.sent_bytes,
        errors: status.recv_errs.saturating_add(status.sent_errs),
        dropped: status.recv_drop.saturating_add(status.sent_drop),
        name: status.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Instant;

    fn usage() -> GetUsageResponse {
        read(Path::new("/proc"), tempfile::tempdir().unwrap().path()).unwrap()
    }

    #[test]
    fn the_counters_grow_with_what_the_machine_does() {
        let (before, began) = (usage(), Instant::now());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[0; 10_000], socket.local_addr().unwrap()).unwrap();
        while began.elapsed() < Duration::from_millis(100) {
            std::hint::black_box(began);
        }
        let after = usage();
        assert!(after.busy_milliseconds > before.busy_milliseconds, "{after:?}");
        let passed = after.read_milliseconds - before.read_milliseconds;
        assert!((100..60_000).contains(&passed), "{passed}");
        let sent = |usage: &GetUsageResponse| {
            usage.links.iter().find(|link| link.name == "lo").unwrap().sent_bytes
        };
        assert!(sent(&after) >= sent(&before) + 10_000, "{after:?}");
    }

    #[test]
    fn what_is_free_is_a_part_of_the_whole() {
        let usage = usage();
        assert!(usage.processors > 0);
        assert!((1..usage.memory_bytes).contains(&usage.available_memory_bytes), "{usage:?}");
        let data = usage.data.unwrap();
        assert!((1..data.bytes).contains(&data.free_bytes), "{data:?}");
        assert!(data.free_inodes <= data.inodes, "{data:?}");
    }

    #[test]
    fn a_kernel_without_pressures_has_none() {
        assert_eq!(pressures(tempfile::tempdir().unwrap().path()), []);
    }

    #[test]
    fn decimals_are_those_that_the_kernel_prints() {
        assert_eq!(decimal("0.57".parse().unwrap()), 0.57);
    }
}

//! Facts about what root can do to the running kernel. Each is tried; its number is the errno, or 0
//! for success.

use crate::sys::CALLS;
use rustix::fs::{FileType, Mode, OFlags, makedev, mknodat, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The devices for memory and ports, and `null` as the control, which anybody may open
/// (admin-guide/devices.txt).
const DEVICES: [(&str, u32); 3] = [("mem", 1), ("port", 4), ("null", 3)];

/// Their major number.
const MEMORY_DEVICES: u32 = 1;

/// The offset of a byte in a PCI device's configuration space that the device stores without using
/// it: the interrupt line.
const INTERRUPT_LINE: u64 = 0x3c;

/// The offset of the first byte of that space that only root may read.
const FOR_ROOT: u64 = 0x40;

/// `rights EFFECTIVE LAST-CAPABILITY SECCOMP` of this program, `lockdown LEVELS` with the active
/// level in brackets, `call NAME ERRNO`, `device NAME ERRNO`, `pci read ERRNO`, `pci write ERRNO`,
/// and `kcore` if that file exists.
pub fn facts(host: &Path) -> io::Result<Vec<String>> {
    let mut facts = vec![rights()?, format!("lockdown {}", lockdown()?.trim())];
    facts.extend(CALLS.map(|(name, call)| format!("call {name} {}", errno(call()))));
    facts.extend(
        DEVICES.map(|(name, minor)| format!("device {name} {}", errno(open_device(host, minor)))),
    );
    let device = fs::read_dir(host.join("sys/bus/pci/devices"))?
        .next()
        .ok_or_else(|| io::Error::other("no PCI device"))??;
    let config = File::options().read(true).write(true).open(device.path().join("config"))?;
    let mut byte = [0];
    facts.push(format!("pci read {}", errno(config.read_exact_at(&mut byte, FOR_ROOT))));
    config.read_exact_at(&mut byte, INTERRUPT_LINE)?;
    facts.push(format!("pci write {}", errno(config.write_all_at(&byte, INTERRUPT_LINE))));
    facts.extend(Path::new("/proc/kcore").exists().then(|| "kcore".to_owned()));
    Ok(facts)
}

fn errno(result: io::Result<()>) -> i32 {
    result.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0)
}

fn rights() -> io::Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
    };
    let last = fs::read_to_string("/proc/sys/kernel/cap_last_cap")?;
    Ok(format!("rights {} {} {}", field("CapEff:"), last.trim(), field("Seccomp:")))
}

/// The kernel's lockdown levels, from a private mount of securityfs.
fn lockdown() -> io::Result<String> {
    let securityfs = fsopen("securityfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&securityfs)?;
    let mount =
        fsmount(&securityfs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    let mut text = String::new();
    File::from(openat(mount, "lockdown", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Opens a device by its number, because it may not have a device file.
fn open_device(host: &Path, minor: u32) -> io::Result<()> {
    let path = host.join("dev").join(format!("probe-{minor}"));
    mknodat(
        rustix::fs::CWD,
        &path,
        FileType::CharacterDevice,
        Mode::RUSR,
        makedev(MEMORY_DEVICES, minor),
    )?;
    let opened = File::open(&path).map(drop);
    fs::remove_file(&path)?;
    opened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_reported_by_its_errno() {
        assert_eq!(errno(Err(rustix::io::Errno::NOSYS.into())), 38);
        assert_eq!(errno(Ok(())), 0);
        assert_eq!(errno(Err(io::Error::other("no such thing"))), -1);
    }
}

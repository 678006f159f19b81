//! Facts about what root can do to the running kernel, each tried. The number behind it is that of
//! the error, 0 if there was none.

use crate::sys::CALLS;
use rustix::fs::{FileType, Mode, OFlags, makedev, mknodat, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Memory and ports as files, and one that everybody may open: a control (admin-guide/devices.txt).
const DEVICES: [(&str, u32); 3] = [("mem", 1), ("port", 4), ("null", 3)];

/// The major number of all of them.
const MEMORY_DEVICES: u32 = 1;

/// A byte of a PCI device that it stores for whoever writes it, and does nothing with: the
/// interrupt line.
const INTERRUPT_LINE: u64 = 0x3c;

/// The first byte of that configuration that is for root alone.
const FOR_ROOT: u64 = 0x40;

/// `rights EFFECTIVE LAST-CAPABILITY SECCOMP` of this program, `lockdown LEVELS` with brackets
/// around the one that holds, `call NAME ERROR`, `device NAME ERROR`, `pci read` and `pci write`
/// with `ERROR`, and `kcore` if there is such a file.
pub fn facts(host: &Path) -> io::Result<Vec<String>> {
    let mut facts = vec![rights()?, format!("lockdown {}", lockdown()?.trim())];
    facts.extend(CALLS.map(|(name, call)| format!("call {name} {}", number(call()))));
    facts.extend(
        DEVICES.map(|(name, minor)| format!("device {name} {}", number(open_device(host, minor)))),
    );
    let device = fs::read_dir(host.join("sys/bus/pci/devices"))?
        .next()
        .ok_or_else(|| io::Error::other("no PCI device"))??;
    let config = File::options().read(true).write(true).open(device.path().join("config"))?;
    let mut byte = [0];
    facts.push(format!("pci read {}", number(config.read_exact_at(&mut byte, FOR_ROOT))));
    config.read_exact_at(&mut byte, INTERRUPT_LINE)?;
    facts.push(format!("pci write {}", number(config.write_all_at(&byte, INTERRUPT_LINE))));
    facts.extend(Path::new("/proc/kcore").exists().then(|| "kcore".to_owned()));
    Ok(facts)
}

fn number(tried: io::Result<()>) -> i32 {
    tried.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0)
}

fn rights() -> io::Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
    };
    let last = fs::read_to_string("/proc/sys/kernel/cap_last_cap")?;
    Ok(format!("rights {} {} {}", field("CapEff:"), last.trim(), field("Seccomp:")))
}

/// The kernel's word on lockdown, from a mount of securityfs that nobody else sees.
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

/// Opens a device by its number alone: it may have no name anywhere.
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
    fn an_error_is_told_by_its_number() {
        assert_eq!(number(Err(rustix::io::Errno::NOSYS.into())), 38);
        assert_eq!(number(Ok(())), 0);
        assert_eq!(number(Err(io::Error::other("no such thing"))), -1);
    }
}

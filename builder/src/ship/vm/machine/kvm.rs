//! Whether this user can open `/dev/kvm`. Only the accelerator's payload shows whether it works.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The device.
pub(super) const DEVICE: &str = "/dev/kvm";

/// The result of opening the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// There is no device: the machine lacks the feature, or the container does not have the
    /// device.
    Absent,
    /// It cannot be opened.
    Refused { reason: String, hint: Option<String> },
    /// It can be opened for reading and writing.
    Open,
}

/// Opens `device` as QEMU would, and closes it again.
pub(super) fn access(device: &Path) -> Access {
    let error = match File::options().read(true).write(true).open(device) {
        Ok(_) => return Access::Open,
        Err(error) => error,
    };
    match (error.kind(), fs::metadata(device)) {
        (ErrorKind::NotFound, _) => Access::Absent,
        (ErrorKind::PermissionDenied, Ok(found)) => denied(device, &found),
        _ => Access::Refused { reason: format!("it cannot be opened: {error}"), hint: None },
    }
}

/// Why this user may not open it, with a hint. Usually the user is not in the group that owns the
/// device on Debian and Ubuntu.
fn denied(device: &Path, found: &Metadata) -> Access {
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let user = user().unwrap_or_default();
    let file = device.display();
    let group_may = found.mode() & 0o060 == 0o060 && found.gid() != 0;
    let (reason, hint) = match group(&groups, found.gid()).filter(|_| group_may) {
        Some((name, members)) if members.contains(&user.as_str()) => (
            format!("this session began before the user joined group `{name}`"),
            Some(format!("newgrp {name}    # or log in again")),
        ),
        Some((name, _)) => (
            format!("this user is not in group `{name}`"),
            Some(format!("sudo adduser $USER {name} && newgrp {name}")),
        ),
        None => (
            format!("its mode {:o} does not allow ordinary users", found.mode() & 0o777),
            Some(format!("sudo chgrp kvm {file} && sudo chmod 660 {file}")),
        ),
    };
    Access::Refused { reason, hint }
}

/// The name of the user that this process runs as.
fn user() -> io::Result<String> {
    let id = rustix::process::getuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd")?;
    let found = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.get(2) == Some(&id.as_str()));
    found.map(|fields| fields[0].to_owned()).ok_or_else(|| ErrorKind::NotFound.into())
}

/// Finds the name and the members of the group with this ID in the text of group(5).
fn group(text: &str, id: u32) -> Option<(&str, Vec<&str>)> {
    let id = id.to_string();
    let lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = lines.into_iter().find(|fields| fields.get(2) == Some(&id.as_str()))?;
    Some((fields[0], fields.get(3).map(|members| members.split(',').collect()).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    /// Opens a device of this mode and group as an unprivileged user, on a thread that drops its
    /// file permissions.
    fn found(mode: u32, group: u32) -> Access {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let device = dir.path().join("kvm");
        fs::write(&device, "").unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&device, None, Some(group)).unwrap();
        }
        fs::set_permissions(&device, fs::Permissions::from_mode(mode)).unwrap();
        let look = || {
            // SAFETY: the calls change only this thread, which ends here.
            unsafe { libc::setfsuid(65534) };
            unsafe { libc::setfsgid(65534) };
            access(&device)
        };
        std::thread::scope(|scope| scope.spawn(look).join().unwrap())
    }

    #[test]
    fn a_device_that_is_not_there_is_absent() {
        assert_eq!(access(Path::new("/dev/no-such-device")), Access::Absent);
    }

    #[test]
    fn a_user_outside_the_group_gets_a_hint_to_join_it() {
        let groups = fs::read_to_string("/etc/group").unwrap();
        let (name, id) = groups
            .lines()
            .find_map(|line| {
                let fields: Vec<&str> = line.split(':').collect();
                (fields[2] != "0" && fields[3].is_empty())
                    .then(|| (fields[0].to_owned(), fields[2].parse().unwrap()))
            })
            .unwrap();
        if rustix::process::geteuid().is_root() {
            let hint = Some(format!("sudo adduser $USER {name} && newgrp {name}"));
            assert_eq!(
                found(0o660, id),
                Access::Refused { reason: format!("this user is not in group `{name}`"), hint }
            );
        }
        assert_eq!(found(0o666, 0), Access::Open);
    }

    #[test]
    fn a_device_without_a_group_gets_a_hint_to_change_its_group() {
        let Access::Refused { reason, hint } = found(0o000, 0) else { panic!("it was opened") };
        assert_eq!(reason, "its mode 0 does not allow ordinary users");
        assert!(hint.unwrap().starts_with("sudo chgrp kvm "));
    }

    #[test]
    fn a_folder_is_refused_with_the_systems_error() {
        let Access::Refused { reason, hint: None } = access(Path::new("/")) else {
            panic!("a folder was opened")
        };
        assert!(reason.starts_with("it cannot be opened: "), "{reason}");
    }

    #[test]
    fn a_group_is_found_by_its_id() {
        let text = "root:x:0:\nkvm:x:106:ann,bob\n";
        assert_eq!(group(text, 106), Some(("kvm", vec!["ann", "bob"])));
        assert_eq!(group(text, 10), None);
    }
}

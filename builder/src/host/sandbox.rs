//! Whether bubblewrap can make the sandbox that each step of a build runs in. It is found by making
//! one, and where that fails the system's settings say why.

use super::tool::{Lack, find_program};
use crate::engine::rules::ISOLATION;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// What of this system decides whether namespaces can be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct System {
    /// AppArmor lets only programs with a profile of their own make user namespaces (Ubuntu since
    /// 23.10).
    apparmor_restricts: bool,
    /// A setting of Debian's kernels forbids it to ordinary users.
    forbidden: bool,
    /// How many user namespaces there may be is zero.
    none_allowed: bool,
    /// What this process is inside of.
    container: Option<Container>,
}

/// What runs this process in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Podman,
    Docker,
    Other,
}

/// What keeps bubblewrap from making a sandbox; nothing if it can, or is not installed, which is
/// said elsewhere.
pub(super) fn lack() -> Option<Lack> {
    let program = find_program("bwrap")?;
    let mut command = Command::new(program);
    command.args(ISOLATION).args([
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--tmpfs",
        "/tmp",
    ]);
    let output = match command.args(["--", "/bin/sh", "-c", ":"]).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => return None,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Some(explain(output, System::look()))
}

/// Why bubblewrap, which said this, cannot make a sandbox on such a system, and what to do.
fn explain(said: String, system: System) -> Lack {
    let (why, remedy) = match system {
        // The limit on namespaces counts for root, and in a container, too.
        System { none_allowed: true, .. } => (
            "the system allows no user namespace",
            "sudo sysctl -w user.max_user_namespaces=15000".to_owned(),
        ),
        System { container: Some(container), .. } => {
            ("this container lacks the rights for it", container.remedy())
        }
        System { apparmor_restricts: true, .. } => {
            ("AppArmor forbids user namespaces to programs without a profile", allow_bubblewrap())
        }
        System { forbidden: true, .. } => (
            "the system forbids user namespaces to ordinary users",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1".to_owned(),
        ),
        _ => ("the system refuses it", "see builder/docs/hosts.md for what it needs".to_owned()),
    };
    Lack {
        said: format!("`bwrap` cannot make a sandbox: {why}"),
        cause: Some(said).filter(|said| !said.is_empty()),
        remedy,
    }
}

/// The command that gives bubblewrap a profile, as Ubuntu does it for browsers: confined by
/// nothing, and allowed user namespaces.
fn allow_bubblewrap() -> String {
    let profile = "abi <abi/4.0>, include <tunables/global> profile bwrap /usr/bin/bwrap \
                   flags=(unconfined) { userns, }";
    let file = "/etc/apparmor.d/bwrap";
    format!("echo '{profile}' | sudo tee {file} && sudo apparmor_parser -r {file}")
}

impl System {
    fn look() -> Self {
        let number = |name: &str| {
            fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?.trim().parse::<u64>().ok()
        };
        System {
            apparmor_restricts: number("kernel/apparmor_restrict_unprivileged_userns") == Some(1),
            forbidden: number("kernel/unprivileged_userns_clone") == Some(0),
            none_allowed: number("user/max_user_namespaces") == Some(0),
            container: Container::around(std::env::var_os("container").as_deref()),
        }
    }
}

impl Container {
    /// The container around this process, by the marks that its makers leave; `variable` is what
    /// the environment calls it.
    fn around(variable: Option<&OsStr>) -> Option<Self> {
        match variable.and_then(OsStr::to_str) {
            _ if Path::new("/run/.containerenv").exists() => Some(Container::Podman),
            _ if Path::new("/.dockerenv").exists() => Some(Container::Docker),
            None | Some("") => None,
            Some("podman") => Some(Container::Podman),
            Some("docker") => Some(Container::Docker),
            Some(_) => Some(Container::Other),
        }
    }

    /// What gives a container the rights. Both filter system calls that make a namespace or name
    /// it, and hide parts of /proc: the kernel makes no new /proc for who cannot see all of the old
    /// one.
    fn remedy(self) -> String {
        match self {
            Container::Podman => {
                "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL …"
                    .to_owned()
            }
            Container::Docker => {
                let options = ["seccomp", "apparmor", "systempaths"]
                    .map(|name| format!("--security-opt {name}=unconfined"));
                format!("docker run {} …", options.join(" "))
            }
            Container::Other => {
                "let the container make user namespaces and mount /proc: builder/docs/hosts.md"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_that_forbids_sandboxes_is_named_with_its_command() {
        let of = |system| explain("bwrap: no".to_owned(), system);
        let ubuntu = of(System { apparmor_restricts: true, ..System::default() });
        assert!(
            ubuntu.said.contains("AppArmor")
                && ubuntu.remedy.ends_with("sudo apparmor_parser -r /etc/apparmor.d/bwrap")
        );
        assert_eq!(ubuntu.cause.as_deref(), Some("bwrap: no"));
        let debian = of(System { forbidden: true, ..System::default() });
        assert_eq!(debian.remedy, "sudo sysctl -w kernel.unprivileged_userns_clone=1");
        let none = of(System {
            none_allowed: true,
            container: Some(Container::Podman),
            ..System::default()
        });
        assert_eq!(none.remedy, "sudo sysctl -w user.max_user_namespaces=15000");
        let container = of(System {
            apparmor_restricts: true,
            container: Some(Container::Docker),
            ..System::default()
        });
        assert!(container.remedy.starts_with("docker run --security-opt seccomp=unconfined "));
    }

    #[test]
    fn a_sandbox_can_be_made_where_the_tests_run() {
        assert_eq!(lack(), None);
    }
}

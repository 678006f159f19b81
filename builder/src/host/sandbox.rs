//! Checks that bubblewrap can make the sandbox of a build step, by making one. If that fails, the
//! system's settings explain it.

use super::lack::Lack;
use super::program::find_program;
use crate::engine::rules::ISOLATION;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The settings of this system that may forbid namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct System {
    /// AppArmor allows user namespaces only for programs with a profile (Ubuntu since 23.10).
    apparmor_restricts: bool,
    /// A setting of Debian's kernels forbids user namespaces for ordinary users.
    forbidden: bool,
    /// The limit of user namespaces is zero.
    none_allowed: bool,
    /// The container around this process.
    container: Option<Container>,
}

/// A container runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Podman,
    Docker,
    Other,
}

/// Why bubblewrap cannot make a sandbox. `None` if it can, or if it is not installed, which has its
/// own check.
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

/// Explains bubblewrap's error on such a system, with a remedy.
fn explain(error: String, system: System) -> Lack {
    let (why, remedy) = match system {
        // The limit also applies to root and in a container.
        System { none_allowed: true, .. } => (
            "the system allows no user namespace",
            "sudo sysctl -w user.max_user_namespaces=15000".to_owned(),
        ),
        System { container: Some(container), .. } => {
            ("this container does not allow it", container.remedy())
        }
        System { apparmor_restricts: true, .. } => {
            ("AppArmor forbids user namespaces for programs without a profile", allow_bubblewrap())
        }
        System { forbidden: true, .. } => (
            "the system forbids user namespaces for ordinary users",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1".to_owned(),
        ),
        _ => ("the system refuses it", "see the requirements in builder/docs/hosts.md".to_owned()),
    };
    Lack {
        problem: format!("`bwrap` cannot make a sandbox: {why}"),
        cause: Some(error).filter(|error| !error.is_empty()),
        remedy,
    }
}

/// The command that gives bubblewrap an unconfined profile with user namespaces, like Ubuntu's for
/// browsers.
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
    /// Detects the container around this process by the files of its runtime, or by the environment
    /// variable `container`.
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

    /// The options that allow sandboxes in a container. Podman and Docker filter the system calls
    /// for namespaces and hide parts of /proc, and the kernel does not mount a new /proc if parts
    /// of the old one are hidden.
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
            ubuntu.problem.contains("AppArmor")
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
    fn this_machine_can_make_a_sandbox() {
        assert_eq!(lack(), None);
    }
}

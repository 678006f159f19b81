//! Installs missing tools with `apt-get`, `rustup` and `pip3`.

use super::lack::Lack;
use super::missing;
use super::program::find_program;
use super::tool::{Remedy, Tool};
use crate::engine::stop;
use crate::error::{Error, Result};
use crate::report::{Outcome, Report};
use std::path::Path;
use std::process::{Command, Stdio};

/// The user's consent to changes of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consent {
    /// Install without asking.
    pub yes: bool,
    /// The network may not be used.
    pub offline: bool,
}

/// Installs the missing ones of `tools`. It lists them, and asks if there is a terminal and no
/// consent. If nothing is missing, this only looks up files.
pub fn set_up(report: &Report, tools: &[Tool], consent: Consent) -> Result<()> {
    let lacks = super::lacks(tools);
    let lacking = tools.iter().zip(lacks).filter_map(|(tool, lack)| Some((tool, lack?)));
    let lacking: Vec<(&Tool, Lack)> = lacking.collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let (lacking, lacks): (Vec<&Tool>, Vec<Lack>) = lacking.into_iter().unzip();
    let commands = commands(&lacking);
    if commands.is_empty() || consent.offline || !may_install(report, &lacking) {
        return Err(missing(lacks));
    }
    for tool in lacking.iter().filter(|tool| !matches!(tool.remedy, Remedy::Words(_))) {
        report.note(format!("`{}` is missing: it {} ({})", tool.name, tool.why, tool.remedy));
    }
    if !consent.yes && report.can_ask() && !report.confirm("install the missing tools?")? {
        return Err(missing(lacks));
    }
    let is_root = rustix::process::geteuid().is_root();
    if report.can_ask() && commands.iter().any(|words| needs_sudo(words, is_root)) {
        ask_for_password()?;
    }
    for command in &commands {
        run(report, command)?;
    }
    let lacks: Vec<Lack> = super::lacks(tools).into_iter().flatten().collect();
    if lacks.is_empty() { Ok(()) } else { Err(missing(lacks)) }
}

/// The commands that install these tools, as words.
fn commands(tools: &[&Tool]) -> Vec<Vec<String>> {
    let packages =
        pick(
            tools,
            |remedy| if let Remedy::Package(package) = remedy { Some(package) } else { None },
        );
    let targets =
        pick(
            tools,
            |remedy| if let Remedy::RustTarget(target) = remedy { Some(target) } else { None },
        );
    let modules =
        pick(tools, |remedy| if let Remedy::Pip(package) = remedy { Some(package) } else { None });
    let words =
        |line: &str, more: Vec<String>| line.split(' ').map(str::to_owned).chain(more).collect();
    let mut commands = Vec::new();
    if !packages.is_empty() {
        commands.push(words("apt-get update", vec![]));
        // A fresh machine updates itself for minutes, and holds dpkg's lock for so long.
        let install = "apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=600";
        commands.push(words(install, packages));
    }
    if !targets.is_empty() {
        commands.push(words("rustup target add", targets));
    }
    if !modules.is_empty() {
        // Debian's pip refuses to install without this flag. Its modules go to `/usr/local`.
        commands.push(words("pip3 install --break-system-packages", modules));
    }
    commands
}

fn pick(tools: &[&Tool], part: impl Fn(&Remedy) -> Option<&String>) -> Vec<String> {
    let mut names: Vec<String> =
        tools.iter().filter_map(|tool| part(&tool.remedy).cloned()).collect();
    names.sort();
    names.dedup();
    names
}

/// Whether the packages can be installed: this needs Debian or a derivative.
fn may_install(report: &Report, tools: &[&Tool]) -> bool {
    let debian = Path::new("/etc/debian_version").exists() && find_program("apt-get").is_some();
    let packages = tools.iter().any(|tool| matches!(tool.remedy, Remedy::Package(_)));
    if packages && !debian {
        report.note(
            "this is not Debian: the packages in the hints may have other names here, and \
             builder/docs/hosts.md has a container",
        );
    }
    debian || !packages
}

/// Whether only root may run the command.
fn needs_sudo(words: &[String], is_root: bool) -> bool {
    words[0] == "apt-get" && !is_root
}

/// Has sudo ask for a password, if `apt-get` needs one, before any step shows its progress: that
/// would overwrite the question. sudo remembers the answer for the commands that follow.
fn ask_for_password() -> Result<()> {
    match password_question().status() {
        Ok(status) if !status.success() => {
            stop::check()?;
            Err(Error::build("`sudo` has refused").hint("run it as root, or install the tools"))
        }
        // The first command explains why there is no sudo.
        _ => Ok(()),
    }
}

/// The command with which sudo asks. It runs `apt-get`, as all that follow do: `sudo -v` wants a
/// password as soon as one of the user's rules does, also if the one of `apt-get` does not.
fn password_question() -> Command {
    let mut command = Command::new("sudo");
    command.args(["apt-get", "--version"]).stdout(Stdio::null());
    command
}

/// Runs one command, `apt-get` as root. If it fails, the error shows the end of its output.
fn run(report: &Report, words: &[String]) -> Result<()> {
    let mut words = words.to_vec();
    if needs_sudo(&words, rustix::process::geteuid().is_root()) {
        words.insert(0, "sudo".to_owned());
    }
    let line = words.join(" ");
    let step = report.step(words[..words.len().min(3)].join(" "));
    step.doing(line.clone());
    // stdin stays the user's.
    let output = Command::new(&words[0])
        .args(&words[1..])
        .env("DEBIAN_FRONTEND", "noninteractive")
        // The same as the flag, for commands that pip runs.
        .env("PIP_BREAK_SYSTEM_PACKAGES", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|child| child.wait_with_output())
        .map_err(|error| {
            Error::build(format!("cannot start `{}`", words[0]))
                .cause(error)
                .hint(format!("as root: {line}"))
        })?;
    if !output.status.success() {
        // Ctrl-C on a terminal also ends the command.
        stop::check()?;
        let text = [output.stdout, output.stderr].concat();
        let lines: Vec<String> =
            String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
        let last = lines[lines.len().saturating_sub(10)..].join("\n  | ");
        return Err(Error::build(format!("`{line}` failed: {}", output.status))
            .cause(last)
            .hint("run it yourself, then run this again"));
    }
    step.done("", None, Outcome::Ran);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Color, Verbosity};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_installer_runs_once_for_all_of_its_packages() {
        let tools = [
            Tool::package("b", "q", ""),
            Tool::rust_target("some-target", ""),
            Tool::package("a", "p", ""),
            Tool::package("b2", "q", ""),
            Tool::other("c", "", "find it"),
        ];
        let lines: Vec<String> = commands(&tools.iter().collect::<Vec<_>>())
            .iter()
            .map(|words| words.join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "apt-get update",
                "apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=600 p q",
                "rustup target add some-target"
            ]
        );
    }

    #[test]
    fn a_user_whose_sudo_runs_apt_get_without_a_password_is_not_asked() {
        let folder = tempfile::tempdir().unwrap();
        let sudo = folder.path().join("sudo");
        let script = "#!/bin/sh\n[ \"$1\" = apt-get ]\n";
        fs::write(&sudo, script).unwrap();
        fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(password_question().env("PATH", folder.path()).status().unwrap().success());
    }

    #[test]
    fn nothing_is_installed_without_the_network() {
        let report = Report::new(Verbosity::Quiet, Color::Never);
        let tools = [Tool::package("no-such-tool", "no-such-package", "is required")];
        let error = set_up(&report, &tools, Consent { yes: true, offline: true }).unwrap_err();
        assert!(error.to_string().contains("apt-get install no-such-package"));
    }

    #[test]
    fn nothing_is_installed_if_nothing_is_missing() {
        let report = Report::new(Verbosity::Quiet, Color::Never);
        set_up(
            &report,
            &[Tool::package("sh", "no-such-package", "")],
            Consent { yes: false, offline: true },
        )
        .unwrap();
    }
}

//! Has the node follow its configuration: makes the control plane once, and changes it when
//! settings have another configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use osbuild_abi::payload;
use osbuild_failure::{Explain, Outcome};

use crate::change::change;
use crate::configuration::Configuration;
use crate::kubeadm::Kubeadm;
use crate::make::{Progress, alone, make};
use crate::replace::replace;
use crate::role::Role;
use crate::version::keeps_minor;
use crate::{routes, setting};

/// kubeadm's configuration, which the node's owner places on DATA.
const CONFIGURATION: &str = "/etc/kubernetes/kubeadm.yaml";
/// The file with kubeadm's configuration if that is another one, in the memory of this pod.
const COMBINED: &str = "/tmp/kubeadm.yaml";
/// This file exists once the control plane is made. It has the configuration of settings with which
/// it is made or was last changed, and is empty if that is the one of the file.
const MADE: &str = "/etc/kubernetes/control-plane-made";
/// The content of that file while a change is under way. An interrupted one is repeated, also when
/// the configuration before it is wanted again.
const CHANGING: &str = "# a change has begun\n";
/// How often to look whether what this program waits for is there.
const INTERVAL: Duration = Duration::from_secs(2);

/// Makes or changes the control plane, unless it is as it shall be. Returns the configuration of
/// settings that it has then.
///
/// # Errors
/// kubeadm fails, or a file cannot be read or written.
pub fn follow(progress: &mut Progress) -> Outcome<Option<String>> {
    let Ok(made) = fs::read_to_string(MADE) else { return follow_first(progress) };
    let wanted = setting::wanted();
    if wanted.as_deref().unwrap_or_default() != made {
        let _alone = alone()?;
        follow_change(wanted.as_deref())?;
        note_made(wanted.as_deref())?;
    }
    Ok(wanted)
}

/// Makes the control plane once there is a configuration.
fn follow_first(progress: &mut Progress) -> Outcome<Option<String>> {
    let name = format!("{CONFIGURATION} on DATA, or a setting");
    let (wanted, configuration) = wait(&name, || {
        let wanted = setting::wanted();
        Ok(read(wanted.as_deref())?.map(|configuration| (wanted, configuration)))
    })?;
    wait("a default route", || Ok(routes::has_default()?.then_some(())))?;
    let _alone = alone()?;
    let combined = configuration.to_make();
    let with = wanted.as_deref().filter(|_| combined.is_some());
    if !Path::new(MADE).exists() {
        let (is_further, of_file) = (configuration.role == Role::Further, file_text());
        let is_wanted = || (is_further || setting::wanted() == wanted) && file_text() == of_file;
        make(&kubeadm(combined.as_deref())?, configuration.role, &is_wanted, progress)?;
        eprintln!("the control plane is made");
        note_made(with)?;
    }
    Ok(with.map(str::to_owned))
}

/// Waits until settings have another configuration than `wanted`, at most for this time if there is
/// one.
pub fn wait_for_change(wanted: Option<&str>, timeout: Option<Duration>) {
    let mut left = timeout;
    while setting::wanted().as_deref() == wanted && left != Some(Duration::ZERO) {
        sleep(INTERVAL.min(left.unwrap_or(INTERVAL)));
        left = left.map(|left| left.saturating_sub(INTERVAL));
    }
}

fn follow_change(wanted: Option<&str>) -> Outcome {
    let configuration = read(wanted)?;
    let configuration = configuration.and_then(|found| Some((found.to_change()?, found)));
    let Some((text, configuration)) = configuration else {
        eprintln!("no other configuration is there, the control plane stays as it is");
        return Ok(());
    };
    let kubeadm = kubeadm(Some(&text))?;
    // Before the change begins: the configuration before it is in effect as long as none has begun.
    keeps_minor(&kubeadm, configuration.version())?;
    note_made(Some(CHANGING))?;
    change(&kubeadm, wanted)?;
    eprintln!("the control plane has its new configuration");
    Ok(())
}

fn read(wanted: Option<&str>) -> Outcome<Option<Configuration>> {
    let configuration = Configuration::read(Path::new(CONFIGURATION), wanted);
    configuration.explain(format_args!("look for {CONFIGURATION}"))
}

/// The text of the owner's file; `None` if it cannot be read.
fn file_text() -> Option<String> {
    fs::read_to_string(CONFIGURATION).ok()
}

/// kubeadm with this configuration, or else with that of the file.
fn kubeadm(text: Option<&str>) -> Outcome<Kubeadm> {
    let configuration = match text {
        Some(text) => {
            let file = PathBuf::from(COMBINED);
            replace(&file, text).explain(format_args!("write {COMBINED}"))?;
            file
        }
        None => PathBuf::from(CONFIGURATION),
    };
    Ok(Kubeadm { program: Path::new(payload::PROGRAMS).join("kubeadm"), configuration })
}

fn note_made(with: Option<&str>) -> Outcome {
    replace(Path::new(MADE), with.unwrap_or_default()).explain(format_args!("write {MADE}"))
}

/// Waits until this is there, and returns it. Prints its name if that takes time.
fn wait<T>(name: &str, find: impl Fn() -> Outcome<Option<T>>) -> Outcome<T> {
    let mut is_first = true;
    loop {
        if let Some(found) = find()? {
            return Ok(found);
        }
        if is_first {
            eprintln!("waits for {name}");
        }
        is_first = false;
        sleep(INTERVAL);
    }
}

//! kubeadm, which the image carries.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use osbuild_failure::{Explain, Failure, Outcome};

/// The phases with which kubeadm makes a control plane. The preflight phase is left out: it checks
/// for programs of the host and systemd, which this node does not have. The kubelet keeps its
/// rotated certificate itself.
pub struct Phases {
    /// They write files below `/etc/kubernetes`. Each keeps certificates and keys that are there.
    pub files: &'static [&'static [&'static str]],
    /// The one after them, which writes the kubelet's configuration.
    pub kubelet: &'static [&'static str],
    /// All others, for which the kubelet must run with that configuration.
    pub rest: &'static [&'static str],
}

/// Those of a cluster's first node. The last ones wait for the API server and make the cluster's
/// first objects.
pub const FIRST: Phases = Phases {
    files: &[
        &["init", "phase", "certs", "all"],
        &["init", "phase", "kubeconfig", "all"],
        &["init", "phase", "etcd", "local"],
        &["init", "phase", "control-plane", "all"],
    ],
    kubelet: &["init", "phase", "kubelet-start"],
    rest: &[
        "init",
        "--skip-phases=preflight,certs,kubeconfig,etcd,control-plane,kubelet-start,\
         kubelet-finalize,show-join-command",
    ],
};

/// Those of a further node. Its API server starts once its etcd is a member of the cluster's, which
/// the last ones see to. `kubelet-wait-bootstrap` reads the kubelet's certificate, which this pod
/// may not: the last phase waits for the Node instead.
pub const FURTHER: Phases = Phases {
    files: &[&["join", "phase", "control-plane-prepare", "all"]],
    kubelet: &["join", "phase", "kubelet-start"],
    rest: &[
        "join",
        "--skip-phases=preflight,control-plane-prepare,kubelet-start,kubelet-wait-bootstrap",
    ],
};

/// The phases with which kubeadm changes a control plane that it has made.
pub struct Changes {
    /// They write the static pods, and refuse a configuration with a mistake.
    pub files: [&'static [&'static str]; 2],
    /// The one that makes the certificate of the API server.
    pub certificate: &'static [&'static str],
    /// The one that waits for the API server, and stores the configuration in the cluster.
    pub rest: &'static [&'static str],
}

/// Those of each node.
pub const CHANGE: Changes = Changes {
    files: [&["init", "phase", "etcd", "local"], &["init", "phase", "control-plane", "all"]],
    certificate: &["init", "phase", "certs", "apiserver"],
    rest: &["init", "phase", "upload-config", "kubeadm"],
};

/// How often to look whether kubeadm shall still run.
const INTERVAL: Duration = Duration::from_millis(200);
/// How kubeadm's line with its failure starts.
const ERROR: &str = "error";

/// kubeadm with a configuration.
pub struct Kubeadm {
    /// The program.
    pub program: PathBuf,
    /// The file with the configuration.
    pub configuration: PathBuf,
}

impl Kubeadm {
    /// Its version, as in `v1.35.8`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn version(&self) -> Outcome<String> {
        let ran = Command::new(&self.program).args(["version", "-o", "short"]).output();
        let ran = ran.explain(format_args!("start {}", self.program.display()))?;
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    }

    /// Runs kubeadm, whose output goes to this program's, and ends it once it `is_wanted` no
    /// longer.
    ///
    /// # Errors
    /// It cannot be started, it reports a failure, or it was ended.
    pub fn run(&self, words: &[&str], is_wanted: &dyn Fn() -> bool) -> Outcome {
        let name = || format!("kubeadm {}", words.join(" "));
        eprintln!("runs {}", name());
        let mut child = Command::new(&self.program)
            .args(words)
            .arg("--config")
            .arg(&self.configuration)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .explain(format_args!("start {}", self.program.display()))?;
        let errors = child.stderr.take().map(|errors| thread::spawn(move || pass_on(errors)));
        let status = wait_while(&mut child, is_wanted).explain("wait for kubeadm")?;
        let error = errors.and_then(|errors| errors.join().ok()).flatten();
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => {
                let reason = error.unwrap_or_else(|| status.to_string());
                Err(Failure::new(format!("{}: {reason}", name())))
            }
            None => Err(Failure::new(format!("{}: ended for another configuration", name()))),
        }
    }
}

/// Waits until a child has exited. `None` if it was ended, as it is not wanted any more.
fn wait_while(
    child: &mut Child,
    is_wanted: &dyn Fn() -> bool,
) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if !is_wanted() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(INTERVAL);
    }
}

/// Prints kubeadm's errors, and returns the line with its failure.
fn pass_on(errors: ChildStderr) -> Option<String> {
    let mut failure = None;
    for line in BufReader::new(errors).lines().map_while(Result::ok) {
        eprintln!("{line}");
        if line.starts_with(ERROR) {
            failure.get_or_insert(line);
        }
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    /// A program in the place of kubeadm, which prints its words.
    fn program(text: &str) -> (tempfile::TempDir, Kubeadm) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("kubeadm");
        std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, Kubeadm { program, configuration: "/a.yaml".into() })
    }

    #[test]
    fn a_failure_has_the_reason_of_kubeadm() {
        let (_folder, kubeadm) = program("echo warning >&2; echo error: no $1 >&2; exit 3");
        let failure = kubeadm.run(&["init"], &|| true).unwrap_err().to_string();
        assert_eq!(failure, "kubeadm init: error: no init");
        let (_folder, kubeadm) = program("exit 3");
        let failure = kubeadm.run(&["init"], &|| true).unwrap_err().to_string();
        assert_eq!(failure, "kubeadm init: exit status: 3");
        let (_folder, kubeadm) = program("[ \"$*\" = \"init --config /a.yaml\" ]");
        kubeadm.run(&["init"], &|| true).unwrap();
    }

    #[test]
    fn kubeadm_reports_its_version() {
        let (_folder, kubeadm) = program("[ \"$*\" = \"version -o short\" ] && echo v1.35.8");
        assert_eq!(kubeadm.version().unwrap(), "v1.35.8\n");
    }

    #[test]
    fn kubeadm_ends_when_another_configuration_is_wanted() {
        let (_folder, kubeadm) = program("exec sleep 60");
        let start = Instant::now();
        let is_wanted = || start.elapsed() < INTERVAL;
        let failure = kubeadm.run(&["init"], &is_wanted).unwrap_err().to_string();
        assert_eq!(failure, "kubeadm init: ended for another configuration");
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

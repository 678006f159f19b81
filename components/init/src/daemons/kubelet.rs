//! The kubelet: files that are removed before it starts, and its command line.

use osbuild_abi::paths::{BIN, KUBELET_CONFIG_DIR};
use osbuild_failure::Outcome;
use osbuild_folder::Folder;

use super::credentials::Credentials;
use super::daemon;
use super::kubelet_config::{self, JOINED, STANDALONE};
use super::kubelet_policies;
use super::node_name;
use crate::data;
use crate::host::cgroups;
use crate::processes::process::Launch;
use crate::processes::program::Program;

/// How the kubelet runs.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// Without a cluster: there is no kubeconfig.
    Standalone,
    /// Without a cluster until the name under which it joins is known, and its node document is
    /// accepted. Drop-ins are left out: with webhooks and without a kubeconfig the kubelet would
    /// not start, and with it `dhcp`, which brings the name.
    Waits,
    /// In the cluster of these credentials.
    Joins(Credentials),
}

/// How the kubelet is started.
#[derive(Clone, Debug)]
pub struct Start {
    /// How it runs.
    pub mode: Mode,
    /// The flags that the node document adds to its command line.
    flags: Vec<String>,
}

/// Its `PATH`. The folder after that of the seven binaries has their other names
/// ([`osbuild_abi::program_names`]).
const SEARCH_PATH: &str = "/bin:/usr/libexec/kubelet";

/// The kubelet starts on a node with swap, whatever drop-ins say: it would not start again. Its
/// configuration says how much of the swap pods get.
const BEARS_SWAP: &str = "--fail-swap-on=false";

/// The folder in which the kubelet keeps its state.
const STATE: &str = "/var/lib/kubelet";
/// The folder in it with its certificates.
const PKI: &str = "pki";
/// The serving certificate and its key, which the kubelet makes if they are missing.
const PAIR: [&str; 2] = ["kubelet.crt", "kubelet.key"];

impl Start {
    /// The start of a kubelet under this name now. While the node document is refused, the node
    /// does not join: its taints, for instance, would be missing.
    pub fn observe(node_name: &str) -> Self {
        let flags = kubelet_config::flags();
        let mode = match Credentials::observe() {
            None => Mode::Standalone,
            Some(credentials) if flags.is_some() && node_name::joins(node_name) => {
                Mode::Joins(credentials)
            }
            Some(_) => Mode::Waits,
        };
        Start { mode, flags: flags.unwrap_or_default() }
    }

    /// The command line. Settings that all nodes share are in the configuration file.
    pub fn command(&self, node_name: &str) -> Vec<String> {
        let config = if matches!(self.mode, Mode::Joins(_)) { JOINED } else { STANDALONE };
        let mut words =
            vec![format!("{BIN}/{}", Program::Kubelet.name()), format!("--config={config}")];
        if self.has_drop_ins() {
            words.push(format!("--config-dir={KUBELET_CONFIG_DIR}"));
            words.extend(self.flags.iter().cloned());
        }
        words.push(format!("--hostname-override={node_name}"));
        words.push(BEARS_SWAP.to_owned());
        if let Mode::Joins(Credentials { kubeconfig, bootstrap }) = self.mode {
            words.extend(bootstrap.map(|path| format!("--bootstrap-kubeconfig={path}")));
            words.push(format!("--kubeconfig={kubeconfig}"));
        }
        words
    }

    /// Whether the drop-ins on DATA are in effect.
    fn has_drop_ins(&self) -> bool {
        !matches!(self.mode, Mode::Waits)
    }
}

/// How it is started with these words and variables.
pub fn launch(words: Vec<String>, variables: Vec<(&'static str, String)>) -> Launch {
    daemon::launch(words, SEARCH_PATH, variables, cgroups::KUBELET)
}

/// Prepares the first start in a boot: removes the state of the containers of the last one.
pub fn prepare_boot() {
    // The kubelet names a folder that cannot be opened.
    if let Ok(state) = state() {
        kubelet_policies::forget(&state);
    }
}

/// Prepares a start: removes a serving certificate that a power cut has torn, and what
/// another policy has left.
pub fn prepare(start: &Start) {
    let Ok(state) = state() else { return };
    if let Ok(certificates) = state.existing_folder(PKI) {
        remove_torn(&certificates);
    }
    kubelet_policies::forget_others(&state, &kubelet_config::policies(start.has_drop_ins()));
}

/// The kubelet's folder. Pods write to it, so nothing in it is opened by its path.
fn state() -> Outcome<Folder> {
    data::folder::behind(&data::folder::open()?, STATE)
}

/// Removes the pair if a power cut has left one of the two empty or alone: the kubelet would not
/// start with it, and makes a new pair.
fn remove_torn(certificates: &Folder) {
    let is_whole = |name: &str| -> std::io::Result<bool> {
        let Some(file) = certificates.file(name)? else { return Ok(false) };
        Ok(file.metadata()?.len() > 0)
    };
    if !PAIR.iter().all(|name| is_whole(name).unwrap_or(false)) {
        for name in PAIR {
            // It may be missing; and the kubelet names a file that cannot be removed.
            let _ = certificates.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_abi::paths::KUBELET_PROGRAMS;

    fn command(mode: Mode) -> String {
        Start { mode, flags: vec!["--node-ip=192.0.2.7".to_owned()] }.command("node-1").join(" ")
    }

    #[test]
    fn the_folder_of_other_names_is_searched_last() {
        assert_eq!(SEARCH_PATH.split(':').collect::<Vec<_>>(), [BIN, KUBELET_PROGRAMS]);
        assert_eq!(launch(vec![], vec![]).search_path, SEARCH_PATH);
    }

    #[test]
    fn a_torn_certificate_is_removed_and_a_whole_one_stays() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(&place.path().canonicalize().unwrap(), "aside").unwrap();
        let pair = PAIR.map(|name| place.path().join(name));
        for (contents, stays) in [(["a", "b"], true), (["", "b"], false), (["a", ""], false)] {
            pair.iter().zip(contents).for_each(|(file, text)| std::fs::write(file, text).unwrap());
            remove_torn(&folder);
            assert!(pair.iter().all(|file| file.exists() == stays), "{contents:?}");
        }
        std::fs::write(&pair[0], "alone").unwrap();
        remove_torn(&folder);
        assert!(!pair[0].exists());
        std::fs::write(place.path().join("other"), "other").unwrap();
        pair.iter().for_each(|file| std::os::unix::fs::symlink("other", file).unwrap());
        remove_torn(&folder);
        assert!(pair.iter().all(|file| file.symlink_metadata().is_err()), "links are not followed");
    }

    #[test]
    fn without_a_kubeconfig_it_runs_standalone() {
        let expected = "/bin/kubelet --config=/run/osbuild/kubelet/config/standalone.json \
                        --config-dir=/etc/kubernetes/kubelet.conf.d --node-ip=192.0.2.7 \
                        --hostname-override=node-1 --fail-swap-on=false";
        assert_eq!(command(Mode::Standalone), expected);
    }

    #[test]
    fn a_kubelet_that_waits_gets_no_settings_of_its_cluster() {
        assert_eq!(
            command(Mode::Waits),
            "/bin/kubelet --config=/run/osbuild/kubelet/config/standalone.json \
             --hostname-override=node-1 --fail-swap-on=false"
        );
    }

    #[test]
    fn a_kubeconfig_makes_it_join() {
        let command = command(Mode::Joins(Credentials { kubeconfig: "/k", bootstrap: None }));
        assert!(command.ends_with(" --kubeconfig=/k"));
        assert!(
            command.contains(" --config=/run/osbuild/kubelet/config/joined.json --config-dir=")
        );
        assert!(!command.contains("bootstrap"));
    }

    #[test]
    fn a_bootstrap_kubeconfig_comes_with_the_path_of_the_real_one() {
        let command = command(Mode::Joins(Credentials { kubeconfig: "/k", bootstrap: Some("/b") }));
        assert!(command.ends_with(" --bootstrap-kubeconfig=/b --kubeconfig=/k"));
    }
}

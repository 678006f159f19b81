//! The kubelet: files that are removed before it starts, and its command line.

use std::path::Path;

use osbuild_abi::paths::{BIN, BOOTSTRAP_KUBECONFIG, KUBECONFIG, KUBELET_CONFIG_DIR};

use super::kubelet_config::{JOINED, STANDALONE};
use super::node_name;
use crate::processes::program::Program;

/// How the kubelet runs.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// Without a cluster: there is no kubeconfig.
    Standalone,
    /// Without a cluster until the name under which it joins is known. Drop-ins are left out: with
    /// webhooks and without a kubeconfig the kubelet would not start, and with it `dhcp`, which
    /// brings the name.
    Waits,
    /// In the cluster of the kubeconfig.
    Joins {
        /// Whether there is a bootstrap kubeconfig.
        has_bootstrap: bool,
    },
}

/// The serving certificate and its key, which the kubelet makes if they are missing.
const PAIR: [&str; 2] = ["/var/lib/kubelet/pki/kubelet.crt", "/var/lib/kubelet/pki/kubelet.key"];

/// What the kubelet remembers of containers that ended with the last boot. A kubelet of another
/// release, with another policy or on another number of processors rejects it and never starts: a
/// slot on trial would break the other slot's kubelet.
const OF_ENDED_CONTAINERS: [&str; 2] =
    ["/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/memory_manager_state"];

impl Mode {
    /// The mode of a kubelet that is started under this name now.
    pub fn observe(node_name: &str) -> Self {
        let [has_kubeconfig, has_bootstrap] =
            [KUBECONFIG, BOOTSTRAP_KUBECONFIG].map(|path| Path::new(path).exists());
        match has_kubeconfig || has_bootstrap {
            false => Self::Standalone,
            true if node_name::joins(node_name) => Self::Joins { has_bootstrap },
            true => Self::Waits,
        }
    }
}

/// Prepares the first start in a boot: removes the state of the containers of the last one.
pub fn prepare_boot() {
    remove(&OF_ENDED_CONTAINERS.map(Path::new));
}

/// Prepares every start: removes a serving certificate that a power cut has torn.
pub fn prepare_start() {
    remove_torn(&PAIR.map(Path::new));
}

/// Removes the pair if a power cut has left one of the two empty or alone: the kubelet would not
/// start with it, and makes a new pair.
fn remove_torn(pair: &[&Path; 2]) {
    let is_whole = |file: &Path| file.metadata().is_ok_and(|about| about.len() > 0);
    if !pair.iter().all(|file| is_whole(file)) {
        remove(pair);
    }
}

fn remove(files: &[&Path]) {
    for file in files {
        // It may be missing; and the kubelet names a file that cannot be removed.
        let _ = std::fs::remove_file(file);
    }
}

/// The command line. Settings that all nodes share are in the configuration file.
pub fn command(node_name: &str, mode: Mode) -> Vec<String> {
    let config = if matches!(mode, Mode::Joins { .. }) { JOINED } else { STANDALONE };
    let mut words =
        vec![format!("{BIN}/{}", Program::Kubelet.name()), format!("--config={config}")];
    if !matches!(mode, Mode::Waits) {
        words.push(format!("--config-dir={KUBELET_CONFIG_DIR}"));
    }
    words.push(format!("--hostname-override={node_name}"));
    if let Mode::Joins { has_bootstrap } = mode {
        // With a bootstrap kubeconfig the kubelet writes the other one, and uses that afterwards.
        if has_bootstrap {
            words.push(format!("--bootstrap-kubeconfig={BOOTSTRAP_KUBECONFIG}"));
        }
        words.push(format!("--kubeconfig={KUBECONFIG}"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(mode: Mode) -> String {
        command("node-1", mode).join(" ")
    }

    #[test]
    fn a_torn_certificate_is_removed_and_a_whole_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let pair = ["kubelet.crt", "kubelet.key"].map(|name| folder.path().join(name));
        for (contents, stays) in [(["a", "b"], true), (["", "b"], false), (["a", ""], false)] {
            pair.iter().zip(contents).for_each(|(file, text)| std::fs::write(file, text).unwrap());
            remove_torn(&pair.each_ref().map(|file| file.as_path()));
            assert!(pair.iter().all(|file| file.exists() == stays), "{contents:?}");
        }
        std::fs::write(&pair[0], "alone").unwrap();
        remove_torn(&pair.each_ref().map(|file| file.as_path()));
        assert!(!pair[0].exists());
    }

    #[test]
    fn without_a_kubeconfig_it_runs_standalone() {
        let expected = "/bin/kubelet --config=/run/osbuild/kubelet/standalone.json \
                        --config-dir=/etc/kubernetes/kubelet.conf.d --hostname-override=node-1";
        assert_eq!(flags(Mode::Standalone), expected);
    }

    #[test]
    fn a_kubelet_that_waits_for_its_name_gets_no_drop_ins() {
        assert_eq!(
            flags(Mode::Waits),
            "/bin/kubelet --config=/run/osbuild/kubelet/standalone.json --hostname-override=node-1"
        );
    }

    #[test]
    fn a_kubeconfig_makes_it_join() {
        let flags = flags(Mode::Joins { has_bootstrap: false });
        assert!(flags.ends_with(" --kubeconfig=/etc/kubernetes/kubeconfig"));
        assert!(flags.contains(" --config=/run/osbuild/kubelet/joined.json --config-dir="));
        assert!(!flags.contains("bootstrap"));
    }

    #[test]
    fn a_bootstrap_kubeconfig_comes_with_the_path_of_the_real_one() {
        let both = " --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubeconfig \
                    --kubeconfig=/etc/kubernetes/kubeconfig";
        assert!(flags(Mode::Joins { has_bootstrap: true }).ends_with(both));
    }
}

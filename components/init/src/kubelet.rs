//! The kubelet, the second of the two daemons.

use std::path::Path;

use osbuild_abi::paths::{BIN, BOOTSTRAP_KUBECONFIG, KUBECONFIG, KUBELET_CONFIG_DIR};
use osbuild_failure::Outcome;

use crate::node::Node;
use crate::process::Life;
use crate::uptime::uptime;
use crate::{cluster, data, gate, kubelet_config, node_name, obstacles, trial};

/// Its name.
pub const NAME: &str = "kubelet";

/// How the kubelet is started.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Without a cluster: there is no kubeconfig.
    Alone,
    /// Without a cluster until the name under which it joins is known. The drop-ins are for then:
    /// with webhooks and without a kubeconfig the kubelet would not start, and with it `dhcp`,
    /// which is waited for.
    Waits,
    /// With what is on DATA.
    Joins { has_bootstrap: bool },
}

/// Where the kubelet keeps the certificate that it makes for itself when it has none.
const PAIR: [&str; 2] = ["/var/lib/kubelet/pki/kubelet.crt", "/var/lib/kubelet/pki/kubelet.key"];

/// What the kubelet remembers of containers that ended with the boot before. Another release's
/// kubelet, another policy or another number of processors finds fault with that, and then the
/// kubelet never starts: a slot on trial would take the other one's kubelet with it.
const OF_ENDED_CONTAINERS: [&str; 2] =
    ["/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/memory_manager_state"];

/// Starts it: standalone, or joined when a kubeconfig is there and the node's name is known.
pub fn start(node: &mut Node) -> Outcome {
    remove(&OF_ENDED_CONTAINERS.map(Path::new));
    node_name::set(node);
    node.run(NAME, Life::Daemon, |node_name| {
        forget_cut_off(&PAIR.map(Path::new));
        let [has_kubeconfig, has_bootstrap] =
            [KUBECONFIG, BOOTSTRAP_KUBECONFIG].map(|path| Path::new(path).exists());
        let mode = match has_kubeconfig || has_bootstrap {
            false => Mode::Alone,
            true if node_name::joins(node_name) => Mode::Joins { has_bootstrap },
            true => Mode::Waits,
        };
        command(node_name, mode)
    })
}

/// Removes the pair if a power cut has left one of the two empty or alone: the kubelet would never
/// start with it, and makes a new one.
fn forget_cut_off(pair: &[&Path; 2]) {
    let is_whole = |file: &Path| file.metadata().is_ok_and(|about| about.len() > 0);
    if !pair.iter().all(|file| is_whole(file)) {
        remove(pair);
    }
}

fn remove(files: &[&Path]) {
    for file in files {
        // It may not be there; and what cannot be removed the kubelet names.
        let _ = std::fs::remove_file(file);
    }
}

/// Has what it is started with read anew, and then ends it and starts it anew. The pods go on.
pub fn restart(node: &mut Node) {
    let _cover = node.watchdog.cover();
    if let Err(failure) = data::folder().and_then(|data| obstacles::clear_for_joining(&data)) {
        node.console.say(NAME, failure);
    }
    kubelet_config::renew(node);
}

/// Ends it and starts it anew, with the name and the files as they are now. At boot, before it has
/// run, there is nothing to do.
pub fn start_anew(node: &mut Node) {
    if node.process(NAME).is_none() {
        return;
    }
    // The names and identities of static pods have the node's name in them, so it changes only
    // here.
    node_name::set(node);
    // The pods that the gate waits for have the node's name in theirs, and the API server knows the
    // node by it.
    for name in [gate::NAME, trial::NAME, cluster::NAME] {
        if let Some(waiting) = node.process(name) {
            waiting.restart(uptime());
        }
    }
    // One that was asked for needs no waiting.
    if let Some(kubelet) = node.process(NAME) {
        kubelet.again(uptime());
    }
    cluster::follow(node);
}

/// The whole command line. All that is not about this node alone is in the configuration file.
fn command(node_name: &str, mode: Mode) -> Vec<String> {
    let config = if matches!(mode, Mode::Joins { .. }) {
        kubelet_config::JOINED
    } else {
        kubelet_config::STANDALONE
    };
    let mut words = vec![format!("{BIN}/{NAME}"), format!("--config={config}")];
    if !matches!(mode, Mode::Waits) {
        words.push(format!("--config-dir={KUBELET_CONFIG_DIR}"));
    }
    words.push(format!("--hostname-override={node_name}"));
    if let Mode::Joins { has_bootstrap } = mode {
        // With a bootstrap kubeconfig the kubelet itself writes the other one, and takes that from
        // then on.
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
    fn a_certificate_that_a_power_cut_has_left_empty_is_made_anew_and_a_whole_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let pair = ["kubelet.crt", "kubelet.key"].map(|name| folder.path().join(name));
        for (contents, stays) in [(["a", "b"], true), (["", "b"], false), (["a", ""], false)] {
            pair.iter().zip(contents).for_each(|(file, text)| std::fs::write(file, text).unwrap());
            forget_cut_off(&pair.each_ref().map(|file| file.as_path()));
            assert!(pair.iter().all(|file| file.exists() == stays), "{contents:?}");
        }
        std::fs::write(&pair[0], "alone").unwrap();
        forget_cut_off(&pair.each_ref().map(|file| file.as_path()));
        assert!(!pair[0].exists());
    }

    #[test]
    fn without_a_kubeconfig_it_stands_alone() {
        let expected = "/bin/kubelet --config=/run/osbuild/kubelet/standalone.json \
                        --config-dir=/etc/kubernetes/kubelet.conf.d --hostname-override=node-1";
        assert_eq!(flags(Mode::Alone), expected);
    }

    #[test]
    fn settings_for_a_cluster_do_not_stop_a_kubelet_that_waits_for_its_name() {
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
    fn a_bootstrap_kubeconfig_says_where_the_real_one_is_to_be_written() {
        let both = " --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubeconfig --kubeconfig=/etc/kubernetes/kubeconfig";
        assert!(flags(Mode::Joins { has_bootstrap: true }).ends_with(both));
    }
}

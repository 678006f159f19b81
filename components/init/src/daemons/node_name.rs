//! The name of the node in its cluster. An API server lets a node act only under the name in its
//! certificate (NodeRestriction), so the name is chosen once, before the kubelet registers, and
//! kept on DATA as long as the credentials are there. A host name that DHCP gives later changes the
//! host name only.
//!
//! The choice is pure: events in, actions out.

use std::time::Duration;

use osbuild_failure::{Explain, Outcome};

use super::credentials::Credentials;
use super::kubelet_config;
use crate::data::{self, name_file};

/// The file on DATA.
const FILE: &str = "node-name";
/// How long the node waits for a host name from the network after the kubelet has started, before
/// it joins under the name that it has. `dhcp` runs under that kubelet, so it cannot be asked
/// before.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The same after a pod has reported an address: `dhcp` sends the host name right after it, and
/// another link may take longer.
const TIMEOUT_WITH_ADDRESS: Duration = Duration::from_secs(5);

/// The facts that decide the name, collected when the kubelet is about to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Whether there is a kubeconfig, or a bootstrap kubeconfig.
    pub has_credentials: bool,
    /// The name in the client certificate that the kubelet is going to use, if it has one.
    pub certified: Option<String>,
    /// The name under which the kubelet was started with these credentials before.
    pub kept: Option<String>,
    /// The host name of a source above the image, usually the network.
    pub chosen: Option<String>,
}

impl Known {
    /// Reads the credentials and the kept name, but no host name: that is not on a disk.
    pub fn observe() -> Self {
        Known {
            has_credentials: has_credentials(),
            certified: kubelet_config::certified_name(),
            kept: kept(),
            chosen: None,
        }
    }
}

/// How the kubelet is to be started.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    /// Without a cluster.
    Standalone,
    /// Without a cluster until a pod has reported a host name, or the wait is over.
    Wait,
    /// As this node of the cluster.
    Join(String),
}

/// Chooses. `own` is the host name, under which the node joins when nothing better is known.
fn choose(known: &Known, has_waited: bool, own: &str) -> Choice {
    if !known.has_credentials {
        return Choice::Standalone;
    }
    let better = known.certified.as_ref().or(known.kept.as_ref()).or(known.chosen.as_ref());
    match better {
        Some(name) => Choice::Join(name.clone()),
        None if has_waited => Choice::Join(own.to_owned()),
        None => Choice::Wait,
    }
}

/// An action that the policy asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Say this on the console.
    Say(String),
    /// Keep this name on DATA.
    Keep(String),
    /// Remove the name that is kept.
    Forget,
    /// Start the kubelet again.
    RestartKubelet,
}

/// The name under which the kubelet runs, and its wait for a better one.
#[derive(Debug, Default)]
pub struct NodeName {
    name: String,
    wait: Wait,
    /// Whether the kubelet that runs now is in its cluster.
    joins: bool,
}

/// The wait of the kubelet that runs now for a name under which it joins.
#[derive(Clone, Copy, Debug, Default)]
enum Wait {
    /// It does not wait.
    #[default]
    No,
    /// Until this time since boot.
    Until(Duration),
    /// The wait is over, and the kubelet is about to start again.
    Over,
}

impl NodeName {
    /// The name under which the kubelet that runs now knows the node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When the wait is over, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        if let Wait::Until(due) = self.wait { Some(due) } else { None }
    }

    /// Whether the kubelet that runs now is in its cluster.
    pub fn joins(&self) -> bool {
        self.joins
    }

    /// A kubelet was started under the chosen name, which `joins` the cluster or does not.
    pub fn on_started(&mut self, joins: bool) {
        self.joins = joins;
    }

    /// The kubelet is about to start: chooses its name. `own` is the host name.
    pub fn on_start(
        &mut self,
        known: &Known,
        own: &str,
        has_address: bool,
        now: Duration,
    ) -> Vec<Action> {
        let has_waited = match std::mem::take(&mut self.wait) {
            Wait::No => false,
            Wait::Until(due) => due <= now,
            Wait::Over => true,
        };
        match choose(known, has_waited, own) {
            Choice::Standalone => {
                // Under another name, a kubelet that starts again would end all pods and make new
                // ones.
                if self.name.is_empty() {
                    self.name = own.to_owned();
                }
                vec![Action::Forget]
            }
            Choice::Wait => {
                self.name = own.to_owned();
                let timeout = if has_address { TIMEOUT_WITH_ADDRESS } else { TIMEOUT };
                self.wait = Wait::Until(now + timeout);
                let seconds = timeout.as_secs();
                vec![Action::Say(format!(
                    "waits up to {seconds} s for the network to name the node before it joins its \
                     cluster"
                ))]
            }
            Choice::Join(name) => {
                self.name.clone_from(&name);
                if known.kept.as_ref() == Some(&name) {
                    return Vec::new();
                }
                let say = format!("joins its cluster as node `{name}`");
                vec![Action::Say(say), Action::Keep(name)]
            }
        }
    }

    /// The host name has become `own`, which ends the wait.
    pub fn on_host_name(&mut self, own: &str) -> Vec<Action> {
        if let Wait::Until(_) = self.wait {
            self.wait = Wait::Over;
            return vec![Action::RestartKubelet];
        }
        let name = &self.name;
        if name == own || !self.joins {
            return Vec::new();
        }
        vec![Action::Say(format!(
            "the host name is `{own}`; in its cluster the node stays `{name}`"
        ))]
    }

    /// A pod has reported an address: the wait becomes shorter.
    pub fn on_address(&mut self, now: Duration) {
        if let Wait::Until(due) = &mut self.wait {
            *due = (now + TIMEOUT_WITH_ADDRESS).min(*due);
        }
    }

    /// Whether the wait is over, so that the kubelet has to start again. That is reported once.
    pub fn is_over(&mut self, now: Duration) -> bool {
        let is_over = self.deadline().is_some_and(|due| due <= now);
        if is_over {
            self.wait = Wait::Over;
        }
        is_over
    }
}

/// Whether a kubelet that is started under this name joins the cluster: there are credentials, and
/// this is the name that is kept for them.
pub fn joins(node_name: &str) -> bool {
    has_credentials() && kept().as_deref() == Some(node_name)
}

/// Whether there are credentials with which the kubelet can join a cluster, and no refused node
/// document forbids it.
pub fn has_credentials() -> bool {
    Credentials::observe().is_some() && kubelet_config::flags().is_some()
}

fn kept() -> Option<String> {
    name_file::kept(FILE)
}

/// Keeps the name on DATA.
pub fn keep(name: &str) -> Outcome {
    name_file::keep(FILE, name)
}

/// Removes the name from DATA.
pub fn forget() -> Outcome {
    data::folder::open()?.remove(FILE).explain(format_args!("remove {FILE} on DATA"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    fn with_credentials() -> Known {
        Known { has_credentials: true, ..Known::default() }
    }

    #[test]
    fn without_credentials_the_node_joins_nothing_under_any_name() {
        let known = Known {
            has_credentials: false,
            certified: some("a"),
            kept: some("b"),
            chosen: some("c"),
        };
        assert_eq!(choose(&known, true, "node-1"), Choice::Standalone);
    }

    #[test]
    fn a_name_from_dhcp_after_the_first_registration_does_not_rename_the_node() {
        let known =
            Known { kept: some("node-d79c5e6d"), chosen: some("edge-7"), ..with_credentials() };
        assert_eq!(choose(&known, false, "edge-7"), Choice::Join("node-d79c5e6d".to_owned()));
    }

    #[test]
    fn the_name_in_the_client_certificate_counts_before_any_other() {
        let known = Known {
            certified: some("edge-7"),
            kept: some("node-1"),
            chosen: some("other"),
            ..with_credentials()
        };
        assert_eq!(choose(&known, false, "other"), Choice::Join("edge-7".to_owned()));
    }

    #[test]
    fn the_first_join_takes_the_name_that_the_network_gave() {
        let known = Known { chosen: some("edge-7"), ..with_credentials() };
        assert_eq!(choose(&known, false, "edge-7"), Choice::Join("edge-7".to_owned()));
    }

    #[test]
    fn the_first_join_waits_for_a_name_for_a_limited_time() {
        assert_eq!(choose(&with_credentials(), false, "node-1"), Choice::Wait);
        let joins = Choice::Join("node-1".to_owned());
        assert_eq!(choose(&with_credentials(), true, "node-1"), joins);
    }

    #[test]
    fn the_wait_ends_at_its_deadline_and_an_address_shortens_it() {
        let mut name = NodeName::default();
        let actions = name.on_start(&with_credentials(), "node-1", false, Duration::ZERO);
        assert!(
            matches!(&actions[..], [Action::Say(text)] if text.starts_with("waits up to 60 s"))
        );
        assert_eq!((name.name(), name.deadline()), ("node-1", Some(TIMEOUT)));
        name.on_address(Duration::from_secs(10));
        let due = Duration::from_secs(10) + TIMEOUT_WITH_ADDRESS;
        assert!(!name.is_over(due - Duration::from_secs(1)));
        assert!(name.is_over(due) && !name.is_over(due), "that is reported once");
        let actions = name.on_start(&with_credentials(), "node-1", true, due);
        assert_eq!(
            actions,
            [
                Action::Say("joins its cluster as node `node-1`".to_owned()),
                Action::Keep("node-1".to_owned())
            ]
        );
        assert_eq!(name.deadline(), None);
    }

    #[test]
    fn a_host_name_ends_the_wait_and_is_only_reported_in_a_cluster() {
        let mut name = NodeName::default();
        name.on_start(&with_credentials(), "node-1", false, Duration::ZERO);
        assert_eq!(name.on_host_name("edge-7"), [Action::RestartKubelet]);
        assert_eq!((name.on_host_name("edge-8"), name.deadline()), (vec![], None));
        let known = Known { kept: some("node-1"), ..with_credentials() };
        assert_eq!(name.on_start(&known, "edge-7", false, Duration::ZERO), []);
        assert_eq!(name.on_host_name("edge-7"), []);
        name.on_started(true);
        let text = "the host name is `edge-7`; in its cluster the node stays `node-1`".to_owned();
        assert_eq!(name.on_host_name("edge-7"), [Action::Say(text)]);
    }

    #[test]
    fn a_node_without_credentials_forgets_the_name_in_the_cluster() {
        let mut name = NodeName::default();
        let known = Known { kept: some("node-1"), ..Known::default() };
        assert_eq!(name.on_start(&known, "edge-7", false, Duration::ZERO), [Action::Forget]);
        assert_eq!(name.name(), "edge-7");
    }

    #[test]
    fn a_kubelet_without_a_cluster_starts_again_under_its_name() {
        let mut name = NodeName::default();
        name.on_start(&Known::default(), "node-1", false, Duration::ZERO);
        assert_eq!(name.on_host_name("edge-7"), []);
        name.on_start(&Known::default(), "edge-7", false, Duration::ZERO);
        assert_eq!(name.name(), "node-1");
        // Its first cluster knows no other name yet.
        name.on_start(&with_credentials(), "edge-7", true, Duration::ZERO);
        assert_eq!(name.name(), "edge-7");
    }
}

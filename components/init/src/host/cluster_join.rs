//! The cluster that settings have the node join. A child writes the kubelet's files for it, and the
//! kubelet starts again if it is another cluster than before.

use std::path::Path;
use std::time::Duration;

use osbuild_abi::paths::{API_CLUSTER_JOIN, JOIN_BOOTSTRAP, JOIN_CA};
use osbuild_failure::Outcome;
use osbuild_protocol::{ClusterJoin, Observed, Refusal, RefusalCode, Setting, SettingName};
use osbuild_ranks::{Ranked, Source};

use super::run_files;

/// The file with what requests have set, for the child: the line of a setting. Its token is not for
/// a command line, which every process can read.
const REQUESTED: &str = "/run/osbuild/kubelet/requested-cluster";
/// The file in which the child says why the node does not join the cluster.
const ERROR: &str = "/run/osbuild/kubelet/cluster-error";
/// The files that nobody but the child writes. The kubelet writes its kubeconfig itself.
const FILES: [&str; 2] = [JOIN_BOOTSTRAP, JOIN_CA];
/// How long after a change the files are written: others may follow.
const PAUSE: Duration = Duration::from_secs(1);

/// The values of all sources.
#[derive(Default)]
pub struct ClusterSetting {
    values: Ranked<ClusterJoin>,
    /// The value of requests that the child has, which is writing the files.
    asked: Option<Option<ClusterJoin>>,
    /// The cluster that the files are for.
    written: Option<ClusterJoin>,
    /// The texts of [`FILES`], as the child has written them last.
    files: [Option<String>; FILES.len()],
    /// Why the node does not join that cluster. Empty if it does.
    error: String,
    /// The cluster for which the kubelet was started, while it runs.
    running: Option<ClusterJoin>,
    /// When to write the files, since boot.
    due: Option<Duration>,
}

/// Whether the image allows that requests name the cluster.
pub fn is_allowed() -> bool {
    Path::new(API_CLUSTER_JOIN).exists()
}

impl ClusterSetting {
    /// Gives it the value of `source`. The owner of a cluster is root on its nodes, so requests
    /// have one only if the image allows it. `now` is the time since boot.
    ///
    /// # Errors
    /// The image does not allow it.
    pub fn apply(
        &mut self,
        source: Source,
        join: &ClusterJoin,
        is_allowed: bool,
        now: Duration,
    ) -> Result<(), Refusal> {
        if source == Source::Api && !is_allowed {
            let reason = "the recipe of the node allows no cluster of a setting (`cluster-join` of \
                          `[api]`)";
            return Err(Refusal::new(RefusalCode::NotAllowed, reason));
        }
        self.set(source, Some(join.clone()), now);
        Ok(())
    }

    /// Gives it the value of `source`; `None` withdraws it. `now` is the time since boot.
    pub fn set(&mut self, source: Source, join: Option<ClusterJoin>, now: Duration) {
        self.values.set(source, join);
        self.write_at(now + PAUSE);
    }

    fn write_at(&mut self, due: Duration) {
        let wanted = self.values.effective().map(|(_, join)| join);
        self.due = (wanted != self.written.as_ref()).then_some(due);
    }

    /// When to write the files, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.due
    }

    /// The files are about to be written.
    pub fn on_due(&mut self) {
        self.due = None;
    }

    /// Hands the value of requests to the child that is started now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn ask(&mut self) -> Outcome {
        self.on_due();
        let requested = self.of(Source::Api);
        let line = requested.clone().map(|join| Setting::ClusterJoin(join).line());
        self.asked = Some(requested);
        run_files::set(REQUESTED, line.as_deref())
    }

    /// The child has written the files, and its document is known. Returns whether the kubelet has
    /// to start again. `now` is the time since boot.
    pub fn on_written(&mut self, now: Duration) -> bool {
        let requested = self.asked.take().flatten();
        let written = requested.or_else(|| self.of(Source::Document));
        let has_changed = written != self.written;
        self.written = written;
        self.files = FILES.map(run_files::read);
        self.error = run_files::read(ERROR).unwrap_or_default();
        self.write_at(now);
        has_changed
    }

    /// The kubelet is started, and joins the cluster or does not.
    pub fn on_started(&mut self, joins: bool) {
        self.running = self.written.clone().filter(|_| joins && self.error.is_empty());
    }

    /// The kubelet has exited.
    pub fn on_exited(&mut self) {
        self.running = None;
    }

    /// Whether `text`, lines of the settings of requests, has another cluster than they have now.
    pub fn differs_from(&self, text: &str) -> bool {
        let mut joins = text.lines().filter_map(|line| match Setting::parse(line).ok()? {
            Setting::ClusterJoin(join) => Some(join),
            _ => None,
        });
        joins.next() != self.of(Source::Api)
    }

    /// Writes the files again that another program has changed. Returns lines for the console.
    pub fn hold(&self) -> Vec<String> {
        // A child is about to change them.
        if self.asked.is_some() {
            return Vec::new();
        }
        let files = FILES.into_iter().zip(&self.files);
        let changed = files.filter(|(path, text)| run_files::read(path) != **text);
        let line =
            |(path, text): (&str, &Option<String>)| match run_files::set(path, text.as_deref()) {
                Ok(()) => format!("another program changed `{path}`, it is as before again"),
                Err(failure) => failure.to_string(),
            };
        changed.map(line).collect()
    }

    /// The cluster that requests have set, and the one for which the kubelet runs. Nothing if no
    /// source has one.
    pub fn observe(&self) -> Option<Observed> {
        let (source, _) = self.values.effective()?;
        let current = self.running.clone().map(|join| Setting::ClusterJoin(join).shown());
        Some(Observed {
            name: SettingName::ClusterJoin,
            wanted: self.of(Source::Api).map(Setting::ClusterJoin),
            source: Some(source),
            current: current.unwrap_or_default(),
            error: self.error.clone(),
        })
    }

    /// The value of a source.
    pub fn of(&self, source: Source) -> Option<ClusterJoin> {
        self.values.get(source).cloned()
    }
}

/// The cluster that requests have set, for the child.
pub fn requested() -> Option<ClusterJoin> {
    match Setting::parse(&run_files::read(REQUESTED)?).ok()? {
        Setting::ClusterJoin(join) => Some(join),
        _ => None,
    }
}

/// Says why the node does not join the cluster; nothing if it does.
pub fn write_error(error: Option<&str>) -> Outcome {
    run_files::set(ERROR, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

    use crate::sys::own_mounts;

    const NOW: Duration = Duration::from_secs(100);
    const SECRET: &str = "0123456789abcdef";

    fn join(server: &str) -> ClusterJoin {
        let line = format!("cluster-join server=https://{server} ca=MIIB token=abcdef.{SECRET}");
        match Setting::parse(&line).unwrap() {
            Setting::ClusterJoin(join) => join,
            other => panic!("{other:?}"),
        }
    }

    /// A node whose kubelet runs.
    #[derive(Default)]
    struct Node {
        cluster: ClusterSetting,
        /// The cluster of the document.
        document: Option<ClusterJoin>,
        /// How often the kubelet was started.
        starts: u32,
    }

    impl Node {
        /// The child writes the files, and the kubelet starts again if it has to.
        fn write(&mut self, error: Option<&str>) {
            self.cluster.ask().unwrap();
            let join = requested().or_else(|| self.document.clone());
            write_error(error).unwrap();
            run_files::set(JOIN_CA, join.map(|join| join.authority().to_pem()).as_deref()).unwrap();
            self.cluster.set(Source::Document, self.document.clone(), NOW);
            if self.cluster.on_written(NOW) {
                self.starts += 1;
                self.cluster.on_exited();
                self.cluster.on_started(true);
            }
        }

        fn current(&self) -> String {
            self.cluster.observe().map(|one| one.current).unwrap_or_default()
        }
    }

    /// Runs a test on a thread where `/run` is as on a node.
    fn on_a_node(work: impl FnOnce(&mut Node) + Send) {
        let inside = || {
            own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            mount("node", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).unwrap();
            work(&mut Node::default());
        };
        let ended = std::thread::scope(|scope| scope.spawn(inside).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }

    #[test]
    fn a_request_restarts_the_kubelet_once_and_gives_way_to_the_document() {
        on_a_node(|node| {
            node.document = Some(join("document"));
            node.write(None);
            assert_eq!((node.starts, node.cluster.deadline()), (1, None));
            node.cluster.set(Source::Api, Some(join("api")), NOW);
            assert_eq!(node.cluster.deadline(), Some(NOW + PAUSE));
            assert!(node.current().contains("https://document"), "it is not written yet");
            node.write(None);
            assert!(node.current().contains("https://api"), "{}", node.current());
            node.cluster.set(Source::Api, Some(join("api")), NOW);
            assert_eq!((node.starts, node.cluster.deadline()), (2, None), "it is the same");
            node.cluster.set(Source::Api, None, NOW);
            node.write(None);
            assert!(node.current().contains("https://document"));
            assert_eq!((node.starts, node.cluster.deadline()), (3, None));
        });
    }

    #[test]
    fn requests_name_a_cluster_only_if_the_image_allows_it() {
        let mut cluster = ClusterSetting::default();
        let mut apply = |source, allowed| cluster.apply(source, &join("api"), allowed, NOW);
        let refusal = apply(Source::Api, false).unwrap_err();
        assert_eq!(refusal.code, RefusalCode::NotAllowed);
        assert!(refusal.reason.contains("`cluster-join` of `[api]`"), "{refusal}");
        apply(Source::Document, false).unwrap();
        apply(Source::Api, true).unwrap();
    }

    #[test]
    fn a_node_leaves_with_its_last_value() {
        on_a_node(|node| {
            node.cluster.set(Source::Api, Some(join("api")), NOW);
            node.write(None);
            node.cluster.set(Source::Api, None, NOW);
            assert!(node.cluster.observe().is_none() && node.cluster.deadline().is_some());
            node.write(None);
            assert_eq!((node.starts, run_files::read(REQUESTED)), (2, None));
        });
    }

    #[test]
    fn a_cluster_that_the_node_cannot_join_has_an_error_and_no_current_value() {
        on_a_node(|node| {
            node.cluster.set(Source::Api, Some(join("api")), NOW);
            node.write(Some("it has no certificate"));
            let observed = node.cluster.observe().unwrap();
            assert_eq!(
                (observed.error.as_str(), &*observed.current),
                ("it has no certificate", "")
            );
        });
    }

    #[test]
    fn root_alone_reads_the_token_and_clients_never_do() {
        on_a_node(|node| {
            node.cluster.set(Source::Api, Some(join("api")), NOW);
            node.write(None);
            assert!(run_files::read(REQUESTED).unwrap().contains(SECRET));
            assert!(run_files::is_private(REQUESTED));
            assert!(node.current().ends_with("token=(hidden)"), "{}", node.current());
        });
    }

    #[test]
    fn a_file_that_another_program_changes_is_written_again() {
        on_a_node(|node| {
            node.cluster.set(Source::Api, Some(join("api")), NOW);
            node.write(None);
            assert!(node.cluster.hold().is_empty());
            let text = std::fs::read_to_string(JOIN_CA).unwrap();
            for change in [
                || std::fs::write(JOIN_CA, "").unwrap(),
                || {
                    std::fs::remove_file(JOIN_CA).unwrap();
                },
            ] {
                change();
                assert_eq!(node.cluster.hold().len(), 1);
                assert_eq!(std::fs::read_to_string(JOIN_CA).unwrap(), text);
            }
        });
    }

    #[test]
    fn a_try_is_about_the_cluster_if_it_has_changed_it() {
        let mut cluster = ClusterSetting::default();
        let line = Setting::ClusterJoin(join("api")).line();
        assert!(!cluster.differs_from("host-name a\n") && cluster.differs_from(&line));
        cluster.set(Source::Api, Some(join("api")), NOW);
        assert!(!cluster.differs_from(&format!("host-name a\n{line}\n")));
        assert!(cluster.differs_from("") && cluster.differs_from(&line.replace("api", "b")));
    }
}

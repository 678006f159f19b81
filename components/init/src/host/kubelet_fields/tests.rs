//! Real files, each test in a mount namespace of its own, and a child that writes its arguments.
//! They need root.

use super::*;

use std::fs;

use rustix::event::{Timespec, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::daemons::kubelet_config::{JOINED, STANDALONE};
use crate::host::run_files;
use crate::host::watch::Watch;
use crate::sys::own_mounts;

const SHIPPED: &str = include_str!("../../../kubelet-fields.conf");
const NOW: Duration = Duration::from_secs(100);
const REASON: &str = "the kubelet has failed 3 times in a row: bad";

/// A node whose kubelet runs.
struct Node {
    fields: KubeletFields,
    /// How often the kubelet was started.
    starts: u32,
}

/// Runs a test on a thread where `/run` is as on a node.
fn on_a_node(work: impl FnOnce(&mut Node) + Send) {
    let inside = || {
        own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        mount("node", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).unwrap();
        let mut node = Node { fields: KubeletFields::default(), starts: 0 };
        node.write();
        node.fields.on_started();
        work(&mut node);
    };
    let ended = std::thread::scope(|scope| scope.spawn(inside).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn field(word: &str) -> KubeletField {
    let (key, value) = word.split_once('=').unwrap();
    KubeletField::parse(key, value).unwrap()
}

impl Node {
    fn apply(&mut self, source: Source, word: &str) {
        self.fields.apply(source, &field(word), SHIPPED, NOW).unwrap();
    }

    fn withdraw(&mut self, source: Source, word: &str) {
        self.fields.withdraw(source, field(word).key(), NOW);
    }

    /// The child writes what it is asked for, beside the document.
    fn write(&mut self) {
        let words = self.fields.ask();
        let arguments: Vec<Argument> =
            words.iter().map(|word| Argument::parse(word).unwrap()).collect();
        let fields = overlay(self.fields.of(Source::Document), &arguments);
        let lines: Vec<String> = fields.values().map(ToString::to_string).collect();
        run_files::write(JOINED, &lines.join("\n")).unwrap();
        if self.fields.on_written(NOW) {
            self.starts += 1;
            self.fields.on_exited();
            self.fields.on_started();
        }
    }

    /// Time goes by: what is due is done.
    fn settle(&mut self) {
        for _ in 0..3 {
            if self.fields.deadline().is_some() {
                self.write();
            }
        }
        assert_eq!(self.fields.deadline(), None);
    }

    fn prove(&mut self) -> Option<TakenBack> {
        assert!(self.fields.awaits_proof());
        let taken_back = self.fields.on_proved();
        assert!(!self.fields.awaits_proof());
        taken_back
    }

    fn configuration(&self) -> String {
        fs::read_to_string(JOINED).unwrap()
    }

    /// The path, what requests want, the value with which the kubelet runs, and the error.
    fn observed(&self) -> Vec<String> {
        let line = |one: Observed| {
            let wanted = one.wanted.map(|wanted| wanted.value()).unwrap_or_default();
            format!("{} [{wanted}] [{}] [{}]", one.name, one.current, one.error)
        };
        self.fields.observe().map(line).collect()
    }
}

#[test]
fn a_field_is_in_the_configuration_and_goes_with_the_setting() {
    on_a_node(|node| {
        node.apply(Source::Api, "maxPods=50");
        assert_eq!(node.fields.deadline(), Some(NOW + PAUSE));
        node.apply(Source::Api, "evictionHard.memory.available=200Mi");
        assert_eq!(node.observed()[1], "kubelet-config maxPods [50] [] []", "not written yet");
        node.settle();
        assert_eq!(node.configuration(), "evictionHard.memory.available=200Mi\nmaxPods=50");
        assert_eq!(node.observed()[1], "kubelet-config maxPods [50] [50] []");
        assert_eq!(node.starts, 1, "once for both");
        node.withdraw(Source::Api, "maxPods=50");
        node.settle();
        assert_eq!(node.configuration(), "evictionHard.memory.available=200Mi");
        node.withdraw(Source::Api, "evictionHard.memory.available=1");
        node.settle();
        assert_eq!((node.configuration().as_str(), node.observed().len()), ("", 0));
    });
}

#[test]
fn the_document_is_in_effect_where_no_request_is() {
    on_a_node(|node| {
        node.apply(Source::Document, "maxPods=50");
        node.apply(Source::Api, "maxPods=60");
        node.settle();
        assert_eq!(node.configuration(), "maxPods=60");
        node.withdraw(Source::Api, "maxPods=60");
        node.settle();
        assert_eq!(node.configuration(), "maxPods=50");
        assert_eq!(node.observed(), ["kubelet-config maxPods [] [50] []"]);
    });
}

#[test]
fn a_document_that_the_child_has_read_first_is_written_once() {
    on_a_node(|node| {
        node.fields.ask();
        run_files::write(JOINED, "maxPods=50").unwrap();
        node.apply(Source::Document, "maxPods=50");
        assert!(node.fields.on_written(NOW));
        assert_eq!(node.fields.deadline(), None);
    });
}

#[test]
fn what_changes_nothing_starts_no_kubelet() {
    on_a_node(|node| {
        node.apply(Source::Document, "maxPods=50");
        node.settle();
        let starts = node.starts;
        node.apply(Source::Api, "maxPods=50");
        node.settle();
        node.apply(Source::Api, "maxPods=60");
        node.apply(Source::Api, "maxPods=50");
        node.settle();
        assert_eq!(node.starts, starts);
    });
}

#[test]
fn a_field_that_the_image_does_not_list_is_refused() {
    on_a_node(|node| {
        for list in ["", "# maxPods\n", "maxPod\nmaxPodsx\n"] {
            let refusal =
                node.fields.apply(Source::Api, &field("maxPods=50"), list, NOW).unwrap_err();
            assert_eq!(refusal.code, RefusalCode::NotAllowed);
        }
        assert_eq!((node.fields.deadline(), node.observed().len()), (None, 0));
    });
    let listed = |name: &str| SHIPPED.lines().any(|line| line == name);
    assert!(KubeletKey::FIELDS.iter().all(|name| listed(name)));
    let names = SHIPPED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(names.count(), KubeletKey::FIELDS.len());
}

#[test]
fn fields_with_which_the_kubelet_does_not_start_are_taken_back() {
    on_a_node(|node| {
        node.apply(Source::Api, "maxPods=50");
        node.settle();
        assert_eq!(node.prove(), None);
        node.apply(Source::Api, "maxPods=60");
        node.apply(Source::Api, "cpuManagerPolicy=static");
        node.settle();
        assert!(node.fields.on_failed(REASON, NOW));
        let held_back = format!("kubelet-config maxPods [60] [60] [{REASON}]");
        assert_eq!(node.observed()[1], held_back);
        node.settle();
        assert_eq!(node.configuration(), "maxPods=50");
        let taken_back = node.prove().unwrap();
        assert!(taken_back.of_requests);
        assert_eq!(taken_back.lines.len(), 2, "{taken_back:?}");
        let requests: Vec<String> =
            node.fields.of(Source::Api).map(|field| field.to_string()).collect();
        assert_eq!(requests, ["maxPods=50"]);
        assert_eq!(
            node.observed(),
            [
                format!("kubelet-config cpuManagerPolicy [] [] [{REASON}]"),
                format!("kubelet-config maxPods [50] [50] [{REASON}]"),
            ]
        );
        node.apply(Source::Api, "maxPods=70");
        assert_eq!(node.observed()[1], "kubelet-config maxPods [70] [50] []", "it is tried anew");
    });
}

#[test]
fn good_fields_are_taken_back_only_if_the_kubelet_fails_with_them_again() {
    on_a_node(|node| {
        node.apply(Source::Api, "maxPods=50");
        node.fields.on_good();
        node.apply(Source::Document, "registryBurst=5");
        node.settle();
        let requested = |node: &Node| node.fields.of(Source::Api).count();
        for (is_taken_back, left) in [(false, 1), (true, 0)] {
            assert!(node.fields.on_failed(REASON, NOW));
            node.settle();
            assert_eq!(node.configuration(), "");
            assert!(node.fields.awaits_proof());
            assert_eq!(node.fields.on_proved().is_some(), is_taken_back);
            node.settle();
            assert_eq!(requested(node), left);
            assert_eq!(node.configuration().is_empty(), is_taken_back);
        }
    });
}

#[test]
fn a_new_field_is_not_good() {
    on_a_node(|node| {
        node.fields.on_good();
        node.apply(Source::Api, "maxPods=50");
        node.settle();
        assert!(node.fields.on_failed(REASON, NOW));
        node.settle();
        assert!(node.prove().unwrap().of_requests);
    });
}

#[test]
fn fields_of_the_document_are_left_out_until_it_changes() {
    on_a_node(|node| {
        node.apply(Source::Document, "maxPods=50");
        node.apply(Source::Api, "registryBurst=5");
        node.settle();
        assert!(node.fields.on_failed(REASON, NOW));
        assert_eq!(node.fields.ask(), ["maxPods="], "the child reads the document, too");
        node.write();
        assert_eq!(node.configuration(), "");
        assert!(node.prove().unwrap().of_requests);
        assert_eq!(node.fields.of(Source::Document).count(), 0);
        assert_eq!(node.observed()[0], format!("kubelet-config maxPods [] [] [{REASON}]"));
        node.fields.on_new_document();
        assert_eq!(node.observed(), [""; 0]);
    });
}

#[test]
fn fields_are_not_the_cause_if_the_kubelet_fails_without_them_as_well() {
    on_a_node(|node| {
        assert!(!node.fields.on_failed(REASON, NOW), "there are none");
        node.apply(Source::Api, "maxPods=50");
        node.settle();
        for _ in 0..2 {
            assert!(node.fields.on_failed(REASON, NOW));
            node.settle();
            assert_eq!(node.configuration(), "");
            assert!(!node.fields.on_failed(REASON, NOW));
            node.settle();
            assert_eq!(node.configuration(), "maxPods=50");
        }
        assert_eq!(node.prove(), None);
        assert!(!node.fields.on_failed(REASON, NOW), "it has run with them");
        assert_eq!(node.configuration(), "maxPods=50");
    });
}

#[test]
fn a_kubelet_that_does_not_run_proves_nothing() {
    on_a_node(|node| {
        node.apply(Source::Api, "maxPods=50");
        assert!(!node.fields.awaits_proof(), "it runs with others");
        node.settle();
        node.fields.on_exited();
        assert!(!node.fields.awaits_proof());
        assert_eq!(node.fields.on_proved(), None);
        assert!(node.fields.is_unproven());
        assert_eq!(node.observed(), ["kubelet-config maxPods [50] [] []"]);
    });
}

#[test]
fn a_drop_in_that_overrides_a_field_is_the_error() {
    on_a_node(|node| {
        node.apply(Source::Api, "maxPods=50");
        write_overridden(&[(field("maxPods=50").key().clone(), "50 a\n.conf".to_owned())]).unwrap();
        node.settle();
        let expected = "kubelet-config maxPods [50] [] [the drop-in `50 a?.conf` on DATA sets it]";
        assert_eq!(node.observed(), [expected]);
        write_overridden(&[]).unwrap();
        node.write();
        assert_eq!(node.observed(), ["kubelet-config maxPods [50] [50] []"]);
    });
}

#[test]
fn a_configuration_that_another_program_changes_is_written_again_and_the_change_is_reported() {
    on_a_node(|node| {
        for path in ["/run/osbuild/ntp", "/run/osbuild/registries"] {
            fs::create_dir_all(path).unwrap();
        }
        let watch = Watch::start().unwrap();
        let is_reported = || {
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut watch.polled()[..1], Some(&at_once)).unwrap() > 0
        };
        node.apply(Source::Api, "maxPods=50");
        node.settle();
        assert_eq!(node.fields.hold(), [""; 0]);
        watch.clear();
        let changes: [fn(); 2] =
            [|| fs::write(JOINED, "maxPods=500").unwrap(), || fs::remove_file(JOINED).unwrap()];
        for change in changes {
            change();
            assert!(is_reported());
            assert_eq!(node.fields.hold().len(), 1);
            assert_eq!(node.configuration(), "maxPods=50");
            watch.clear();
        }
        assert!(!fs::exists(STANDALONE).unwrap(), "the child has not written it");
        node.fields.ask();
        fs::write(JOINED, "by the child").unwrap();
        assert_eq!(node.fields.hold(), [""; 0]);
    });
}

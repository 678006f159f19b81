use super::*;
use std::fs;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A kernel whose device a test sets up in place of the child.
struct Kernel(TempDir);

impl Kernel {
    fn new() -> (Kernel, SwapSettings) {
        let kernel = Kernel(tempfile::tempdir().unwrap());
        let folder = kernel.0.path().join("zram0");
        fs::create_dir(&folder).unwrap();
        let zram = Zram::at(folder, kernel.0.path().join("swaps"));
        kernel.off();
        (kernel, SwapSettings { zram, ..SwapSettings::default() })
    }

    fn on(&self, size: u64, limit: u64) {
        let write = |name: &str, text: String| fs::write(self.0.path().join(name), text).unwrap();
        write("zram0/disksize", format!("{}\n", size * MIB));
        write("zram0/mm_stat", format!("9 9 4096 {} 0 0 0 0 0\n", limit * MIB));
        write("swaps", format!("Filename\n{DEVICE} partition {} 4 -2\n", size << 10));
    }

    fn off(&self) {
        fs::write(self.0.path().join("swaps"), "Filename\n").unwrap();
    }
}

fn swap(words: &str) -> Swap {
    match Setting::parse(&format!("swap {words}")).unwrap() {
        Setting::Swap(swap) => swap,
        other => panic!("{other:?}"),
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn on(size: u64, limit: u64) -> Option<Vec<String>> {
    Some(vec!["on".to_owned(), (size * MIB).to_string(), (limit * MIB).to_string()])
}

/// Swap of 4 MiB that a child has made.
fn made(words: &str) -> (Kernel, SwapSettings) {
    let (kernel, mut settings) = Kernel::new();
    settings.apply(Source::Api, &swap(words), at(1)).unwrap();
    settings.hold(at(1));
    assert_eq!(settings.start(at(1)), on(4, 2));
    assert_eq!(settings.start(at(60)), None, "one child at a time");
    kernel.on(4, 2);
    settings.on_report(true, "made\n", at(2));
    assert_eq!(settings.hold(at(2)), ["made"]);
    assert_eq!((settings.start(at(60)), settings.deadline()), (None, None));
    (kernel, settings)
}

#[test]
fn swap_is_made_observed_and_removed() {
    let (kernel, mut settings) = made("size=4Mi");
    let observed = settings.observe().unwrap();
    assert_eq!(observed.current, format!("bytes={} used={MIB} memory={MIB}", 4 * MIB));
    assert_eq!((observed.source, observed.error.as_str()), (Some(Source::Api), ""));
    settings.withdraw(Source::Api, at(3));
    settings.hold(at(3));
    assert_eq!(settings.start(at(3)), Some(vec!["off".to_owned()]));
    settings.on_report(false, "turn the swap off: no memory\n", at(4));
    assert_eq!(settings.hold(at(4)), ["swap: turn the swap off: no memory"]);
    let observed = settings.observe().unwrap();
    assert_eq!((observed.source, observed.error.contains("no memory")), (None, true));
    assert_eq!((settings.start(at(12)), settings.deadline()), (None, Some(at(13))));
    assert!(settings.start(at(13)).is_some());
    kernel.off();
    settings.on_report(true, "", at(14));
    assert!(settings.hold(at(14)).is_empty() && settings.observe().is_none());
    assert_eq!((settings.start(at(14)), settings.deadline()), (None, None));
}

#[test]
fn a_node_without_swap_has_nothing_to_look_at_after_a_withdrawal() {
    let (_kernel, mut settings) = Kernel::new();
    settings.withdraw(Source::Api, at(1));
    assert!(settings.hold(at(1)).is_empty());
    assert_eq!((settings.start(at(1)), settings.deadline()), (None, None));
}

#[test]
fn a_change_waits_for_the_end_of_the_child() {
    let (kernel, mut settings) = Kernel::new();
    settings.apply(Source::Api, &swap("size=4Mi"), at(1)).unwrap();
    settings.hold(at(1));
    assert_eq!(settings.start(at(1)), on(4, 2));
    settings.apply(Source::Api, &swap("size=8Mi"), at(2)).unwrap();
    settings.hold(at(2));
    assert_eq!((settings.start(at(2)), settings.deadline()), (None, None));
    kernel.on(4, 2);
    settings.on_report(true, "", at(3));
    assert_eq!(settings.deadline(), Some(at(3)));
    settings.hold(at(3));
    assert_eq!(settings.start(at(3)), on(8, 4));
}

#[test]
fn swap_that_another_program_turns_off_is_made_again_at_once() {
    let (kernel, mut settings) = made("size=4Mi");
    kernel.off();
    assert_eq!(settings.hold(at(3)), ["another program turned the swap off"]);
    assert_eq!(settings.start(at(3)), on(4, 2));
}

#[test]
fn another_size_or_limit_is_made_in_its_place() {
    let (kernel, mut settings) = made("size=4Mi");
    settings.apply(Source::Document, &swap("size=8Mi"), at(3)).unwrap();
    settings.hold(at(3));
    assert_eq!(settings.start(at(3)), None, "the request outranks the document");
    settings.withdraw(Source::Api, at(4));
    settings.hold(at(4));
    assert_eq!(settings.start(at(4)), on(8, 4));
    kernel.on(8, 1);
    settings.on_report(true, "", at(5));
    settings.hold(at(5));
    assert_eq!(settings.start(at(20)), on(8, 4), "another program has set the limit");
}

#[test]
fn more_than_twice_the_memory_is_refused() {
    let (_kernel, mut settings) = Kernel::new();
    assert!(settings.apply(Source::Api, &swap("size=1Ti"), at(1)).is_err());
    assert!(settings.observe().is_none() && settings.deadline().is_none());
}

#[test]
fn the_kubelet_starts_again_only_for_pods_that_get_swap() {
    let (_kernel, mut settings) = made("size=4Mi");
    assert_eq!(settings.kubelet_deadline(), None, "pods get none");
    settings.apply(Source::Api, &swap("size=4Mi pods"), at(3)).unwrap();
    assert!(settings.kubelet_deadline().is_some());
    assert_eq!(settings.ask_kubelet().as_deref(), Some("swap size=4Mi pods"));
    assert!(settings.on_kubelet_written(at(4)));
    settings.on_kubelet_started();
    settings.hold(at(5));
    assert_eq!(settings.kubelet_deadline(), None);
}

#[test]
fn a_kubelet_that_was_started_before_the_swap_was_on_starts_again_once() {
    let (_kernel, mut settings) = made("size=4Mi pods");
    settings.ask_kubelet();
    assert!(settings.on_kubelet_written(at(3)));
    settings.kubelet.size = 0;
    settings.hold(at(4));
    assert_eq!(settings.kubelet_deadline(), Some(at(4)));
    settings.ask_kubelet();
    settings.hold(at(5));
    assert_eq!(
        settings.kubelet_deadline(),
        None,
        "the child goes on, which another start would end"
    );
    assert!(settings.on_kubelet_written(at(6)));
    settings.hold(at(7));
    assert_eq!(settings.kubelet_deadline(), None, "the kubelet is about to start");
    settings.on_kubelet_started();
    settings.hold(at(8));
    assert_eq!(settings.kubelet_deadline(), None);
}

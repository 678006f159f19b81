//! Reports of the updater to `init`.

mod world;

use jiff::SignedDuration;
use osbuild_protocol::{UpdatePhase, UpdateReport};
use updater::check::CheckOutcome;
use world::{Fault, Release, Server, World};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Runs the program against a server with this release until it has printed the result of its first
/// check. Returns its last report; the one before it is that the check has not ended yet.
fn reported(world: &World, release: &Release) -> UpdateReport {
    let server = Server::start(&world.publish(release), Fault::None);
    let line = world.run_until(&server.url(), |_, number| number == 1);
    let mut reports = world.init.progress();
    let last = reports.pop().unwrap();
    assert_eq!(reports[0].phase, UpdatePhase::Checking, "{reports:?}");
    assert!(last.text.to_string() == line, "{last:?}: {line}");
    last
}

#[test]
fn the_result_of_a_check_is_reported_with_its_release_and_the_time_of_the_next_one() {
    let world = World::new();
    world.init.runs(2);
    let report = reported(&world, &Release::new(2));
    assert_eq!((report.phase, report.offered.as_deref()), (UpdatePhase::Idle, Some("2")));
    let (checked, next) = (report.checked.unwrap(), report.next_check.unwrap());
    let now = jiff::Timestamp::now().as_second() as u64;
    assert!((now - 60..=now).contains(&checked), "{checked}");
    // An hour, and a tenth more or less.
    assert!((3239..=3961).contains(&(next - checked)), "{checked} {next}");
}

#[test]
fn a_release_that_waits_or_was_stopped_is_reported_as_such() {
    let phase = |release: &Release| reported(&World::new(), release).phase;
    assert_eq!(phase(&Release::new(2).rolled_out("", HOUR)), UpdatePhase::Waiting);
    let mut stopped = Release::new(2).rolled_out("", -HOUR);
    stopped.rollout = stopped.rollout.map(osbuild_rollout::Rollout::stop);
    assert_eq!(phase(&stopped), UpdatePhase::Held);
}

#[test]
fn a_node_whose_slots_permit_nothing_is_reported_with_the_reason() {
    let world = World::new();
    world.init.reports_version_0("SLOT-A, version 1: on trial, tries left: 2", "x");
    let report = reported(&world, &Release::new(2));
    assert_eq!(report.phase, UpdatePhase::Blocked);
    assert!(report.text.to_string().starts_with("2 waits: "), "{report:?}");
}

#[test]
fn a_check_that_fails_is_reported_with_the_error() {
    let world = World::new();
    let server = Server::start(&world.folder("missing"), Fault::None);
    let line = world.run_until(&server.url(), |_, number| number == 1);
    let report = world.init.progress().pop().unwrap();
    assert_eq!((report.phase, report.offered), (UpdatePhase::Failed, None));
    let start: String = line.chars().take(100).collect();
    assert!(report.text.to_string().starts_with(&start), "{line}");
}

#[test]
fn a_download_and_an_installation_are_reported() {
    let world = World::new();
    let release = Release::new(2);
    let folder = world.publish(&release);
    let outcome = world.check_server(&folder, Fault::None).unwrap();
    assert_eq!(outcome, CheckOutcome::Reboots("2".to_owned()));
    let reports = world.init.progress();
    let [first, last] = reports.as_slice() else { panic!("{reports:?}") };
    let total = release.node.len() as u64;
    let is_part = |received: u64| (1..=total).contains(&received);
    assert!(
        matches!(first.phase, UpdatePhase::Downloading { received, total: all }
            if all == total && is_part(received)),
        "{first:?}"
    );
    assert_eq!((last.phase, last.offered.as_deref()), (UpdatePhase::Installed, Some("2")));
}

#[test]
fn an_init_that_refuses_reports_still_has_the_node_updated() {
    let world = World::new();
    world.init.refuses_progress();
    let folder = world.publish(&Release::new(2));
    let outcome = world.check_server(&folder, Fault::None).unwrap();
    assert_eq!(outcome, CheckOutcome::Reboots("2".to_owned()));
    assert_eq!(world.init.verbs(), ["slot", "boot-program", "try", "reboot"]);
    assert!(world.init.progress().is_empty());
}

//! One cluster after another, and what the policy does about it.

use osbuild_grants::annotations::{SINCE, WANTED};
use osbuild_grants::{Node, Outcome, Policy, Request, Step, steps};
use proptest::prelude::*;
use std::slice::from_ref;

const NOW: i64 = 1_000_000;

fn idle() -> Node {
    Node { is_ready: true, ..Node::default() }
}

fn asks() -> Node {
    let request = Request { version: "2".to_owned(), since: NOW - 60 };
    Node { request: Some(request), ..idle() }
}

/// Drained for this many seconds.
fn drained(seconds: i64, pods_left: usize) -> Node {
    let drained_for = Some("2".to_owned());
    let drained_since = Some(NOW - seconds);
    Node { drained_since, drained_for, is_cordoned: true, pods_left, ..asks() }
}

/// Drained and granted for this many seconds.
fn granted(seconds: i64) -> Node {
    let granted_since = Some(NOW - seconds);
    Node { granted: Some("2".to_owned()), granted_since, ..drained(seconds, 0) }
}

fn tried(outcome: Outcome) -> Node {
    Node { result: Some(("2".to_owned(), outcome)), ..idle() }
}

fn policy(text: &str) -> Policy {
    Policy::parse(text).unwrap()
}

/// The names of the steps about each node.
fn names(nodes: &[Node], policy: &Policy) -> Vec<(usize, &'static str)> {
    let name = |step| match step {
        Step::Drain => "drain",
        Step::Evict => "evict",
        Step::Grant => "grant",
        Step::NoteGrant => "note",
        Step::NoteRequest => "note request",
        Step::Requeue => "requeue",
        Step::GiveUp(_) => "give up",
        Step::Stop(_) => "stop",
        Step::Uncordon => "uncordon",
        Step::Explain(_) => "explain",
    };
    steps(nodes, policy, NOW).into_iter().map(|(index, step)| (index, name(step))).collect()
}

#[track_caller]
fn explains(nodes: &[Node], text: &str, why: &str) {
    let policy = policy(&format!("deadline-s = 0\n{text}"));
    let found = steps(nodes, &policy, NOW);
    let is_why = |step: &Step| matches!(step, Step::Explain(found) if found.contains(why));
    assert!(found.iter().any(|(_, step)| is_why(step)), "{why}: {found:?}");
}

#[test]
fn a_node_is_drained_then_granted_then_uncordoned() {
    let policy = policy("");
    assert_eq!(names(&[asks()], &policy), [(0, "drain")]);
    assert_eq!(names(&[drained(10, 3)], &policy), [(0, "evict")]);
    assert_eq!(names(&[drained(10, 0)], &policy), [(0, "grant")]);
    assert_eq!(names(&[granted(10)], &policy), []);
    let back = Node { drained_since: Some(NOW - 300), is_cordoned: true, ..idle() };
    assert_eq!(names(&[Node { is_ready: false, ..back.clone() }], &policy), []);
    assert_eq!(names(&[back], &policy), [(0, "uncordon")]);
    assert_eq!(names(&[idle()], &policy), []);
}

#[test]
fn a_node_that_somebody_else_cordoned_is_left_alone() {
    let cordoned = Node { is_cordoned: true, ..asks() };
    explains(&[cordoned], "", "somebody else");
}

#[test]
fn at_most_the_allowed_number_is_down() {
    let nodes = [tried(Outcome::Succeeded), drained(1, 1), granted(1), asks(), asks()];
    assert_eq!(names(&nodes, &policy("at-once = 2")), [(1, "evict")]);
    explains(&nodes, "at-once = 2", "has to succeed");
    let nodes = [nodes.as_slice(), &[tried(Outcome::Succeeded)]].concat();
    assert_eq!(names(&nodes, &policy("at-once = 3")), [(1, "evict"), (3, "drain")]);
    explains(&nodes, "at-once = 2", "as many nodes are down");
}

#[test]
fn a_release_is_tried_on_one_node_before_two_and_on_two_before_three() {
    let policy = policy("at-once = 10");
    let mut nodes = vec![asks(); 10];
    assert_eq!(names(&nodes, &policy), [(0, "drain")]);
    nodes[0] = tried(Outcome::Succeeded);
    assert_eq!(names(&nodes, &policy), [(1, "drain"), (2, "drain")]);
}

#[test]
fn a_release_that_failed_is_granted_to_no_further_node() {
    let nodes = [tried(Outcome::Failed), asks(), drained(1, 0), granted(1)];
    assert_eq!(names(&nodes, &policy("at-once = 9")), [(2, "stop")]);
    explains(&nodes, "at-once = 9", "is stopped");
    let two = "at-once = 9\nstop-after-failures = 2";
    assert_eq!(names(&nodes, &policy(two)), [(2, "grant")]);
}

#[test]
fn a_node_that_does_not_come_back_is_a_failure_and_frees_its_place() {
    let lost = Node { is_ready: false, ..granted(1800 + 1) };
    assert_eq!(names(&[lost.clone(), asks()], &policy("")), []);
    explains(&[lost.clone(), asks()], "", "is stopped");
    assert_eq!(names(&[lost, asks()], &policy("stop-after-failures = 2")), [(1, "drain")]);
}

#[test]
fn the_time_of_a_reboot_counts_from_its_grant() {
    let late = Node { drained_since: Some(NOW - 9000), ..granted(60) };
    assert_eq!(names(&[late, asks()], &policy("stop-after-failures = 9")), []);
    let by_hand = Node { granted: Some("2".to_owned()), is_ready: false, ..asks() };
    assert_eq!(names(&[by_hand.clone(), asks()], &policy("")), [(0, "note")]);
    let lost = Node { granted_since: Some(NOW - 1801), ..by_hand };
    assert_eq!(names(&[lost, asks()], &policy("stop-after-failures = 2")), [(1, "drain")]);
}

#[test]
fn a_node_that_asks_for_the_next_release_meanwhile_waits_for_its_turn_again() {
    let mut nodes = vec![tried(Outcome::Succeeded); 9];
    for node in &mut nodes {
        let next = drained(60, 0);
        let request = Request { version: "3".to_owned(), since: NOW - 5 };
        *node = Node { request: Some(request), result: node.result.clone(), ..next };
    }
    let all: Vec<_> = (0..9).map(|index| (index, "requeue")).collect();
    assert_eq!(names(&nodes, &policy("at-once = 9")), all);
    for node in &mut nodes {
        (node.drained_since, node.drained_for, node.is_cordoned) = (None, None, false);
    }
    assert_eq!(names(&nodes, &policy("at-once = 9")), [(0, "drain")]);
    let of_an_older_tool = Node { drained_for: None, ..drained(10, 0) };
    assert_eq!(names(&[of_an_older_tool], &policy("")), [(0, "grant")]);
}

#[test]
fn at_most_one_node_of_the_control_plane_is_down() {
    let policy = policy("at-once = 9\nstop-after-failures = 9");
    let proven = vec![tried(Outcome::Succeeded); 9];
    let of = |node: Node| Node { is_control_plane: true, ..node };
    let with = |nodes: &[Node]| names(&[nodes, &proven].concat(), &policy);
    assert_eq!(with(&[of(asks()), of(asks()), asks()]), [(0, "drain"), (2, "drain")]);
    let lost = Node { is_ready: false, ..idle() };
    for down in [drained(1, 1), granted(60), granted(1801), lost.clone()] {
        let steps = with(&[of(down), of(asks())]);
        assert!(!steps.contains(&(1, "drain")), "{steps:?}");
    }
    assert_eq!(with(&[lost, of(asks())]), [(1, "drain")]);
    let drained = of(drained(1, 0));
    assert_eq!(with(&[drained.clone(), of(idle())]), [(0, "grant")]);
    let lost = of(Node { is_ready: false, ..idle() });
    assert_eq!(with(&[drained, lost.clone()]), [(0, "evict")]);
    let late = [of(self::drained(901, 0)), lost];
    let found = steps(&[&late[..], &proven].concat(), &policy, NOW);
    let why = "another node of the control plane is down".to_owned();
    assert_eq!(found, [(0, Step::Stop(why))]);
}

#[test]
fn nodes_that_could_not_be_drained_come_after_all_others() {
    let failed = Node { drain_failed: Some(NOW - 3601), ..asks() };
    let fresh = Node { place: 9999, ..asks() };
    assert_eq!(names(&[failed.clone(), fresh.clone()], &policy("")), [(1, "drain")]);
    let waves = "waves = [1]\nwave-s = 60\nat-once = 9\nstop-after-failures = 9";
    let nodes = [failed, fresh, tried(Outcome::Succeeded), tried(Outcome::Succeeded)];
    assert_eq!(names(&nodes, &policy(waves)), [(1, "drain"), (0, "drain")]);
}

#[test]
fn a_drain_that_never_ends_is_given_up_and_frees_its_place() {
    assert_eq!(names(&[drained(901, 1), asks()], &policy("")), [(0, "give up")]);
    let given_up = Node { drain_failed: Some(NOW - 10), ..asks() };
    assert_eq!(names(&[given_up.clone(), asks()], &policy("")), [(1, "drain")]);
    let later = Node { drain_failed: Some(NOW - 3600), ..asks() };
    assert_eq!(names(&[later, given_up], &policy("")), [(0, "drain")]);
}

#[test]
fn a_window_bounds_when_drains_begin_and_not_when_they_end() {
    // NOW is 13:46 on a Monday.
    let closed = "windows = [{ start = '14:00', hours = 1 }]";
    assert_eq!(names(&[asks()], &policy(closed)), []);
    assert_eq!(names(&[drained(60, 0)], &policy(closed)), [(0, "grant")]);
    explains(&[asks()], closed, "window");
    let open = "windows = [{ days = ['mon'], start = '13:00', hours = 1 }]";
    assert_eq!(names(&[asks()], &policy(open)), [(0, "drain")]);
}

#[test]
fn a_wave_waits_for_those_before_it_and_for_its_time() {
    let waves = "at-once = 9\nwaves = [1]\nwave-s = 60";
    let second = Node { place: 5000, ..asks() };
    let first = Node { place: 50, ..asks() };
    assert_eq!(names(&[second.clone(), first.clone()], &policy(waves)), [(1, "drain")]);
    explains(&[second.clone(), first.clone()], waves, "wave");
    let later = waves.replace("60", "61");
    assert_eq!(names(from_ref(&second), &policy(&later)), []);
    assert_eq!(names(from_ref(&second), &policy(waves)), [(0, "drain")]);
    // One that was drained for a release before has its turn first, although it is cordoned.
    let request = Request { version: "3".to_owned(), since: NOW - 60 };
    let superseded = Node { place: 50, request: Some(request.clone()), ..drained(60, 0) };
    let third = Node { request: Some(request), ..second.clone() };
    assert_eq!(names(&[third, superseded], &policy(waves)), [(1, "requeue")]);
    // A node that cannot be updated holds up nobody.
    for stuck in [
        Node { is_ready: false, ..first.clone() },
        Node { is_cordoned: true, ..first.clone() },
        Node { drain_failed: Some(NOW - 1), ..first },
    ] {
        assert_eq!(names(&[second.clone(), stuck], &policy(waves)), [(0, "drain")]);
    }
}

#[test]
fn a_request_whose_time_does_not_count_waits_for_its_wave_once() {
    let policy = policy("waves = [1]\nwave-s = 60");
    let round = |since: &str, now| {
        let annotation = |key: &str| match key {
            WANTED => Some("2"),
            SINCE => Some(since),
            _ => None,
        };
        let node = Node { place: 5000, is_ready: true, ..Node::parse("a", now, annotation) };
        steps(&[node], &policy, now)
    };
    for wrong in ["9999-01-01T00:00:00Z", "yesterday"] {
        assert_eq!(round(wrong, NOW), [(0, Step::NoteRequest)]);
        // Without the note, each round counts it as of itself.
        assert_eq!(round(wrong, NOW + 60), [(0, Step::NoteRequest)]);
    }
    let noted = "1970-01-12T13:46:40Z";
    assert_eq!(round(noted, NOW), []);
    assert_eq!(round(noted, NOW + 60), [(0, Step::Drain)]);
}

#[test]
fn a_reason_is_given_after_the_deadline_and_once() {
    let waits = Node { is_ready: false, ..asks() };
    assert_eq!(names(from_ref(&waits), &policy("deadline-s = 60")), []);
    assert_eq!(names(from_ref(&waits), &policy("deadline-s = 59")), [(0, "explain")]);
    let explained = Node { waits: Some("the node is not Ready".to_owned()), ..waits };
    assert_eq!(names(&[explained], &policy("deadline-s = 59")), []);
}

/// Any node, in any combination of marks.
fn any_node() -> impl Strategy<Value = Node> {
    let ago = || prop::option::of(0..8000i64);
    let version = || prop::sample::select(vec!["1", "2"]).prop_map(str::to_owned);
    let outcome = prop::sample::select(vec![Outcome::Succeeded, Outcome::Failed]);
    let flags = (any::<[bool; 3]>(), 0..3usize, 0..10_000u16);
    let request = prop::option::of((version(), 0..200_000i64));
    let result = prop::option::of((version(), outcome));
    let granted = (prop::option::of(version()), ago());
    let drained = (prop::option::of(version()), ago(), ago());
    (flags, request, granted, result, drained).prop_map(
        |(flags, request, (granted, granted_ago), result, (drained_for, drained, failed))| {
            let ([is_ready, is_cordoned, is_control_plane], pods_left, place) = flags;
            let since = |ago: Option<i64>| ago.map(|ago| NOW - ago);
            Node {
                place,
                is_ready,
                is_cordoned,
                is_control_plane,
                request: request.map(|(version, ago)| Request { version, since: NOW - ago }),
                is_undated: false,
                granted,
                granted_since: since(granted_ago),
                result,
                drained_since: since(drained),
                drained_for,
                drain_failed: since(failed),
                waits: None,
                pods_left,
            }
        },
    )
}

/// A node that was drained, and should have had its result by now.
fn is_overdue(node: &Node) -> bool {
    let is_older = |since: Option<i64>, limit| since.is_some_and(|since| NOW - since > limit);
    match node.request.is_some() {
        true => node.is_granted() && is_older(node.granted_since, 1800),
        false => is_older(node.drained_since, 2700) && !node.is_ready,
    }
}

proptest! {
    #[test]
    fn no_cluster_has_more_nodes_drained_than_allowed(
        nodes in prop::collection::vec(any_node(), 0..40), at_once in 1..8usize,
    ) {
        let policy = policy(&format!("at-once = {at_once}\nstop-after-failures = 3"));
        let steps = steps(&nodes, &policy, NOW);
        let begins = steps.iter().filter(|(_, step)| *step == Step::Drain).count();
        let is_down = |node: &&Node| node.drained_since.is_some() && !is_overdue(node);
        let down = nodes.iter().filter(is_down).count();
        prop_assert!(begins == 0 || down + begins <= at_once, "{down} + {begins}");
    }

    #[test]
    fn no_node_reboots_with_pods_or_without_having_asked(
        nodes in prop::collection::vec(any_node(), 0..40),
    ) {
        for (index, step) in steps(&nodes, &policy("at-once = '50%'"), NOW) {
            let node = &nodes[index];
            match step {
                Step::Grant => prop_assert!(
                    node.request.is_some() && node.drained_since.is_some() && node.pods_left == 0
                ),
                Step::Drain => prop_assert!(node.is_ready && !node.is_cordoned),
                Step::Uncordon => prop_assert!(node.request.is_none() && node.is_ready),
                Step::Requeue => prop_assert!(!node.is_granted()),
                _ => {}
            }
        }
    }
}

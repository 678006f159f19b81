//! 100,000 simulated nodes and the policy of a large cluster: how long a release takes, how many
//! nodes are down at once, and how far a bad release gets.

use osbuild_grants::{Node, Outcome, Policy, Request, Step, steps};

const NODES: usize = 100_000;
/// Seconds between two looks at the cluster.
const TICK: i64 = 120;
/// A Monday, 20:00 UTC.
const START: i64 = 1_795_464_000;

/// Three percent at once, at night, first one percent of the nodes, then ten.
const POLICY: &str = "
    at-once = '3%'
    windows = [{ start = '22:00', hours = 8 }]
    waves = [1, 10]
    wave-s = 3600
    stop-after-failures = '1%'
";

/// The effect of a release on a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It becomes good.
    Good,
    /// It is tried three times, and the node goes back.
    GoesBack,
    /// The node never comes back.
    Lost,
    /// The pods of the node have budgets that forbid every eviction.
    Undrainable,
}

struct Simulated {
    fate: Fate,
    /// When it sees the release.
    asks: i64,
    /// How long its pods take to end.
    drain: i64,
    /// When it has its result.
    result: Option<i64>,
}

/// The result of a simulation.
#[derive(Debug, Default)]
struct Report {
    hours: f64,
    succeeded: usize,
    failed: usize,
    most_down: usize,
    waiting: usize,
}

/// A number that looks random, from 0 to `below`.
fn random(node: usize, salt: u64, below: u64) -> u64 {
    let mut hash = (node as u64).wrapping_add(salt << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ (hash >> 31)) % below
}

/// Runs a release that goes back on `bad` of 1000 nodes, until nothing happens any more.
fn simulate(bad: u64) -> Report {
    let policy = Policy::parse(POLICY).unwrap();
    let names = (0..NODES).map(|index| format!("node-{index}"));
    let mut nodes: Vec<Node> =
        names.map(|name| Node { is_ready: true, ..Node::parse(&name, START, |_| None) }).collect();
    let mut all: Vec<Simulated> = (0..NODES)
        .map(|index| Simulated {
            fate: match random(index, 1, 10_000) {
                0 => Fate::Lost,
                1..11 => Fate::Undrainable,
                _ if random(index, 2, 1000) < bad => Fate::GoesBack,
                _ => Fate::Good,
            },
            asks: START + random(index, 3, 3960) as i64,
            drain: 30 + random(index, 4, 300) as i64,
            result: None,
        })
        .collect();
    let (mut report, mut now, mut last) = (Report::default(), START, START);
    let mut idle = 0;
    // Nothing has happened for three hours of the night.
    while idle < 3 * 3600 / TICK {
        idle += 1;
        for (node, simulated) in nodes.iter_mut().zip(&mut all) {
            live(node, simulated, now);
        }
        for (index, step) in steps(&nodes, &policy, now) {
            let is_progress = matches!(step, Step::Grant | Step::Uncordon);
            carry_out(&mut nodes[index], &mut all[index], step, now);
            (last, idle) = if is_progress { (now, 0) } else { (last, idle) };
        }
        let is_down = |node: &&Node| node.is_cordoned || !node.is_ready;
        report.most_down = report.most_down.max(nodes.iter().filter(is_down).count());
        now += TICK;
        // During the day, nothing begins, and soon nothing goes on.
        if (8..22).contains(&(now / 3600 % 24)) && now > START + 3960 {
            now += 22 * 3600 - now % 86_400;
        }
    }
    report.hours = (last - START) as f64 / 3600.0;
    for node in &nodes {
        match node.result {
            Some((_, Outcome::Succeeded)) => report.succeeded += 1,
            Some((_, Outcome::Failed)) => report.failed += 1,
            None => report.waiting += 1,
        }
    }
    report
}

/// Applies the changes that a node makes by itself: its request, the end of its pods, its result.
fn live(node: &mut Node, simulated: &mut Simulated, now: i64) {
    if node.result.is_none() && node.request.is_none() && now >= simulated.asks {
        node.request = Some(Request { version: "2".to_owned(), since: now });
    }
    if let Some(since) = node.drained_since {
        let ends = simulated.fate != Fate::Undrainable && now - since >= simulated.drain;
        node.pods_left = usize::from(!ends);
    }
    if simulated.result.is_some_and(|result| now >= result) {
        let good = simulated.fate == Fate::Good;
        let outcome = if good { Outcome::Succeeded } else { Outcome::Failed };
        node.result = Some(("2".to_owned(), outcome));
        (node.request, node.granted, node.is_ready, simulated.result) = (None, None, true, None);
    }
}

fn carry_out(node: &mut Node, simulated: &mut Simulated, step: Step, now: i64) {
    match step {
        Step::Drain => {
            (node.drained_since, node.is_cordoned, node.pods_left) = (Some(now), true, 1)
        }
        Step::Grant => {
            (node.granted, node.granted_since) = (Some("2".to_owned()), Some(now));
            node.is_ready = false;
            // It sees the grant within a minute, reboots in three, and is good after one more.
            simulated.result = match simulated.fate {
                Fate::Lost => None,
                Fate::GoesBack => Some(now + 960),
                _ => Some(now + 300),
            };
        }
        Step::GiveUp(_) => {
            (node.drained_since, node.is_cordoned) = (None, false);
            node.drain_failed = Some(now);
        }
        Step::Stop(_) | Step::Uncordon | Step::Requeue => {
            (node.drained_since, node.is_cordoned) = (None, false)
        }
        Step::Explain(why) => node.waits = Some(why),
        Step::Evict | Step::NoteGrant | Step::NoteRequest => {}
    }
}

#[test]
fn a_good_release_reaches_100_000_nodes_in_two_nights() {
    let report = simulate(0);
    println!("{report:?}");
    assert!(report.hours < 34.0, "{report:?}");
    // The others cannot be drained, or do not come back.
    assert!(report.succeeded > 99_800 && report.failed == 0, "{report:?}");
    // Nodes that never came back stay cordoned beside those that reboot.
    assert!((2900..3020).contains(&report.most_down), "{report:?}");
}

#[test]
fn a_bad_release_reaches_one_of_100_000_nodes() {
    let report = simulate(1000);
    println!("{report:?}");
    assert_eq!((report.failed, report.succeeded, report.most_down), (1, 0, 1), "{report:?}");
}

#[test]
fn a_release_that_fails_on_every_twentieth_node_stops_early() {
    let report = simulate(50);
    println!("{report:?}");
    assert!(report.failed >= 1 && report.failed + report.succeeded < 100, "{report:?}");
}

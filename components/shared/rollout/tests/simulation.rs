//! 100,000 simulated nodes that are in no cluster: how long a release takes, how many nodes are
//! down at once, and how many get a bad release before its publisher stops it.

use jiff::Timestamp;
use osbuild_rollout::{Hold, Rollout, Schedule};

const NODES: usize = 100_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
/// A Monday.
const START: &str = "2026-11-23T00:00:00Z";
/// Two weeks later, all is over.
const END: i64 = 14 * 24 * HOUR;

/// Waves that begin at once, and others whose nodes begin one after the other.
const STEPS: &str = "
    waves = [
        { nodes = '0.1%' },
        { nodes = '1%', after-hours = 24 },
        { nodes = '10%', after-hours = 48 },
        { nodes = '100%', after-hours = 72 },
    ]
";
const RAMPS: &str = "
    waves = [
        { nodes = '0.1%', over-hours = 24 },
        { nodes = '1%', after-hours = 24, over-hours = 24 },
        { nodes = '10%', after-hours = 48, over-hours = 24 },
        { nodes = '100%', after-hours = 72, over-hours = 72 },
    ]
";
const NIGHT: &str = "windows = [{ start = '22:00', hours = 8 }]";

/// The result of a simulation.
#[derive(Debug)]
struct Report {
    /// The hours until the last node with a right clock has updated.
    hours: f64,
    updated: usize,
    most_down: usize,
    /// Nodes that updated before their time, because their clock is fast.
    early: usize,
}

/// A number that looks random, from 0 to `below`.
fn random(node: usize, salt: u64, below: i64) -> i64 {
    let mut hash = (node as u64).wrapping_add(salt << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((hash ^ (hash >> 31)) % below as u64) as i64
}

/// How much a node's clock is fast, in seconds: on one of 1000 nodes, up to a day.
fn clock_error(node: usize) -> i64 {
    match random(node, 1, 1000) {
        0 => random(node, 2, 48 * HOUR) - 24 * HOUR,
        _ => 0,
    }
}

/// When a node goes down for its update, in seconds after the rollout began; `None` if it never
/// does. It looks about every 50 minutes, as a node that waits does, and downloads for up to half
/// an hour. It sees a stop at its next look.
fn updates(node: usize, rollout: &Rollout, stop: Option<i64>) -> Option<i64> {
    let machine = format!("{node:032x}");
    let (stopped, error) = (rollout.clone().stop(), clock_error(node));
    let hold = |rollout: &Rollout, now: i64| {
        let second = rollout.begins().as_second() + now + error;
        rollout.hold(&machine, Timestamp::from_second(second).unwrap())
    };
    let (mut now, mut looks, mut is_written) = (random(node, 3, HOUR), 0, false);
    while now < END {
        let seen = if stop.is_some_and(|stop| now >= stop) { &stopped } else { rollout };
        match hold(seen, now) {
            Some(Hold::Stopped) => return None,
            None if !is_written => {
                now += 2 * MINUTE + random(node, 4, 28 * MINUTE);
                is_written = true;
                // The window may have closed. It does not read the metadata again.
                if hold(rollout, now).is_none() {
                    return Some(now);
                }
            }
            None => return Some(now),
            Some(_) => {}
        }
        looks += 1;
        now += 45 * MINUTE + random(node, 4 + looks, 10 * MINUTE);
    }
    None
}

/// Runs a release that its publisher stops after some hours.
fn simulate(schedule: &str, stop_hours: Option<i64>) -> Report {
    let schedule: Schedule = toml::from_str(schedule).unwrap();
    let rollout = Rollout::new(schedule, "1.0.1", START.parse().unwrap());
    let stop = stop_hours.map(|hours| hours * HOUR);
    let all = (0..NODES).map(|node| (node, updates(node, &rollout, stop)));
    let all: Vec<(usize, i64)> = all.filter_map(|(node, at)| Some((node, at?))).collect();
    // A node is down for five minutes.
    let mut events: Vec<(i64, i64)> =
        all.iter().flat_map(|(_, at)| [(*at, 1), (*at + 5 * MINUTE, -1)]).collect();
    events.sort_unstable();
    let (mut down, mut most_down) = (0, 0);
    for (_, change) in events {
        down += change;
        most_down = most_down.max(down);
    }
    let is_early = |(node, at): &&(usize, i64)| {
        let second = rollout.begins().as_second() + at;
        let hold = rollout.hold(&format!("{node:032x}"), Timestamp::from_second(second).unwrap());
        matches!(hold, Some(Hold::Wave(_)))
    };
    let right = all.iter().filter(|(node, _)| clock_error(*node) == 0).map(|(_, at)| *at);
    let last = right.max().unwrap_or_default();
    Report {
        hours: last as f64 / HOUR as f64,
        updated: all.len(),
        most_down: most_down as usize,
        early: all.iter().filter(is_early).count(),
    }
}

#[test]
fn all_of_100_000_nodes_update_within_the_last_wave() {
    let (at_once, steps, ramps, nights) = (
        simulate("", None),
        simulate(STEPS, None),
        simulate(RAMPS, None),
        simulate(&format!("{RAMPS}{NIGHT}"), None),
    );
    println!("at once {at_once:?}\nsteps {steps:?}\nramps {ramps:?}\nnights {nights:?}");
    for report in [&at_once, &steps, &ramps, &nights] {
        assert_eq!(report.updated, NODES, "{report:?}");
    }
    assert!(steps.hours < 74.0 && ramps.hours < 146.0, "{steps:?} {ramps:?}");
    // Without ramps, nodes spread only over the time between two looks.
    assert!(ramps.most_down * 20 < steps.most_down, "{steps:?} {ramps:?}");
    assert!(ramps.early < 60 && nights.early < 60, "{ramps:?} {nights:?}");
}

#[test]
fn a_bad_release_reaches_the_waves_that_began_before_it_was_stopped() {
    for (schedule, hours, least, most) in [
        // All but those with a slow clock.
        ("", 6, 99_900, 100_000),
        (STEPS, 6, 80, 150),
        (STEPS, 36, 900, 1150),
        (RAMPS, 6, 20, 80),
        (RAMPS, 36, 450, 650),
        (RAMPS, 60, 5000, 6000),
    ] {
        let report = simulate(schedule, Some(hours));
        println!("stopped after {hours} h: {report:?}");
        assert!((least..=most).contains(&report.updated), "{hours}: {report:?}");
    }
}

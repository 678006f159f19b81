use super::*;
use proptest::prelude::*;

const MACHINE: &str = "0123456789abcdef0123456789abcdef";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn rollout(schedule: &str) -> Rollout {
    let schedule = toml::from_str(schedule).unwrap();
    Rollout::new(schedule, "1.0.1", time("2026-11-26T00:00:00Z"))
}

/// The reason to wait that a node logs at this time; empty if it does not wait.
fn line(rollout: &Rollout, now: &str) -> String {
    rollout.hold(MACHINE, time(now)).map(|hold| hold.to_string()).unwrap_or_default()
}

#[test]
fn a_node_waits_for_its_wave_and_then_for_a_window() {
    let rollout = rollout(
        "waves = [{ nodes = '0.01%' }, { nodes = '100%', after-hours = 24 }]\n\
         windows = [{ start = '22:00', hours = 8 }]",
    );
    for (now, expected) in [
        ("2026-11-26T23:59:59Z", "waits for its wave, which begins at 2026-11-27T00:00:00Z"),
        ("2026-11-27T00:00:00Z", ""),
        (
            "2026-11-27T06:00:00Z",
            "waits for a maintenance window, which opens at 2026-11-27T22:00:00Z",
        ),
        ("2026-11-27T22:00:00Z", ""),
    ] {
        assert_eq!(line(&rollout, now), expected, "{now}");
    }
}

#[test]
fn a_node_that_no_wave_reaches_waits_for_its_publisher() {
    let rollout = rollout("waves = [{ nodes = '0.5%' }]");
    let expected = "waits for a wave of its publisher: it goes to 0.5% of the nodes so far";
    assert_eq!(line(&rollout, "2030-01-01T00:00:00Z"), expected);
}

#[test]
fn a_stopped_release_is_for_nobody() {
    let stopped = rollout("").stop();
    assert_eq!(line(&stopped, "2030-01-01T00:00:00Z"), "was stopped by its publisher");
    assert_eq!(stopped.to_string(), "no further node: it is stopped");
}

#[test]
fn a_clock_that_was_never_set_is_before_every_wave() {
    let hold = rollout("").hold(MACHINE, Timestamp::UNIX_EPOCH);
    assert_eq!(hold, Some(Hold::Wave(time("2026-11-26T00:00:00Z"))));
}

#[test]
fn a_publisher_reads_which_nodes_it_reaches_and_when() {
    let rollout = rollout(
        "waves = [{ nodes = '1%' }, { nodes = '50%', after-hours = 24, over-hours = 8 }]\n\
         windows = [{ start = '22:00', hours = 8 }]",
    );
    assert_eq!(
        rollout.to_string(),
        "nodes: 1% from 2026-11-26T00:00:00Z, 50% from 2026-11-27T00:00:00Z, in a maintenance \
         window"
    );
    let to_all = Rollout::new(Schedule::default(), "1", time("2026-11-26T00:00:00Z"));
    assert_eq!(to_all.to_string(), "nodes: 100% from 2026-11-26T00:00:00Z");
}

#[test]
fn a_schedule_that_makes_no_sense_is_refused() {
    for (wrong, why) in [
        ("wave = []", "unknown field `wave`"),
        ("stopped = true", "unknown field `stopped`"),
        ("begins = 'tomorrow'", "begins"),
        ("waves = [{ nodes = '200%' }]", "`200%` is not a percentage"),
        ("windows = [{ start = '22:00', hours = 25 }]", "1 to 24 hours"),
        ("windows = [{ start = '22:00', hours = 8, zone = 'CET' }]", "unknown field `zone`"),
    ] {
        let error = toml::from_str::<Schedule>(wrong).unwrap_err().to_string();
        assert!(error.contains(why), "{wrong}: {error}");
    }
}

proptest! {
    #[test]
    fn a_node_that_may_begin_may_do_so_at_its_time_in_every_later_window(
        machine in "[0-9a-f]{32}",
        hours in 0i64..400,
        start in 0u8..24,
    ) {
        let rollout = rollout(&format!(
            "waves = [{{ nodes = '100%', over-hours = 100 }}]\n\
             windows = [{{ start = '{start:02}:00', hours = 1 }}]"
        ));
        let now = at(rollout.begins().as_second() + hours * 3600);
        match rollout.hold(&machine, now) {
            // The time that it says is true.
            Some(Hold::Window(opens)) => prop_assert_eq!(rollout.hold(&machine, opens), None),
            Some(Hold::Wave(begins)) => {
                let hold = rollout.hold(&machine, begins);
                prop_assert!(matches!(hold, None | Some(Hold::Window(_))), "{hold:?}");
            }
            hold => prop_assert_eq!(hold, None),
        }
    }

    #[test]
    fn no_time_and_no_identity_panic(
        second in -377_705_023_201i64..=253_402_207_200,
        name: String,
    ) {
        let rollout = rollout("waves = [{ nodes = '50%', after-hours = 9, over-hours = 65535 }]");
        let _ = rollout.hold(&name, at(second)).map(|hold| hold.to_string());
    }
}

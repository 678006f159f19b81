use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// Counts the steps that run at once, and their maximum.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    max: AtomicUsize,
}

impl Gauge {
    fn hold(&self) -> Result<()> {
        self.max.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        sleep(Duration::from_millis(20));
        self.now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn max(&self) -> usize {
        self.max.load(Ordering::SeqCst)
    }
}

#[test]
fn steps_get_their_needs_with_any_number_of_jobs() {
    for jobs in [0, 1, 2, 7] {
        let mut graph = Graph::new(Stop::default());
        let parts: Vec<_> =
            (0..5).map(|part| graph.step(Width::Narrow, (), move |()| Ok(part))).collect();
        let sum = graph.step(Width::Wide, &parts, |parts| Ok(parts.iter().sum::<i32>()));
        let text =
            graph.step(Width::Narrow, (&sum, &parts[1]), |(sum, part)| Ok(format!("{sum} {part}")));
        graph.run(jobs, &|_| {}).unwrap();
        assert_eq!(text.take(), "10 1");
    }
}

#[test]
fn at_most_as_many_steps_as_jobs_and_two_wide_ones_run_at_once() {
    for (width, jobs, max) in
        [(Width::Narrow, 3, 3), (Width::Narrow, 1, 1), (Width::Wide, 4, 2), (Width::Wide, 1, 1)]
    {
        let gauge = Gauge::default();
        let mut graph = Graph::new(Stop::default());
        for _ in 0..8 {
            graph.step(width, (), |()| gauge.hold());
        }
        graph.run(jobs, &|_| {}).unwrap();
        assert_eq!(gauge.max(), max, "{width:?} {jobs}");
    }
}

#[test]
fn after_the_first_error_running_steps_finish_and_none_starts() {
    let [started, reported, finished] = [const { AtomicUsize::new(0) }; 3];
    let mut graph = Graph::new(Stop::default());
    graph.step(Width::Narrow, (), |()| {
        while reported.load(Ordering::SeqCst) == 0 {
            sleep(Duration::from_millis(1));
        }
        Ok(finished.fetch_add(1, Ordering::SeqCst))
    });
    let failing =
        graph.step(Width::Narrow, (), |()| -> Result<()> { Err(Error::build("the reason")) });
    graph.step(Width::Narrow, &failing, |()| Ok(started.fetch_add(1, Ordering::SeqCst)));
    graph.step(Width::Narrow, (), |()| Ok(started.fetch_add(1, Ordering::SeqCst)));
    let report = |event: Event<'_>| {
        if let Event::Failed(error) = event {
            assert_eq!(error.problems[0].message, "the reason");
            reported.fetch_add(1, Ordering::SeqCst);
        }
    };
    let error = graph.run(2, &report).unwrap_err();
    let counts = [&started, &reported, &finished].map(|count| count.load(Ordering::SeqCst));
    assert_eq!((error.problems[0].message.as_str(), counts), ("the reason", [0, 1, 1]));
}

#[test]
fn each_step_that_ends_is_reported() {
    let mut graph = Graph::new(Stop::default());
    let first = graph.step(Width::Narrow, (), |()| Ok(()));
    graph.step(Width::Narrow, &first, |()| Ok(()));
    graph.step(Width::Wide, &first, |()| Ok(()));
    let (count, done) = (graph.count(), AtomicUsize::new(0));
    let observer = |event: Event<'_>| {
        assert!(matches!(event, Event::Done));
        done.fetch_add(1, Ordering::SeqCst);
    };
    graph.run(2, &observer).unwrap();
    assert_eq!((count, done.into_inner()), (3, 3));
}

#[test]
fn a_graph_that_is_stopped_ends_with_that_error() {
    let stop = Stop::default();
    let mut graph = Graph::new(stop.clone());
    graph.step(Width::Narrow, (), |()| {
        stop.set();
        Ok(())
    });
    graph.step(Width::Narrow, (), |()| Ok(()));
    assert_eq!(graph.run(1, &|_| {}).unwrap_err().kind, Kind::Stopped);
}

#[test]
#[should_panic(expected = "a scoped thread panicked")]
fn a_panic_in_a_step_is_passed_on() {
    let mut graph = Graph::new(Stop::default());
    let broken = graph.step(Width::Narrow, (), |()| -> Result<()> { panic!("broken") });
    graph.step(Width::Narrow, &broken, |()| Ok(()));
    let _ = graph.run(3, &|_| {});
}

#[test]
fn an_empty_graph_is_done() {
    Graph::new(Stop::default()).run(2, &|_| {}).unwrap();
}

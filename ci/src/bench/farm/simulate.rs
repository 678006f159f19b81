//! How long a build takes on a number of workers: a pure function of its steps, their times and
//! what each waits for.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

/// A step of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// How long a worker runs it.
    pub time: Duration,
    /// The steps whose results it needs, by their places in the list. All are before it.
    pub needs: BTreeSet<usize>,
}

/// How a build goes on a number of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// From the first step's start to the last one's end.
    pub makespan: Duration,
    /// The time of all steps, one after another.
    pub work: Duration,
    /// The longest chain of steps that wait for each other: no number of workers is faster.
    pub chain: Chain,
}

/// Steps of which each waits for the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The time of all of them.
    pub time: Duration,
    /// Their places in the list.
    pub steps: Vec<usize>,
}

/// The limit of a build's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The longest chain of steps.
    Chain,
    /// The number of workers.
    Workers,
}

impl Schedule {
    /// How many times as fast as one worker.
    pub fn speed_up(&self) -> f64 {
        match self.makespan {
            Duration::ZERO => 1.0,
            makespan => self.work.as_secs_f64() / makespan.as_secs_f64(),
        }
    }

    /// The limit of its speed: the chain if the build is no longer than that.
    pub fn limit(&self) -> Limit {
        if self.makespan == self.chain.time { Limit::Chain } else { Limit::Workers }
    }
}

/// Runs `tasks` on `workers` of the same speed. Each step costs `overhead` on top of its time. Of
/// the steps that can start, the one with the longest chain behind it starts first.
pub fn simulate(tasks: &[Task], workers: usize, overhead: Duration) -> Schedule {
    let times: Vec<Duration> = tasks.iter().map(|task| task.time + overhead).collect();
    let (behind, next) = chains(tasks, &times);
    let mut left: Vec<usize> = tasks.iter().map(|task| task.needs.len()).collect();
    let mut ready: BinaryHeap<(Duration, Reverse<usize>)> = BinaryHeap::new();
    let can_start = |step: &usize| tasks[*step].needs.is_empty();
    ready.extend((0..tasks.len()).filter(can_start).map(|step| (behind[step], Reverse(step))));
    let mut running: BinaryHeap<Reverse<(Duration, usize)>> = BinaryHeap::new();
    let mut now = Duration::ZERO;
    loop {
        while running.len() < workers.max(1)
            && let Some((_, Reverse(step))) = ready.pop()
        {
            running.push(Reverse((now + times[step], step)));
        }
        let Some(Reverse((end, ended))) = running.pop() else { break };
        now = end;
        for step in ended + 1..tasks.len() {
            if tasks[step].needs.contains(&ended) {
                left[step] -= 1;
                if left[step] == 0 {
                    ready.push((behind[step], Reverse(step)));
                }
            }
        }
    }
    let first = (0..tasks.len()).max_by_key(|step| (behind[*step], Reverse(*step)));
    let time = first.map(|step| behind[step]).unwrap_or_default();
    let steps = std::iter::successors(first, |step| next[*step]).collect();
    Schedule { makespan: now, work: times.iter().sum(), chain: Chain { time, steps } }
}

/// For each step, the time of the longest chain that begins with it, and the chain's second step.
fn chains(tasks: &[Task], times: &[Duration]) -> (Vec<Duration>, Vec<Option<usize>>) {
    let (mut behind, mut next) = (times.to_vec(), vec![None; tasks.len()]);
    for step in (0..tasks.len()).rev() {
        for need in &tasks[step].needs {
            let with = times[*need] + behind[step];
            if with > behind[*need] {
                (behind[*need], next[*need]) = (with, Some(step));
            }
        }
    }
    (behind, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(seconds: u64, needs: &[usize]) -> Task {
        let needs = needs.iter().copied().collect();
        Task { name: String::new(), time: Duration::from_secs(seconds), needs }
    }

    fn simulated(tasks: &[Task], workers: usize) -> (u64, Limit) {
        let schedule = simulate(tasks, workers, Duration::ZERO);
        (schedule.makespan.as_secs(), schedule.limit())
    }

    #[test]
    fn steps_that_need_each_other_gain_nothing_from_workers() {
        let chain = [task(3, &[]), task(4, &[0]), task(5, &[1])];
        assert_eq!(simulated(&chain, 1), (12, Limit::Chain));
        assert_eq!(simulated(&chain, 64), (12, Limit::Chain));
        let schedule = simulate(&chain, 64, Duration::from_secs(1));
        assert_eq!(schedule.chain, Chain { time: Duration::from_secs(15), steps: vec![0, 1, 2] });
        assert!((schedule.speed_up() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn steps_that_need_nothing_are_shared_out() {
        let all = vec![task(2, &[]); 8];
        assert_eq!(simulated(&all, 1), (16, Limit::Workers));
        assert_eq!(simulated(&all, 3), (6, Limit::Workers));
        assert_eq!(simulated(&all, 8), (2, Limit::Chain));
        assert!((simulate(&all, 8, Duration::ZERO).speed_up() - 8.0).abs() < 1e-9);
    }

    #[test]
    fn the_longest_chain_starts_first() {
        let tasks = [task(1, &[]), task(1, &[]), task(1, &[]), task(9, &[2])];
        assert_eq!(simulated(&tasks, 2), (10, Limit::Chain));
    }

    #[test]
    fn a_build_without_steps_takes_no_time() {
        let schedule = simulate(&[], 4, Duration::from_secs(1));
        assert_eq!((schedule.makespan, schedule.chain.steps.len()), (Duration::ZERO, 0));
        assert!((schedule.speed_up() - 1.0).abs() < 1e-9);
    }

    /// Graham's bounds (1969): no schedule beats them, and ours is never above them.
    #[test]
    fn every_schedule_is_between_the_bounds() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            let count = random.usize(1..40);
            let tasks: Vec<Task> = (0..count)
                .map(|step| {
                    let needs: Vec<usize> = (0..step).filter(|_| random.u8(0..8) == 0).collect();
                    task(random.u64(0..20), &needs)
                })
                .collect();
            for workers in [1, 2, 5, 64] {
                let schedule = simulate(&tasks, workers, Duration::from_secs(1));
                let share = schedule.work / workers as u32;
                assert!(schedule.makespan >= schedule.chain.time.max(share), "{schedule:?}");
                assert!(schedule.makespan <= share + schedule.chain.time, "{schedule:?}");
            }
        }
    }
}

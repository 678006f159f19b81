//! Runs steps side by side, each after the steps whose results it needs.
//!
//! ```
//! # use osbuild::engine::graph::{Graph, Width};
//! # use osbuild::engine::stop::Stop;
//! let mut graph = Graph::new(Stop::default());
//! let kernel = graph.step(Width::Wide, (), |()| Ok("kernel"));
//! let init = graph.step(Width::Narrow, (), |()| Ok("init"));
//! let image = graph.step(Width::Narrow, (&kernel, &init), |(kernel, init)| {
//!     Ok(format!("{kernel} and {init}"))
//! });
//! graph.run(2, &|_| {})?;
//! assert_eq!(image.take(), "kernel and init");
//! # Ok::<(), osbuild::error::Error>(())
//! ```

use super::stop::Stop;
use crate::error::{Error, Kind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// The number of wide steps that run at once when there are several jobs: while one links on a
/// single core, the other compiles.
const WIDE_AT_ONCE: usize = 2;

/// The number of cores that one step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// About one.
    Narrow,
    /// All of them: `make -j`, `go build`, `cargo build`.
    Wide,
}

/// An event of a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// A step has ended with its result.
    Done,
    /// A step has ended with this error while others run, which are finished.
    Failed(&'a Error),
}

/// Steps and the steps that each waits for. A step can only wait for earlier ones, so there are no
/// cycles.
pub struct Graph<'a> {
    steps: Vec<Step<'a>>,
    stop: Stop,
}

struct Step<'a> {
    width: Width,
    needs: Vec<usize>,
    work: Box<dyn FnOnce() -> Result<()> + Send + 'a>,
}

/// The future result of a step.
pub struct Handle<T> {
    step: usize,
    slot: Arc<OnceLock<T>>,
}

impl<T: Clone> Handle<T> {
    /// The result.
    ///
    /// # Panics
    /// The graph has not run, or it ended with an error.
    pub fn take(&self) -> T {
        self.slot.get().expect("a step runs after those that it needs").clone()
    }
}

/// The needs of a step: nothing, a handle, a list of handles, or a pair of these.
pub trait Needs {
    /// The results.
    type Results;
    /// The steps that run before.
    fn steps(&self) -> Vec<usize>;
    /// Returns the results, after these steps have run.
    fn later(&self) -> Box<dyn FnOnce() -> Self::Results + Send>;
}

impl<T: Clone + Send + Sync + 'static> Needs for Handle<T> {
    type Results = T;
    fn steps(&self) -> Vec<usize> {
        vec![self.step]
    }
    fn later(&self) -> Box<dyn FnOnce() -> T + Send> {
        let handle = Handle { step: self.step, slot: Arc::clone(&self.slot) };
        Box::new(move || handle.take())
    }
}

impl<N: Needs> Needs for &N {
    type Results = N::Results;
    fn steps(&self) -> Vec<usize> {
        (*self).steps()
    }
    fn later(&self) -> Box<dyn FnOnce() -> N::Results + Send> {
        (*self).later()
    }
}

impl<N: Needs> Needs for Vec<N>
where
    N::Results: 'static,
{
    type Results = Vec<N::Results>;
    fn steps(&self) -> Vec<usize> {
        self.iter().flat_map(Needs::steps).collect()
    }
    fn later(&self) -> Box<dyn FnOnce() -> Self::Results + Send> {
        let each: Vec<_> = self.iter().map(Needs::later).collect();
        Box::new(|| each.into_iter().map(|one| one()).collect())
    }
}

impl Needs for () {
    type Results = ();
    fn steps(&self) -> Vec<usize> {
        Vec::new()
    }
    fn later(&self) -> Box<dyn FnOnce() + Send> {
        Box::new(|| ())
    }
}

impl<A: Needs, B: Needs> Needs for (A, B)
where
    A::Results: 'static,
    B::Results: 'static,
{
    type Results = (A::Results, B::Results);
    fn steps(&self) -> Vec<usize> {
        [self.0.steps(), self.1.steps()].concat()
    }
    fn later(&self) -> Box<dyn FnOnce() -> Self::Results + Send> {
        let (first, second) = (self.0.later(), self.1.later());
        Box::new(move || (first(), second()))
    }
}

impl<'a> Graph<'a> {
    /// A graph without steps. Once `stop` is requested, no further step starts.
    pub fn new(stop: Stop) -> Self {
        Graph { steps: Vec::new(), stop }
    }

    /// Adds a step whose `work` takes the results of its `needs`. Of several steps that can start,
    /// the one that was added first starts.
    pub fn step<N: Needs, T: Send + Sync + 'static>(
        &mut self,
        width: Width,
        needs: N,
        work: impl FnOnce(N::Results) -> Result<T> + Send + 'a,
    ) -> Handle<T>
    where
        N::Results: 'static,
    {
        let slot = Arc::new(OnceLock::new());
        let (later, result) = (needs.later(), Arc::clone(&slot));
        let work = Box::new(move || {
            let made = work(later())?;
            assert!(result.set(made).is_ok(), "a step runs once");
            Ok(())
        });
        self.steps.push(Step { width, needs: needs.steps(), work });
        Handle { step: self.steps.len() - 1, slot }
    }

    /// The number of steps.
    pub fn count(&self) -> usize {
        self.steps.len()
    }

    /// Runs all steps, at most `jobs` at once, and reports events to `observer`.
    ///
    /// Steps that run at the time of an error are finished: one may be a kernel after half an hour
    /// of compiling, and the next build uses its result.
    ///
    /// # Errors
    /// The first error of a step, after which no further step starts.
    pub fn run(self, jobs: usize, observer: &(dyn Fn(Event<'_>) + Sync)) -> Result<()> {
        let wide_at_once = WIDE_AT_ONCE.min(jobs.max(1));
        let left = self.steps.len();
        let waiting = self.steps.into_iter().map(Some).collect();
        let state =
            State { waiting, done: vec![false; left], left, running: 0, wide: 0, error: None };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, left.max(1)) {
                scope.spawn(|| work(&state, &changed, &self.stop, wide_at_once, observer));
            }
        });
        let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state.error {
            Some(error) => Err(error),
            None if state.left > 0 => Err(Error::stopped()),
            None => Ok(()),
        }
    }
}

/// The state that the workers of one run share.
struct State<'a> {
    waiting: Vec<Option<Step<'a>>>,
    done: Vec<bool>,
    left: usize,
    running: usize,
    wide: usize,
    error: Option<Error>,
}

impl<'a> State<'a> {
    /// Takes the first step that can start now.
    fn next(&mut self, wide_at_once: usize) -> Option<(usize, Step<'a>)> {
        let can_start = |step: &Step<'_>| {
            step.needs.iter().all(|need| self.done[*need])
                && (step.width == Width::Narrow || self.wide < wide_at_once)
        };
        let index = self.waiting.iter().position(|step| step.as_ref().is_some_and(can_start))?;
        let step = self.waiting[index].take()?;
        self.wide += usize::from(step.width == Width::Wide);
        self.running += 1;
        Some((index, step))
    }

    fn end(&mut self, index: usize, width: Width, result: Result<()>) {
        self.wide -= usize::from(width == Width::Wide);
        self.running -= 1;
        match result {
            Ok(()) => {
                self.done[index] = true;
                self.left -= 1;
            }
            // The reason of a failure is worth more than the error of a step that was stopped.
            Err(error)
                if self.error.as_ref().is_none_or(|first| {
                    first.kind == Kind::Stopped && error.kind != Kind::Stopped
                }) =>
            {
                self.error = Some(error);
            }
            Err(_) => {}
        }
    }
}

fn work(
    state: &Mutex<State<'_>>,
    changed: &Condvar,
    stop: &Stop,
    wide_at_once: usize,
    observer: &dyn Fn(Event<'_>),
) {
    let lock =
        || -> MutexGuard<'_, State<'_>> { state.lock().unwrap_or_else(PoisonError::into_inner) };
    let mut shared = lock();
    while shared.left > 0 && shared.error.is_none() && !stop.is_set() {
        let Some((index, step)) = shared.next(wide_at_once) else {
            shared = changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(shared);
        let result = catch_unwind(AssertUnwindSafe(step.work));
        if result.is_err() {
            stop.set();
        }
        shared = lock();
        shared.end(index, step.width, result.as_ref().map_or(Ok(()), Clone::clone));
        match &result {
            Ok(Ok(())) => observer(Event::Done),
            Ok(Err(error)) if shared.running > 0 && error.kind != Kind::Stopped => {
                observer(Event::Failed(error));
            }
            Ok(Err(_)) | Err(_) => {}
        }
        changed.notify_all();
        if let Err(panic) = result {
            drop(shared);
            resume_unwind(panic);
        }
    }
    changed.notify_all();
}

#[cfg(test)]
mod tests;

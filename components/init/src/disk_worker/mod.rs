//! The one thread of PID 1 that reads and writes the disk of the node: partitions, DATA and the
//! variables of the firmware. The event loop asks it for typed [jobs](Job), which it does one after
//! the other in the order of the requests, and the end of each is an event of the loop.
//!
//! **Disks of others.** A second worker looks for volumes with a node document, which may be on any
//! disk. A job of that one may never end: only further jobs of its kind wait for it.
//!
//! **A disk that never answers.** Only this thread waits for it. The loop goes on: it feeds the
//! watchdogs, restarts daemons, serves requests that need no disk, and refuses a request whose
//! [time](waiting) is over. When one job has taken [`MAX_JOB_TIME`], the node cannot go on: the
//! loop prints that as a failure and begins a shutdown, with or without a watchdog. A shutdown
//! waits for the remaining jobs for a limited time, and not at all for a job that has taken too
//! long; all its later waits are limited, too. The loop feeds the watchdogs up to the call that
//! ends the machine, so they reset a machine whose kernel hangs in that call.
//!
//! **Fork.** The loop starts programs while this thread works. Between fork and exec a child calls
//! async-signal-safe functions only (`processes/process.rs`), so it needs no lock that this thread
//! may hold, and exec closes all descriptors. A job starts no program: the loop reaps every
//! child of PID 1, so the job would not learn how the program ended. A mount of a job appears
//! in all threads and children, which share a mount namespace.

pub mod job;
pub mod phase_job;
pub mod waiting;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use osbuild_failure::{Explain, Failure, Outcome};
use rustix::event::{EventfdFlags, eventfd};

pub use job::{Done, Job};

/// How long a job may take. Even growing DATA on a large and slow disk takes less.
pub const MAX_JOB_TIME: Duration = Duration::from_secs(600);

/// How many jobs may be left when a client asks for another one.
pub const MAX_REQUESTED: usize = 32;

/// How many jobs may be left at all. `init` itself asks for few, whatever clients do.
const MAX_JOBS: usize = 256;

/// The thread, and the jobs that are left.
pub struct DiskWorker {
    /// `None` once it is closed.
    jobs: Option<Sender<(JobId, Job)>>,
    ends: Receiver<(JobId, Done)>,
    /// Becomes readable when a job has ended.
    wake: OwnedFd,
    /// The first one is under way.
    left: VecDeque<Left>,
    /// Since when the first one is under way, since boot.
    since: Duration,
}

/// The number of the last job of any worker.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Identifies a job until the node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobId(u64);

#[cfg(test)]
impl JobId {
    /// The job of this number.
    pub fn numbered(number: u64) -> JobId {
        JobId(number)
    }
}

/// A job that has not ended.
struct Left {
    name: &'static str,
    subject: &'static str,
}

/// The end of a job.
pub struct Ended {
    /// Which job.
    pub id: JobId,
    /// The name of lines about it on the console.
    pub subject: &'static str,
    /// Its result.
    pub done: Done,
}

impl DiskWorker {
    /// Starts the thread, which does each job with `run`. If that panics, so does PID 1.
    pub fn start(mut run: impl FnMut(Job) -> Done + Send + 'static) -> Outcome<DiskWorker> {
        let (jobs, requested) = channel::<(JobId, Job)>();
        let (send, ends) = channel();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).explain("make an event descriptor")?;
        let waker = wake.try_clone().explain("share the event descriptor")?;
        let work = move || {
            for (id, job) in requested {
                // Both fail only when PID 1 is gone.
                let _ = send.send((id, run(job)));
                let _ = rustix::io::write(&waker, &1u64.to_ne_bytes());
            }
        };
        thread::Builder::new()
            .spawn(work)
            .explain("start the thread that reads and writes disks")?;
        let (left, since) = (VecDeque::new(), Duration::ZERO);
        Ok(DiskWorker { jobs: Some(jobs), ends, wake, left, since })
    }

    /// Asks for a job of `init` itself, after all earlier ones. `now` is the time since boot.
    pub fn ask(&mut self, job: Job, now: Duration) -> Outcome<JobId> {
        if self.left.len() >= MAX_JOBS {
            return Err(Failure::new(format!("{MAX_JOBS} jobs wait for the disk")));
        }
        let jobs = self.jobs.as_ref().ok_or_else(|| Failure::new("the node ends"))?;
        let id = JobId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        let (name, subject) = (job.name(), job.subject());
        jobs.send((id, job)).explain("ask for a job")?;
        if self.left.is_empty() {
            self.since = now;
        }
        self.left.push_back(Left { name, subject });
        Ok(id)
    }

    /// How many jobs have not ended.
    pub fn left(&self) -> usize {
        self.left.len()
    }

    /// The descriptor that becomes readable when a job has ended.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The jobs that have ended since the last call. Never blocks.
    pub fn ends(&mut self, now: Duration) -> Vec<Ended> {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        let mut ended = Vec::new();
        while let Ok((id, done)) = self.ends.try_recv() {
            self.since = now;
            if let Some(Left { subject, .. }) = self.left.pop_front() {
                ended.push(Ended { id, subject, done });
            }
        }
        ended
    }

    /// When the job that is under way has taken too long, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        (!self.left.is_empty()).then(|| self.since + MAX_JOB_TIME)
    }

    /// Why the node cannot continue, if a job has taken too long.
    pub fn overdue(&self, now: Duration) -> Option<Failure> {
        let name = self.left.front()?.name;
        let seconds = MAX_JOB_TIME.as_secs();
        let text = || format!("`{name}` has not ended for {seconds} s: the disk does not answer");
        (self.deadline()? <= now).then(|| Failure::new(text()))
    }

    /// Stops accepting jobs. Those that are left are still done.
    pub fn close(&mut self) {
        self.jobs = None;
    }

    /// Whether it is closed and nothing is left to wait for.
    pub fn has_ended(&self, now: Duration) -> bool {
        self.jobs.is_none() && (self.left.is_empty() || self.overdue(now).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::time::Instant;

    use rustix::fs::{CWD, mkfifoat};

    /// A worker whose disk is a FIFO: it does not answer a job before a byte is written to it.
    fn hanging() -> (tempfile::TempDir, File, DiskWorker) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        mkfifoat(CWD, &path, 0o600.into()).unwrap();
        let answers = File::options().read(true).write(true).open(&path).unwrap();
        let worker = DiskWorker::start(move |job| {
            if let Job::KeepHostName(name) = job {
                return Done::Plain(Err(Failure::new(name)));
            }
            let read = File::open(&path).and_then(|mut disk| disk.read_exact(&mut [0]));
            Done::Plain(read.explain("read the disk"))
        });
        (folder, answers, worker.unwrap())
    }

    fn wait(worker: &mut DiskWorker) -> Vec<Ended> {
        let since = Instant::now();
        loop {
            let ended = worker.ends(Duration::ZERO);
            if !ended.is_empty() {
                return ended;
            }
            assert!(since.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn jobs_end_in_the_order_of_their_requests() {
        let (_folder, mut disk, mut worker) = hanging();
        let names = ["a", "b", "c"];
        let asked: Vec<JobId> = [worker.ask(Job::MarkGood, Duration::ZERO).unwrap()]
            .into_iter()
            .chain(names.map(|name| {
                worker.ask(Job::KeepHostName(name.to_owned()), Duration::ZERO).unwrap()
            }))
            .collect();
        assert!(worker.ends(Duration::ZERO).is_empty(), "the first one holds up the others");
        disk.write_all(b"x").unwrap();
        let mut ended = Vec::new();
        while ended.len() < asked.len() {
            ended.extend(wait(&mut worker));
        }
        assert_eq!(ended.iter().map(|one| one.id).collect::<Vec<_>>(), asked);
        let failures = ended[1..].iter().map(|one| match &one.done {
            Done::Plain(Err(failure)) => failure.to_string(),
            _ => String::new(),
        });
        assert_eq!(failures.collect::<Vec<_>>(), names);
    }

    #[test]
    fn a_job_that_never_ends_is_overdue_and_does_not_hold_up_the_shutdown() {
        let (_folder, mut disk, mut worker) = hanging();
        let at = Duration::from_secs;
        assert_eq!(worker.deadline(), None);
        worker.ask(Job::MarkGood, at(1000)).unwrap();
        worker.ask(Job::ReadSlots, at(1500)).unwrap();
        assert!(worker.ends(at(1599)).is_empty() && worker.overdue(at(1599)).is_none());
        worker.close();
        assert!(!worker.has_ended(at(1599)) && worker.ask(Job::ReadSlots, at(1599)).is_err());
        let failure = worker.overdue(at(1600)).unwrap().to_string();
        assert_eq!(failure, "`mark-good` has not ended for 600 s: the disk does not answer");
        assert!(worker.has_ended(at(1600)));
        // The thread is not left behind in this test.
        disk.write_all(b"x").unwrap();
        wait(&mut worker);
        assert_eq!(worker.deadline(), Some(MAX_JOB_TIME), "the next job has its own time");
        disk.write_all(b"x").unwrap();
        wait(&mut worker);
        assert!(worker.has_ended(Duration::ZERO));
    }

    #[test]
    fn the_number_of_jobs_is_bounded() {
        let (_folder, _disk, mut worker) = hanging();
        let mut ask = || worker.ask(Job::MarkGood, Duration::ZERO);
        assert!((0..MAX_JOBS).all(|_| ask().is_ok()));
        assert_eq!(ask().unwrap_err().to_string(), "256 jobs wait for the disk");
    }
}

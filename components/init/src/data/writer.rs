//! The thread that writes the logs of PID 1 and the daemons. It is not the
//! [disk worker](crate::disk_worker): there are many lines, and a slow disk may lose some of them.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use osbuild_failure::{Explain, Failure, Outcome};

use crate::data::log::Log;

/// How many writes may wait. Further lines are lost, so that memory stays bounded.
const MAX_WAITING: usize = 2048;

type Work = Box<dyn FnOnce() -> Outcome + Send>;

/// The thread.
pub struct Writer {
    work: Option<SyncSender<Work>>,
    failures: Receiver<Failure>,
}

impl Writer {
    /// Starts it.
    pub fn start() -> Outcome<Writer> {
        let (work, waiting) = sync_channel::<Work>(MAX_WAITING);
        let (report, failures) = channel();
        thread::Builder::new()
            .spawn(move || write(&waiting, &report))
            .explain("start the thread that writes")?;
        Ok(Writer { work: Some(work), failures })
    }

    /// Has it do `work` after all earlier work.
    fn begin(&self, work: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
        let sender = self.work.as_ref().ok_or("the writer is closed").explain("write to DATA")?;
        sender
            .try_send(Box::new(work))
            .map_err(|_| Failure::new("DATA is too slow: too much waits to be written"))
    }

    /// A log that it makes and writes. `start` is one of the writes.
    pub fn log(&self, start: impl FnOnce() -> Outcome<Log> + Send + 'static) -> Outcome<LogLines> {
        let log = Arc::new(Mutex::new(None));
        let started = Arc::clone(&log);
        self.begin(move || {
            *started.lock().unwrap_or_else(PoisonError::into_inner) = Some(start()?);
            Ok(())
        })?;
        let work = self.work.clone().ok_or("the writer is closed").explain("begin a log")?;
        Ok(LogLines { work, log, lost: 0 })
    }

    /// The failures since the last call.
    pub fn failures(&self) -> Vec<Failure> {
        self.failures.try_iter().collect()
    }

    /// Accepts nothing more. The thread ends when everything is written and every log is closed.
    pub fn close(&mut self) {
        self.work = None;
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.work.is_none() && self.failures.try_recv() == Err(TryRecvError::Disconnected)
    }
}

/// The lines of a log that the thread writes.
pub struct LogLines {
    work: SyncSender<Work>,
    log: Arc<Mutex<Option<Log>>>,
    lost: u64,
}

impl LogLines {
    /// Appends one line, or loses it if too many wait for the disk.
    pub fn line(&mut self, line: &str) {
        let lost = std::mem::take(&mut self.lost);
        let line = if lost > 0 {
            format!("({lost} lines were lost, as the disk is too slow)\n{line}")
        } else {
            line.to_owned()
        };
        let log = Arc::clone(&self.log);
        let work: Work = Box::new(move || {
            if let Some(log) = &mut *log.lock().unwrap_or_else(PoisonError::into_inner) {
                log.line(&line);
            }
            Ok(())
        });
        if self.work.try_send(work).is_err() {
            self.lost = lost + 1;
        }
    }
}

fn write(waiting: &Receiver<Work>, report: &Sender<Failure>) {
    for work in waiting {
        if let Err(failure) = work() {
            // The receiver is gone only when PID 1 is.
            let _ = report.send(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_folder::Folder;
    use std::time::{Duration, Instant};

    fn ends(writer: &Writer) {
        let since = Instant::now();
        while !writer.has_ended() {
            assert!(since.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_disk_that_writes_nothing_costs_lines_and_holds_up_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let mut writer = Writer::start().unwrap();
        let (go_on, slow) = channel::<()>();
        writer.begin(move || slow.recv().explain("wait")).unwrap();
        let log = path.clone();
        let start =
            move || Ok(Log::start(Folder::open(&log, "aside").unwrap(), "kubelet", 1 << 20));
        let mut lines = writer.log(start).unwrap();
        let since = Instant::now();
        for number in 0..MAX_WAITING + 10 {
            lines.line(&format!("line {number}"));
        }
        assert!(since.elapsed() < Duration::from_secs(5) && writer.begin(|| Ok(())).is_err());
        go_on.send(()).unwrap();
        // Once the first ones are written there is room again.
        let since = Instant::now();
        while lines.lost > 0 && since.elapsed() < Duration::from_secs(10) {
            lines.line("the last line");
            thread::sleep(Duration::from_millis(1));
        }
        drop(lines);
        writer.close();
        ends(&writer);
        let text = std::fs::read_to_string(path.join("kubelet.log")).unwrap();
        assert!(
            text.starts_with("line 0\nline 1\n") && text.ends_with("the last line\n"),
            "{}",
            &text[text.len() - 200..]
        );
        assert!(text.contains(" lines were lost, as the disk is too slow)"));
    }

    #[test]
    fn a_failure_is_reported_and_later_writes_are_done() {
        let mut writer = Writer::start().unwrap();
        let (send, receive) = channel();
        writer.begin(|| Err(Failure::new("no space"))).unwrap();
        writer.begin(move || send.send(7).explain("send")).unwrap();
        assert_eq!(receive.recv(), Ok(7));
        assert_eq!(writer.failures(), [Failure::new("no space")]);
        writer.close();
        ends(&writer);
        assert!(writer.begin(|| Ok(())).is_err());
    }
}

//! Reads the files of a log, from a line near the end, and on while they grow.

use super::below;
use super::log_line::{Form, Lines, MAX_LINE};
use super::logs::{self, Log, Run};
use osbuild_cosi::v1::LogLine;
use rustix::fs::fstat;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// How much is read at once, in bytes.
const BLOCK: usize = 32 << 10;

/// A log that is being read.
pub struct LogFile {
    /// The folder of all logs.
    folder: PathBuf,
    /// The files that come after the open one.
    next: VecDeque<Next>,
    /// The file that is read, if it is there.
    open: Option<File>,
    /// Its path.
    path: PathBuf,
    /// The start of a line whose end is not read yet.
    begun: Vec<u8>,
    lines: Lines,
    /// Whether later runs of a container belong to the log.
    has_later_runs: bool,
    /// Whether the log was of a run or a boot that has ended, so that nothing is added to it.
    has_ended: bool,
}

/// A file that comes after the open one.
enum Next {
    /// A file of the log.
    Part(PathBuf),
    /// The file that has replaced the open one. It is open already: another may replace it, too.
    Replacement(File),
    /// The file of a later run.
    Run(PathBuf),
}

impl LogFile {
    /// Begins with the last `tail` lines, or with the first line.
    pub fn open(log: &Log, tail: Option<u32>) -> io::Result<LogFile> {
        let (mut skipped, mut position) = (0, 0);
        if let Some(mut wanted) = tail.map(u64::from) {
            for (index, path) in log.files.iter().enumerate().rev() {
                let Some(file) = below::file(&log.folder, path)? else { continue };
                let (found, at) = tail_of(&file, wanted)?;
                (skipped, position) = (index, at);
                wanted -= found;
                if wanted == 0 {
                    break;
                }
            }
        }
        let mut files = log.files[skipped..].iter().cloned();
        let (first, next) = (files.next(), files.map(Next::Part).collect());
        let (folder, lines) = (log.folder.clone(), Lines::new(log.form));
        let has_later_runs = log.form == Form::Cri && log.run == Run::Current;
        let has_ended = log.run == Run::Previous;
        let (open, path, begun) = (None, PathBuf::new(), Vec::new());
        let mut log = LogFile { folder, next, open, path, begun, lines, has_later_runs, has_ended };
        if let Some(path) = first {
            log.go_on_with(path, position)?;
        }
        Ok(log)
    }

    /// The next lines, about [`BLOCK`] bytes of them; nothing at the end for now.
    pub fn read(&mut self) -> io::Result<Vec<LogLine>> {
        loop {
            if let Some(file) = &mut self.open {
                let mut block = vec![0u8; BLOCK];
                let read = file.read(&mut block)?;
                if read > 0 {
                    let lines = self.take(&block[..read]);
                    if lines.is_empty() {
                        continue;
                    }
                    return Ok(lines);
                }
            }
            let Some(next) = self.next.pop_front() else { return Ok(Vec::new()) };
            // A container may write the parts of a line to two files, but not in two runs.
            let lines = self.take_begun(true, matches!(next, Next::Run(_)));
            match next {
                Next::Part(path) | Next::Run(path) => self.go_on_with(path, 0)?,
                Next::Replacement(file) => self.open = Some(file),
            }
            if !lines.is_empty() {
                return Ok(lines);
            }
        }
    }

    /// Looks for files that come after the open one, once that was read to its end: the one that
    /// has replaced it, and those of later runs of a container. What was written to the open one in
    /// the meantime is read before them.
    pub fn follow(&mut self) -> io::Result<()> {
        if !self.next.is_empty() {
            return Ok(());
        }
        if let Some(new) = below::file(&self.folder, &self.path)? {
            let identity = |file: &File| fstat(file).map(|found| (found.st_dev, found.st_ino));
            let open = self.open.as_ref().map(identity).transpose()?;
            if open != Some(identity(&new)?) {
                self.next.push_back(Next::Replacement(new));
            }
        }
        if self.has_later_runs {
            let later = logs::later_runs(&self.folder, &self.path)?;
            self.next.extend(later.into_iter().map(Next::Run));
        }
        Ok(())
    }

    fn go_on_with(&mut self, path: PathBuf, position: u64) -> io::Result<()> {
        self.open = below::file(&self.folder, &path)?;
        self.path = path;
        if let Some(file) = &mut self.open {
            file.seek(SeekFrom::Start(position))?;
        }
        Ok(())
    }

    fn take(&mut self, block: &[u8]) -> Vec<LogLine> {
        let mut lines = Vec::new();
        for part in block.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            let is_whole = self.begun.last() == Some(&b'\n');
            if is_whole || self.begun.len() > MAX_LINE {
                let bytes = std::mem::take(&mut self.begun);
                let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
                lines.extend(self.lines.read(text));
            }
        }
        lines
    }

    /// The lines without an end, for a reader that does not follow the log. A line that a daemon or
    /// containerd is still writing to the file is left out.
    pub fn finish(&mut self) -> Vec<LogLine> {
        self.take_begun(self.has_ended, true)
    }

    /// The lines that were begun: of a line of the file, of lines in parts, or of both.
    fn take_begun(&mut self, in_file: bool, in_parts: bool) -> Vec<LogLine> {
        let bytes = if in_file { std::mem::take(&mut self.begun) } else { Vec::new() };
        let last = (!bytes.is_empty()).then(|| self.lines.read(&bytes)).flatten();
        let parts = if in_parts { self.lines.finish() } else { Vec::new() };
        last.into_iter().chain(parts).collect()
    }
}

/// How many of the last `wanted` lines the file has, and where the first of these begins.
fn tail_of(file: &File, wanted: u64) -> io::Result<(u64, u64)> {
    let length = file.metadata()?.len();
    let (mut found, mut end) = (0, length);
    let mut block = vec![0u8; BLOCK];
    while end > 0 && wanted > 0 {
        let begin = end.saturating_sub(BLOCK as u64);
        let part = &mut block[..(end - begin) as usize];
        file.read_exact_at(part, begin)?;
        for (index, byte) in part.iter().enumerate().rev() {
            let after = begin + index as u64 + 1;
            // The end of the last line begins no other one.
            if *byte == b'\n' && after < length {
                found += 1;
                if found == wanted {
                    return Ok((found, after));
                }
            }
        }
        end = begin;
    }
    match (length, wanted) {
        (0, _) => Ok((0, 0)),
        (_, 0) => Ok((0, length)),
        _ => Ok((found + 1, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    fn log(folder: &tempfile::TempDir, files: &[(&str, &str)]) -> Log {
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let names = ["kubelet.log.old", "kubelet.log"];
        let files = names.map(PathBuf::from).to_vec();
        Log { folder: folder.path().to_owned(), files, form: Form::Plain, run: Run::Current }
    }

    fn all(file: &mut LogFile) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let lines = file.read().unwrap();
            if lines.is_empty() {
                return all;
            }
            all.extend(lines.into_iter().map(|line| line.text));
        }
    }

    #[test]
    fn the_lines_of_all_files_come_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(&folder, &[("kubelet.log.old", "1\n2\n"), ("kubelet.log", "3\n\n5\n")]);
        assert_eq!(all(&mut LogFile::open(&log, None).unwrap()), ["1", "2", "3", "", "5"]);
    }

    #[test]
    fn the_last_lines_may_begin_in_an_older_file() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(&folder, &[("kubelet.log.old", "1\n2\n"), ("kubelet.log", "3\n4\n5")]);
        let tail = |count| all(&mut LogFile::open(&log, Some(count)).unwrap());
        assert_eq!(tail(0), [""; 0]);
        // The end of the last line is missing: the daemon is writing it.
        assert_eq!(tail(2), ["4"]);
        assert_eq!(tail(3), ["3", "4"]);
        assert_eq!(tail(4), ["2", "3", "4"]);
        assert_eq!(tail(9), ["1", "2", "3", "4"]);
    }

    #[test]
    fn a_log_that_has_ended_has_its_last_line_without_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, cri) = ("1\n2", "T1 stdout F 1\nT2 stdout P 2\nT3 stderr P 3\nT4 std");
        for (form, run, text, last) in [
            (Form::Plain, Run::Current, plain, vec![]),
            (Form::Plain, Run::Previous, plain, vec!["2"]),
            (Form::Cri, Run::Current, cri, vec!["2", "3"]),
            (Form::Cri, Run::Previous, cri, vec!["T4 std", "2", "3"]),
        ] {
            let log = Log { form, run, ..log(&folder, &[("kubelet.log", text)]) };
            let mut file = LogFile::open(&log, None).unwrap();
            assert_eq!(all(&mut file), ["1"]);
            let finished = file.finish();
            let finished: Vec<&str> = finished.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(finished, last, "{form:?} {run:?}");
        }
    }

    #[test]
    fn a_long_log_is_read_from_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let text: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
        let log = log(&folder, &[("kubelet.log", &text)]);
        let lines = all(&mut LogFile::open(&log, Some(10_000)).unwrap());
        assert_eq!((lines.len(), lines[0].as_str()), (10_000, "line 10000"));
        assert_eq!(lines[9_999], "line 19999");
    }

    #[test]
    fn a_file_that_grows_and_is_replaced_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(&folder, &[("kubelet.log", "1\n2")]);
        let path = folder.path().join("kubelet.log");
        let mut file = LogFile::open(&log, None).unwrap();
        assert_eq!(all(&mut file), ["1"]);
        fs::File::options().append(true).open(&path).unwrap().write_all(b" 3\n").unwrap();
        file.follow().unwrap();
        assert_eq!(all(&mut file), ["2 3"]);
        let mut old = fs::File::options().append(true).open(&path).unwrap();
        old.write_all(b"x\ntorn").unwrap();
        fs::rename(&path, folder.path().join("kubelet.log.old")).unwrap();
        file.follow().unwrap();
        fs::write(&path, "4\n").unwrap();
        file.follow().unwrap();
        assert_eq!(all(&mut file), ["x", "torn", "4"]);
    }

    #[test]
    fn a_container_that_restarts_is_followed_unless_its_run_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let container = Path::new("pods/kube-system_dhcp-edge_5d0c/dhcp");
        fs::create_dir_all(folder.path().join(container)).unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(container).join(name);
            let mut file = fs::File::options().append(true).create(true).open(path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        write("0.log", "T1 stdout F one\n");
        let open = |run| {
            let log = Log {
                folder: folder.path().to_owned(),
                files: vec![container.join("0.log")],
                form: Form::Cri,
                run,
            };
            LogFile::open(&log, None).unwrap()
        };
        let (mut current, mut previous) = (open(Run::Current), open(Run::Previous));
        assert_eq!(
            (all(&mut current), all(&mut previous)),
            (vec!["one".into()], vec!["one".into()])
        );
        write("0.log", "T2 stdout F two\nT3 stdout P begun\n");
        write("1.log", "T4 stdout F three\n");
        write("2.log", "T5 stdout F four\n");
        for file in [&mut current, &mut previous] {
            file.follow().unwrap();
        }
        assert_eq!(all(&mut current), ["two", "begun", "three", "four"]);
        assert_eq!(all(&mut previous), ["two"]);
        write("2.log", "T6 stdout F five\n");
        current.follow().unwrap();
        assert_eq!(all(&mut current), ["five"]);
    }

    #[test]
    fn what_is_no_regular_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(&folder, &[("secret", "secret\n")]);
        let path = folder.path().join("kubelet.log");
        std::os::unix::fs::symlink(folder.path().join("secret"), &path).unwrap();
        assert_eq!(all(&mut LogFile::open(&log, None).unwrap()), [""; 0]);
        fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(all(&mut LogFile::open(&log, Some(3)).unwrap()), [""; 0]);
    }

    #[test]
    fn a_line_without_an_end_takes_bounded_memory() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(&folder, &[("kubelet.log", &"a".repeat(300 << 10))]);
        let lines = all(&mut LogFile::open(&log, None).unwrap());
        assert!(lines.len() >= 3 && lines.iter().all(|line| line.len() <= MAX_LINE + BLOCK));
    }
}

//! How far cargo is, in one line of our own.
//!
//! cargo shows a bar on a terminal alone, and only together with a line for each crate and two more
//! in front of each program that it runs. So it is asked for its bar in a pipe (`term.progress` of
//! its configuration), and what it says of its own work becomes one line that is redrawn on a
//! terminal and repeated now and then anywhere else. Errors, warnings and whatever else it prints
//! are passed on as they are.

use std::io::{self, IsTerminal, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often the line is repeated where it cannot be redrawn.
const REPEAT: Duration = Duration::from_secs(20);

/// The width of the column in which cargo writes what it does, right-aligned.
const STATUS: usize = 12;

/// The longest line that is redrawn: it must not wrap.
const COLUMNS: usize = 79;

/// What is compiled, in words.
pub struct Work<'a> {
    /// What it is: the line begins with `compiling` and this.
    pub name: &'a str,
    /// What is said once before it begins, if there is anything to be said.
    pub notice: Option<&'a str>,
}

/// Runs `cargo build …` and shows on stderr how far it is. When nothing has to be compiled, nothing
/// is shown.
///
/// # Errors
/// cargo cannot be started or waited for, or stderr cannot be written.
pub fn show(cargo: &mut Command, work: &Work<'_>) -> io::Result<ExitStatus> {
    let stderr = io::stderr();
    let terminal = stderr.is_terminal();
    let colorful = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if colorful && std::env::var_os("CARGO_TERM_COLOR").is_none() {
        cargo.env("CARGO_TERM_COLOR", "always");
    }
    cargo.env("CARGO_TERM_QUIET", "false").env("CARGO_TERM_VERBOSE", "false");
    cargo.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "100");
    cargo.env("CARGO_TERM_PROGRESS_TERM_INTEGRATION", "false");
    let mut child = cargo.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut line = Line::new(stderr.lock(), work, terminal);
    let followed = line.follow(child.stderr.take().expect("stderr is piped"));
    // cargo ends by itself when its stderr is closed, so it is waited for whatever came of showing
    // it.
    let status = child.wait()?;
    followed.and_then(|()| line.end(status.success()))?;
    Ok(status)
}

/// The line, and what it is made of.
struct Line<'a, W: Write> {
    to: W,
    work: &'a Work<'a>,
    terminal: bool,
    began: Instant,
    /// When the line was written last; never as long as there was nothing to do.
    written: Option<Instant>,
    /// Whether the terminal's last line is ours, to be erased.
    drawn: bool,
    /// How far cargo is: `123/289`.
    count: String,
}

impl<'a, W: Write> Line<'a, W> {
    fn new(to: W, work: &'a Work<'a>, terminal: bool) -> Self {
        Line {
            to,
            work,
            terminal,
            began: Instant::now(),
            written: None,
            drawn: false,
            count: String::new(),
        }
    }

    /// Takes everything that cargo prints. A bar ends with a carriage return, all else with the end
    /// of its line.
    fn follow(&mut self, mut from: impl Read) -> io::Result<()> {
        let (mut piece, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            let length = match from.read(&mut chunk) {
                Ok(0) => return if piece.is_empty() { Ok(()) } else { self.take(&piece) },
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for byte in &chunk[..length] {
                piece.push(*byte);
                if matches!(byte, b'\n' | b'\r') {
                    self.take(&piece)?;
                    piece.clear();
                }
            }
        }
    }

    fn take(&mut self, piece: &[u8]) -> io::Result<()> {
        let text = plain(&String::from_utf8_lossy(piece));
        match status(&text) {
            Some(("Finished", _)) => Ok(()),
            Some(("Building", bar)) => {
                let (count, crates) = bar
                    .rsplit_once("] ")
                    .map_or(("", bar), |(_, rest)| rest.split_once(": ").unwrap_or((rest, "")));
                self.count = count.trim().to_owned();
                self.draw(crates)
            }
            // Of these there are as many as crates, and the bar says the same.
            Some(("Compiling" | "Downloaded", name)) => {
                self.draw(name.split(' ').next().unwrap_or_default())
            }
            Some((what, of)) => self.draw(&format!("{} {of}", what.to_lowercase())),
            None if text.trim().is_empty() && piece.ends_with(b"\r") => Ok(()),
            None => {
                self.erase()?;
                self.to.write_all(piece)
            }
        }
    }

    fn draw(&mut self, doing: &str) -> io::Result<()> {
        if self.written.is_none() {
            self.work.notice.map_or(Ok(()), |notice| writeln!(self.to, "note: {notice}"))?;
        } else if !self.terminal && self.written.is_some_and(|written| written.elapsed() < REPEAT) {
            return Ok(());
        }
        self.written = Some(Instant::now());
        let count = if self.count.is_empty() { String::new() } else { format!(" {}", self.count) };
        let line = format!(
            "compiling {}{count}, {}: {}",
            self.work.name,
            time(self.began.elapsed()),
            doing.trim()
        );
        let line: String = line.chars().take(COLUMNS).collect();
        if self.terminal {
            write!(self.to, "\r\x1b[K{line}")?;
            self.drawn = true;
        } else {
            writeln!(self.to, "{line}")?;
        }
        self.to.flush()
    }

    fn erase(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.drawn) { write!(self.to, "\r\x1b[K") } else { Ok(()) }
    }

    /// Says how long it took, if there was anything to do and it was done.
    fn end(&mut self, done: bool) -> io::Result<()> {
        self.erase()?;
        if done && self.written.is_some() {
            writeln!(self.to, "compiled {} in {}", self.work.name, time(self.began.elapsed()))?;
        }
        self.to.flush()
    }
}

/// What cargo says of its own work: the word in its column, and the rest.
fn status(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.trim_end().split_at_checked(STATUS)?;
    let word = word.trim_start();
    let is_word = word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.chars().all(|letter| letter.is_ascii_alphabetic());
    (is_word && rest.starts_with(' ')).then(|| (word, rest.trim()))
}

/// The text without the terminal's colours: `ESC [ … m`.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| {
        whole + part.split_once(|end: char| end.is_ascii_alphabetic()).map_or("", |(_, rest)| rest)
    })
}

/// `12 s`, `5m 58s`.
fn time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{}m {:02}s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of what cargo said.
    fn shown(said: &str, terminal: bool) -> String {
        let mut shown = Vec::new();
        let work = Work { name: "it", notice: Some("once") };
        let mut line = Line::new(&mut shown, &work, terminal);
        line.follow(said.as_bytes()).unwrap();
        line.end(true).unwrap();
        String::from_utf8(shown).unwrap()
    }

    const BAR: &str = "    Building [=====>      ] 12/289: libc, ring(build)        \r";

    #[test]
    fn a_build_without_work_shows_nothing() {
        assert_eq!(
            shown("    Finished `release` profile [optimized] target(s) in 0.18s\n", false),
            ""
        );
    }

    #[test]
    fn a_pipe_gets_a_line_now_and_then_and_a_terminal_a_line_that_moves() {
        let said = format!("   Compiling libc v0.2\n{BAR}{BAR}   Compiling ring v1.0\n");
        assert_eq!(
            shown(&said, false),
            "note: once\ncompiling it, 0 s: libc\ncompiled it in 0 s\n"
        );
        assert!(
            shown(&said, true)
                .contains("\r\x1b[Kcompiling it 12/289, 0 s: libc, ring(build)\r\x1b[K")
        );
        assert!(shown(&said, true).ends_with("\r\x1b[Kcompiled it in 0 s\n"));
    }

    #[test]
    fn what_the_compiler_says_is_passed_on_as_it_is() {
        let error = "\x1b[1m\x1b[91merror\x1b[0m: no\n  --> a.rs:1:2\n   |\n \
                     1 |     Compiling x\n   |     ^\n\n";
        assert!(shown(&format!("{BAR}{error}{BAR}"), true).contains(&format!("\r\x1b[K{error}")));
        assert_eq!(shown(error, false), error);
    }

    #[test]
    fn colours_hide_no_status() {
        assert_eq!(
            status(&plain("\x1b[1m\x1b[92m   Compiling\x1b[0m libc v0.2\n")),
            Some(("Compiling", "libc v0.2"))
        );
        assert_eq!(
            status("    Blocking waiting for file lock on build directory\n").unwrap().0,
            "Blocking"
        );
        assert_eq!(status("warning: unused\n"), None);
    }
}

//! cargo's progress in one line.
//!
//! cargo shows a bar only on a terminal, together with a line for each crate and two more before
//! each program that it runs. So this module makes cargo print its bar to a pipe (`term.progress`
//! of its configuration), and turns its status lines into one line, which is redrawn on a terminal
//! and repeated at intervals elsewhere. Errors, warnings and other output are passed on unchanged.

use std::io::{self, IsTerminal, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The interval at which the line is repeated where it cannot be redrawn.
const REPEAT: Duration = Duration::from_secs(20);

/// The width of cargo's right-aligned status column.
const STATUS: usize = 12;

/// The maximum length of a line that is redrawn: it must not wrap.
const MAX_COLUMNS: usize = 79;

/// The description of a compilation.
pub struct Work<'a> {
    /// The name of the compiled program, which follows `compiling`.
    pub name: &'a str,
    /// A note to print once before the compilation begins.
    pub notice: Option<&'a str>,
}

/// Runs `cargo build …` and shows its progress on stderr. If nothing has to be compiled, nothing is
/// shown.
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
    // cargo ends by itself when its stderr is closed, so this also waits after an error.
    let status = child.wait()?;
    followed.and_then(|()| line.end(status.success()))?;
    Ok(status)
}

/// The line and its parts.
struct Line<'a, W: Write> {
    to: W,
    work: &'a Work<'a>,
    terminal: bool,
    began: Instant,
    /// When the line was last written; `None` while there is nothing to compile.
    written: Option<Instant>,
    /// Whether the terminal's last line is ours and has to be erased.
    drawn: bool,
    /// The number of compiled crates: `123/289`.
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

    /// Reads cargo's output. A bar ends with a carriage return, other output with a newline.
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
            // cargo prints one line per crate, with the same information as the bar.
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
        let line: String = line.chars().take(MAX_COLUMNS).collect();
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

    /// Prints the duration if something was compiled successfully.
    fn end(&mut self, done: bool) -> io::Result<()> {
        self.erase()?;
        if done && self.written.is_some() {
            writeln!(self.to, "compiled {} in {}", self.work.name, time(self.began.elapsed()))?;
        }
        self.to.flush()
    }
}

/// cargo's status line: the word in the column, and the rest.
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

    /// The output for cargo's output.
    fn shown(output: &str, terminal: bool) -> String {
        let mut shown = Vec::new();
        let work = Work { name: "it", notice: Some("once") };
        let mut line = Line::new(&mut shown, &work, terminal);
        line.follow(output.as_bytes()).unwrap();
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
    fn a_pipe_gets_a_repeated_line_and_a_terminal_a_redrawn_one() {
        let output = format!("   Compiling libc v0.2\n{BAR}{BAR}   Compiling ring v1.0\n");
        assert_eq!(
            shown(&output, false),
            "note: once\ncompiling it, 0 s: libc\ncompiled it in 0 s\n"
        );
        assert!(
            shown(&output, true)
                .contains("\r\x1b[Kcompiling it 12/289, 0 s: libc, ring(build)\r\x1b[K")
        );
        assert!(shown(&output, true).ends_with("\r\x1b[Kcompiled it in 0 s\n"));
    }

    #[test]
    fn messages_of_the_compiler_are_passed_on_unchanged() {
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

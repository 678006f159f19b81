//! The terminal: its screen, which is restored whatever happens, and its keys.

use super::drawing;
use super::state::Dashboard;
use super::theme::Theme;
use crate::error::{Error, Result};
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use std::io::{self, IsTerminal};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long the thread that reads keys waits before it looks whether it is still needed.
const POLL: Duration = Duration::from_millis(200);

/// The keys that may wait to be taken.
const MAX_KEYS: usize = 64;

/// The hint where there is no screen.
const OTHER_VERBS: &str = "`osctl top` and `osctl get TYPE -w` print lines";

/// Refuses a pipe, and a terminal without a screen.
///
/// # Errors
/// stdin or stdout is no terminal, or `TERM` names one that only prints lines.
pub fn refuse_pipes() -> Result<()> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Error::usage("the dashboard needs a terminal")
            .cause("stdin or stdout is a file or a pipe")
            .hint(OTHER_VERBS));
    }
    match std::env::var("TERM").as_deref() {
        Ok("dumb") | Err(_) => Err(Error::usage("the dashboard needs a terminal with a screen")
            .cause("TERM is `dumb` or not set")
            .hint(OTHER_VERBS)),
        Ok(_) => Ok(()),
    }
}

/// The screen. Dropping it gives the terminal back as it was; a panic does so before its message.
pub struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The terminal cannot be set.
    pub fn open() -> Result<Screen> {
        let opened = ratatui::try_init();
        // It may be set in part.
        opened.map(Screen).map_err(|error| {
            ratatui::restore();
            Error::failed("cannot use the terminal").caused_by(&error)
        })
    }

    /// Shows the dashboard.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, dashboard: &Dashboard, theme: Theme, now: Timestamp) -> Result<()> {
        let drawn = self.0.draw(|frame| drawing::draw(frame, dashboard, theme, now));
        drawn
            .map(drop)
            .map_err(|error| Error::failed("cannot write to the terminal").caused_by(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The error of a terminal that is gone would have nobody to read it.
        let _ = self.0.show_cursor();
        ratatui::restore();
    }
}

/// The keys and changes of size, which a thread reads, because a terminal blocks.
pub struct Input(mpsc::Receiver<io::Result<Event>>);

impl Input {
    /// Begins to read. The thread ends soon after this is dropped.
    pub fn read() -> Input {
        let (sender, receiver) = mpsc::channel(MAX_KEYS);
        std::thread::spawn(move || {
            while !sender.is_closed() {
                let event = match event::poll(POLL) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                let is_last = event.is_err();
                if sender.blocking_send(event).is_err() || is_last {
                    return;
                }
            }
        });
        Input(receiver)
    }

    /// The next key or change of size.
    ///
    /// # Errors
    /// The terminal is gone.
    pub async fn next(&mut self) -> Result<Event> {
        let gone = || Error::failed("cannot read the terminal");
        let event = self.0.recv().await.ok_or_else(gone)?;
        event.map_err(|error| gone().caused_by(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The escape sequences that switch a terminal to its alternate screen and back.
    const ENTER: &str = "\u{1b}[?1049h";
    const LEAVE: &str = "\u{1b}[?1049l";

    /// Has the test panic on the terminal that it is given.
    const PANIC: &str = "OSCTL_TEST_PANIC";

    #[test]
    fn a_panic_gives_the_terminal_back_before_its_message() {
        if std::env::var_os(PANIC).is_some() {
            let _screen = Screen::open().unwrap();
            panic!("the reason");
        }
        let name = "dashboard::terminal::tests::a_panic_gives_the_terminal_back_before_its_message";
        let program = std::env::current_exe().unwrap();
        let command = format!("stty -g; {} --exact {name} --nocapture; stty -g", program.display());
        // The terminal is that of util-linux' `script`.
        let mut script = Command::new("script");
        let ran = script.args(["-qec", &command, "/dev/null"]).env(PANIC, "1").output().unwrap();
        let output = String::from_utf8_lossy(&ran.stdout);
        let (before, rest) = output.split_once(ENTER).expect(&output);
        let (_, after) = rest.split_once(LEAVE).expect(&output);
        assert!(after.contains("the reason") && after.contains("\u{1b}[?25h"), "{output:?}");
        let settings = before.lines().next().unwrap().trim_end();
        assert!(after.lines().any(|line| line.trim_end() == settings), "{output:?}");
    }
}

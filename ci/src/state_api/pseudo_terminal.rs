//! A program on a terminal of its own, and what its screen shows.

use osbuild::error::{Context, Error, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the program may take to show something, or to end.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The lines and columns of the terminal.
const LINES: usize = 24;
const COLUMNS: usize = 80;

/// The control sequences that make a terminal show its alternate screen, and the normal one again.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// The control sequence that shows the cursor.
const CURSOR: &str = "\u{1b}[?25h";

/// A running program on a terminal, which is that of util-linux' `script`. The shell around it
/// prints the settings of the terminal before and after it, and its exit code.
pub struct PseudoTerminal {
    script: Child,
    keys: ChildStdin,
    output: Arc<Mutex<Vec<u8>>>,
    /// The files with the program's identifier, and the path of its terminal.
    process: PathBuf,
    device: PathBuf,
    size: (usize, usize),
}

impl PseudoTerminal {
    /// Starts the program with these words, its environment and its current folder. `folder` is for
    /// files about it.
    pub fn start(folder: PathBuf, program: &Command, words: &str) -> Result<PseudoTerminal> {
        let (process, device) = (folder.join("process"), folder.join("device"));
        let shell = format!(
            "stty rows {LINES} cols {COLUMNS}; stty -g; tty > {}; \
             sh -c 'echo $$ > {}; exec {} {words}'; echo code $?; stty -g",
            device.display(),
            process.display(),
            program.get_program().display(),
        );
        let mut command = Command::new("script");
        command.args(["-qfc", &shell, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(folder) = program.get_current_dir() {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = command.spawn().or_build(|| "cannot start `script`".to_owned())?;
        let pipes = (script.stdin.take(), script.stdout.take());
        let (Some(keys), Some(mut stdout)) = pipes else {
            return Err(Error::build("`script` has no pipes"));
        };
        let output = Arc::new(Mutex::new(Vec::new()));
        let read = output.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                read.lock().unwrap_or_else(PoisonError::into_inner).extend(&buffer[..count]);
            }
        });
        Ok(PseudoTerminal { script, keys, output, process, device, size: (LINES, COLUMNS) })
    }

    /// Everything that the terminal got.
    pub fn output(&self) -> String {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Waits until the terminal has got this text. Returns whether it has.
    pub fn shows(&self, text: &str, timeout: Duration) -> bool {
        let began = Instant::now();
        while !self.output().contains(text) && began.elapsed() < timeout {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.output().contains(text)
    }

    /// The lines of the other screen as they are now.
    pub fn screen(&self) -> Vec<String> {
        let output = self.output();
        let shown = output.split_once(ENTER).map_or("", |(_, shown)| shown);
        rows(shown, self.size.0, self.size.1)
    }

    /// Waits until the screen is as claimed. Returns its last state if that takes too long.
    pub fn wait(&self, is_so: impl Fn(&[String]) -> bool) -> std::result::Result<(), String> {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return Ok(());
            }
            if began.elapsed() > TIMEOUT {
                return Err(screen.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types.
    pub fn press(&mut self, keys: &str) -> Result<()> {
        let pressed = self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush());
        pressed.or_build(|| "cannot write to `script`".to_owned())
    }

    /// Makes the terminal larger or smaller.
    pub fn resize(&mut self, lines: usize, columns: usize) -> Result<()> {
        let device = self.about(&self.device)?;
        let mut stty = Command::new("stty");
        let (rows, cols) = (lines.to_string(), columns.to_string());
        let status = stty.args(["-F", &device, "rows", &rows, "cols", &cols]).status();
        let is_done = status.or_build(|| "cannot start `stty`".to_owned())?.success();
        self.size = (lines, columns);
        is_done.then_some(()).ok_or_else(|| Error::build("`stty` has failed"))
    }

    /// Ends the program with SIGTERM.
    pub fn terminate(&self) -> Result<()> {
        let process = self.about(&self.process)?.parse().ok().and_then(Pid::from_raw);
        let process = process.ok_or_else(|| Error::build("the program has no identifier"))?;
        kill_process(process, Signal::TERM).or_build(|| "cannot send a signal".to_owned())
    }

    fn about(&self, file: &PathBuf) -> Result<String> {
        let text = fs::read_to_string(file).or_build(|| format!("cannot read {file:?}"))?;
        Ok(text.trim().to_owned())
    }

    /// Waits until the program ends. It must have this exit code, and give the terminal back as it
    /// was: the first screen, the cursor and the settings. Returns the output if it does not.
    pub fn ends_with(&mut self, code: u8) -> std::result::Result<(), String> {
        let began = Instant::now();
        while !matches!(self.script.try_wait(), Ok(Some(_))) {
            if began.elapsed() > TIMEOUT {
                return Err(self.screen().join("\n"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = self.output();
        is_given_back(&output, code).ok_or(output)
    }
}

impl Drop for PseudoTerminal {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// The lines around the program's screen are those of the shell.
fn is_given_back(output: &str, code: u8) -> Option<()> {
    let (before, shown) = output.split_once(ENTER)?;
    let (shown, after) = shown.rsplit_once(LEAVE)?;
    let is_visible = format!("{shown}{after}").rfind(CURSOR) > shown.rfind("\u{1b}[?25l");
    let mut lines = after.lines().map(str::trim_end);
    let has_code = lines.any(|line| line.ends_with(&format!("code {code}")));
    let is_same = lines.next() == before.lines().next().map(str::trim_end);
    (is_visible && has_code && is_same).then_some(())
}

/// The rows that a terminal shows after this output. Only characters and the sequences that move
/// the cursor or clear the screen have an effect; all others set colours and modes.
fn rows(output: &str, lines: usize, columns: usize) -> Vec<String> {
    let mut rows = vec![vec![' '; columns]; lines];
    let (mut line, mut column) = (0, 0);
    let mut rest = output.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => {
                let sequence = rest.as_str();
                let end = sequence.find(|c: char| c.is_ascii_alphabetic());
                let Some((numbers, last)) = end.map(|end| sequence.split_at(end)) else { break };
                rest = last[1..].chars();
                let mut numbers = numbers.trim_start_matches('[').split(';');
                let mut number = || numbers.next().and_then(|one| one.parse::<usize>().ok());
                match last.as_bytes()[0] {
                    b'H' => {
                        line = number().unwrap_or(1).saturating_sub(1);
                        column = number().unwrap_or(1).saturating_sub(1);
                    }
                    b'J' => rows = vec![vec![' '; columns]; lines],
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => line += 1,
            character => {
                if let Some(cell) = rows.get_mut(line).and_then(|row| row.get_mut(column)) {
                    *cell = character;
                }
                column += 1;
            }
        }
    }
    rows.into_iter().map(|row| row.into_iter().collect::<String>()).collect()
}

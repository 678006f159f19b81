//! The administrator's desk: runs `osctl`, keeps what it printed, and counts the time until each
//! fault is found and mended.

use crate::check::Outcome;
use crate::site::Ran;
use crate::vm::settings::Lab;
use osbuild::error::{Context, Result};
use std::fs::File;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long an emulated node may take until a command shows something else.
const TIMEOUT: Duration = Duration::from_secs(150);
/// The pause before a command runs again.
const PAUSE: Duration = Duration::from_secs(3);

/// The desk.
pub struct Desk<'a> {
    lab: &'a Lab<'a>,
    transcript: File,
    times: Vec<String>,
    pub outcome: Outcome,
}

impl<'a> Desk<'a> {
    pub fn new(lab: &'a Lab<'a>) -> Result<Self> {
        let path = lab.site.log("sick-commands");
        let transcript =
            File::create(&path).or_build(|| format!("cannot write `{}`", path.display()))?;
        Ok(Desk { lab, transcript, times: Vec::new(), outcome: Outcome::default() })
    }

    /// Runs `osctl`, and returns its output.
    pub fn run(&mut self, words: &[&str]) -> Result<String> {
        let output = self.lab.osctl.finish(words)?;
        self.note(words, &output)?;
        Ok(output)
    }

    /// Applies a document.
    pub fn apply(&mut self, name: &str, text: &str) -> Result<()> {
        let path = self.lab.osctl.write(name, text)?;
        self.run(&["apply", "-f", &path]).map(drop)
    }

    /// Claims that a command soon shows all of these texts, with which a fault is found.
    pub fn finds(&mut self, fault: &str, words: &[&str], texts: &[&str]) -> Result<()> {
        self.shows(&format!("{fault}: found"), words, |ran| {
            texts.iter().all(|text| ran.output.contains(text))
        })
    }

    /// Claims that a command soon shows none of these texts, so that a fault is mended.
    pub fn misses(&mut self, fault: &str, words: &[&str], texts: &[&str]) -> Result<()> {
        self.shows(&format!("{fault}: mended"), words, |ran| {
            ran.code == Some(0) && !texts.iter().any(|text| ran.output.contains(text))
        })
    }

    /// Claims that the output of a command is soon such. A node that boots or changes its network
    /// is not reached for a while, which only delays it.
    fn shows(&mut self, claim: &str, words: &[&str], is_so: impl Fn(&Ran) -> bool) -> Result<()> {
        let began = Instant::now();
        let ran = loop {
            let ran = self.lab.osctl.run(words)?;
            let is_shown = is_so(&ran);
            if is_shown || began.elapsed() > TIMEOUT {
                self.outcome.check(claim, is_shown, || ran.output.clone());
                break ran;
            }
            sleep(PAUSE);
        };
        self.note(words, &ran.output)?;
        self.times.push(format!("{claim} after {} s", began.elapsed().as_secs()));
        Ok(())
    }

    /// Keeps text of the console.
    pub fn quote(&mut self, text: &str) -> Result<()> {
        write!(self.transcript, "{text}\n\n").or_build(|| "cannot write the commands".to_owned())
    }

    /// The outcome, with the times.
    pub fn end(mut self) -> Result<Outcome> {
        let times = self.times.join("\n");
        self.quote(&times)?;
        self.outcome.summary = format!("{} claims", self.outcome.passed);
        Ok(self.outcome)
    }

    fn note(&mut self, words: &[&str], output: &str) -> Result<()> {
        self.quote(&format!("$ osctl {}\n{}", words.join(" "), output.trim_end()))
    }
}

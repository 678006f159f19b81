//! Runs steps again whose results the store has, and compares both results.

use super::log;
use crate::engine::action::{Action, ActionResult, OutputFile};
use crate::error::{Error, Result, in_words};
use std::collections::BTreeSet;

/// Which steps run although the store has their results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rebuild {
    /// None of them.
    #[default]
    Nothing,
    /// All of them.
    Everything,
    /// Those whose names, or names of logs, begin with one of these words.
    Steps(Vec<String>),
}

impl Rebuild {
    /// Whether the step of this name runs again.
    pub fn wants(&self, name: &str) -> bool {
        match self {
            Rebuild::Nothing => false,
            Rebuild::Everything => true,
            Rebuild::Steps(words) => words.iter().any(|word| fits(name, word)),
        }
    }

    /// Checks that every word fits one of `names`, the names of all steps.
    ///
    /// # Errors
    /// A word fits none of them, so it rebuilt nothing.
    pub fn check(&self, names: &BTreeSet<String>) -> Result<()> {
        let Rebuild::Steps(words) = self else { return Ok(()) };
        match words.iter().find(|word| !names.iter().any(|name| fits(name, word))) {
            None => Ok(()),
            Some(word) => {
                let names = in_words(names.iter().map(String::as_str));
                Err(Error::usage(format!("no step begins with `{word}`"))
                    .hint(format!("there are {names}")))
            }
        }
    }
}

fn fits(name: &str, word: &str) -> bool {
    name.starts_with(word) || log::name_of(name).starts_with(word)
}

/// Compares an earlier result of an action with a new one.
///
/// # Errors
/// An output has other bytes.
pub(super) fn compare(action: &Action, before: &ActionResult, now: &ActionResult) -> Result<()> {
    let differs =
        |(name, output): &(&String, &OutputFile)| before.outputs.get(*name) != Some(output);
    let mut others = now.outputs.iter().filter(differs).peekable();
    if others.peek().is_none() {
        return Ok(());
    }
    let error = Error::digest(format!("`{}` gave other bytes than the last time", action.name));
    let digest = |name: &String, result: &ActionResult| {
        result.outputs.get(name).map_or("missing".into(), |it| it.digest.hex())
    };
    Err(others.fold(error, |error, (name, _)| {
        error.cause(format!(
            "`{name}` was sha256:{}, and is sha256:{}",
            digest(name, before),
            digest(name, now)
        ))
    }))
}

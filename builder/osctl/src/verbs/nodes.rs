//! Verbs that take several nodes.

use super::note;
use super::output::Output;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::selection::{Names, Selection};
use futures_util::future::join_all;

/// Connects to the node of a verb that takes one.
pub async fn connect(selection: &Selection) -> Result<Connection> {
    connect_to(selection, selection.only()?.as_deref()).await
}

async fn connect_to(selection: &Selection, name: Option<&str>) -> Result<Connection> {
    let node = selection.known()?.get(name)?;
    let open = Connection::open(&node.address, &node.credentials, Some(&node.fingerprint));
    Ok(open.await?.named(name))
}

/// Asks all nodes at once, and prints what they answer. A node that fails does not hide the others:
/// its error comes after what they show.
pub async fn show(
    selection: &Selection,
    ask: impl AsyncFn(&Connection) -> Result<Output>,
) -> Result<()> {
    let (answers, failures) = self::ask(selection, ask).await?;
    print_all(answers)?;
    Error::all(failures)
}

/// The answers of the nodes, each with its name, or without one if it is the only one.
pub type Answers<T> = Vec<(Option<String>, T)>;

/// Asks all nodes at once. Returns the answers, and the errors of nodes that fail.
pub async fn ask<T>(
    selection: &Selection,
    ask: impl AsyncFn(&Connection) -> Result<T>,
) -> Result<(Answers<T>, Vec<Error>)> {
    let names = match selection.names()? {
        Names::One(name) => {
            let answer = ask(&connect_to(selection, name.as_deref()).await?).await?;
            return Ok((vec![(None, answer)], Vec::new()));
        }
        Names::Several(names) => names,
    };
    let asked = async |name: &String| ask(&connect_to(selection, Some(name)).await?).await;
    let asked = join_all(names.iter().map(asked));
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    for (name, answer) in names.iter().zip(asked.await) {
        match answer {
            Ok(answer) => answers.push((Some(name.clone()), answer)),
            Err(error) => failures.push(error.of_node(name)),
        }
    }
    Ok((answers, failures))
}

/// Prints the answers of one node, or of several.
pub fn print_all(answers: Answers<Output>) -> Result<()> {
    let mut named = Vec::new();
    for (name, output) in answers {
        match name {
            None => output.print()?,
            Some(name) => named.push((name, output)),
        }
    }
    Output::of_several(named).into_iter().try_for_each(Output::print)
}

/// Whether a change goes on to the other nodes after one has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// The others are not changed.
    Stop,
    /// The others are changed.
    GoOn,
}

/// Changes one node after the other, in order, and prints what has changed as soon as it has.
pub async fn change(
    selection: &Selection,
    after: AfterFailure,
    change: impl AsyncFn(&Connection) -> Result<Vec<String>>,
) -> Result<()> {
    let names = match selection.names()? {
        Names::One(name) => {
            let lines = change(&connect_to(selection, name.as_deref()).await?).await?;
            return Output::Lines(lines).print();
        }
        Names::Several(names) => names,
    };
    let mut failures = Vec::new();
    let mut names = names.into_iter();
    while let Some(name) = names.next() {
        note(&format!("node `{name}`"));
        let changed = async { change(&connect_to(selection, Some(&name)).await?).await };
        match changed.await {
            Ok(lines) => print_all(vec![(Some(name), Output::Lines(lines))])?,
            Err(error) if after == AfterFailure::Stop && names.len() > 0 => {
                note(&format!("not changed: {}", names.collect::<Vec<_>>().join(", ")));
                return Err(error.of_node(&name));
            }
            Err(error) => failures.push(error.of_node(&name)),
        }
    }
    Error::all(failures)
}

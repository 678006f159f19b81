//! `osctl node`: the nodes that are known.

use super::{note, print_lines};
use crate::address::Address;
use crate::cli::Node;
use crate::connection::Connection;
use crate::credentials::Credentials;
use crate::definitions;
use crate::error::{Error, Result, printable};
use crate::known_nodes::{KnownNode, KnownNodes};
use crate::question;
use crate::stderr;
use crate::table::Table;
use osbuild_protocol::Fingerprint;
use std::path::{Path, PathBuf};

pub async fn run(verb: Node, token_file: Option<&Path>) -> Result<()> {
    let nodes = KnownNodes::of_user()?;
    match verb {
        Node::Add { name, address, certificate, fingerprint } => {
            nodes.check_new(&name)?;
            let credentials = credentials(certificate, token_file)?;
            let fingerprint = meet(&address, &credentials, fingerprint.as_ref()).await?;
            let known = format!("`{name}` is known by its fingerprint {fingerprint}");
            nodes.add(&name, &KnownNode { address, fingerprint, credentials })?;
            note(&known);
            Ok(())
        }
        Node::List => list(&nodes),
        Node::Use { name } => nodes.set_default(&name),
        Node::Remove { name } => nodes.remove(&name),
    }
}

/// The credentials for a new node.
fn credentials(certificate: Option<PathBuf>, token_file: Option<&Path>) -> Result<Credentials> {
    let absolute = |file: PathBuf| std::path::absolute(&file).unwrap_or(file);
    match (certificate, token_file) {
        (Some(file), None) => Ok(Credentials::Certificate(absolute(file))),
        (None, Some(file)) => Ok(Credentials::TokenFile(absolute(file.to_owned()))),
        (None, None) => Err(Error::usage("what is shown to the node?")
            .hint("name the file with `--certificate`, or with `--token-file` in a pod")),
        (Some(_), Some(_)) => Err(Error::usage("a node is shown a certificate or a token")
            .cause("both `--certificate` and `--token-file` or OSCTL_TOKEN_FILE are given")),
    }
}

/// Connects to a new node, whose fingerprint the user compares, and makes sure that it accepts the
/// user's credentials.
async fn meet(
    address: &Address,
    credentials: &Credentials,
    expected: Option<&Fingerprint>,
) -> Result<Fingerprint> {
    let connection = Connection::open(address, credentials, expected).await?;
    definitions::all(&connection).await?;
    let fingerprint = connection.fingerprint;
    if expected.is_none() && !trusts(address, &fingerprint)? {
        return Err(Error::mismatch("the node is not trusted"));
    }
    Ok(fingerprint)
}

/// Asks whether this is the node.
fn trusts(address: &Address, found: &Fingerprint) -> Result<bool> {
    let fact = format!("{address} has the fingerprint {found}");
    question::ask(&fact, "Does its console show the same one?")?.ok_or_else(|| {
        Error::usage("the node is not known yet")
            .cause(format!("its fingerprint is {found}"))
            .hint("compare it with its console, and give it with `--fingerprint`")
    })
}

/// Prints the nodes whose files can be read, and then the errors of the others.
fn list(nodes: &KnownNodes) -> Result<()> {
    let titles = ["NAME", "ADDRESS", "FINGERPRINT", "CREDENTIALS", "DEFAULT"].map(str::to_owned);
    let default = nodes.default();
    let mut rows = vec![titles.to_vec()];
    let mut errors = Vec::new();
    for (name, node) in nodes.all()? {
        match node {
            Ok(KnownNode { address, fingerprint, credentials }) => rows.push(vec![
                name.clone(),
                printable(&address.to_string()),
                fingerprint.to_string(),
                printable(&credentials.path().display().to_string()),
                if default.as_ref() == Some(&name) { "yes" } else { "" }.to_owned(),
            ]),
            Err(error) => errors.push(error),
        }
    }
    print_lines(&Table::with(&rows).1)?;
    let last = errors.pop();
    errors.iter().for_each(stderr::print_line);
    last.map_or(Ok(()), Err)
}

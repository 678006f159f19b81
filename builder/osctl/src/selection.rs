//! Which nodes a verb is for.

use crate::error::{Error, Result};
use crate::known_nodes::KnownNodes;
use clap::Args;
use std::path::{Path, PathBuf};

/// The nodes that the user names.
#[derive(Clone, Debug, Default, Args)]
pub struct Selection {
    /// The node; for verbs that take several, `a,b` [default: that of `node use`, or the only one
    /// that is known]
    #[arg(long, short, global = true, value_name = "NAME", env = "OSCTL_NODE")]
    #[arg(value_delimiter = ',')]
    node: Vec<String>,
    /// All nodes that are known, in the place of `--node`
    #[arg(long, global = true)]
    all_nodes: bool,
    /// The file with the token of a Kubernetes ServiceAccount, which is shown in the place of a
    /// certificate
    #[arg(long, global = true, value_name = "FILE", env = "OSCTL_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

/// The nodes, as known ones are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// One. Without a name, the only one that is known.
    One(Option<String>),
    /// Several, at least one, each once.
    Several(Vec<String>),
}

impl Selection {
    /// The nodes that the user has added, with the token of the command line.
    pub fn known(&self) -> Result<KnownNodes> {
        Ok(KnownNodes::of_user()?.with_token(self.token_file.as_deref()))
    }

    /// The file with the token of the command line.
    pub fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }

    /// The nodes.
    ///
    /// # Errors
    /// All nodes are wanted, and none is known.
    pub fn names(&self) -> Result<Names> {
        if self.all_nodes {
            let names = KnownNodes::of_user()?.names()?;
            return match names.is_empty() {
                true => Ok(Names::One(None)),
                false => Ok(Names::Several(names)),
            };
        }
        let mut names: Vec<String> = Vec::new();
        for name in &self.node {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        Ok(match names.len() {
            0 | 1 => Names::One(names.pop()),
            _ => Names::Several(names),
        })
    }

    /// The node of a verb that takes one.
    ///
    /// # Errors
    /// There are several.
    pub fn only(&self) -> Result<Option<String>> {
        self.names()?.only()
    }
}

impl Names {
    /// The one node. All known nodes may be one.
    fn only(self) -> Result<Option<String>> {
        match self {
            Names::One(name) => Ok(name),
            Names::Several(mut names) if names.len() == 1 => Ok(names.pop()),
            Names::Several(names) => Err(Error::usage("this takes one node")
                .cause(format!("these are several: {}", names.join(", ")))
                .hint("name one with `--node`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Cli};
    use clap::{CommandFactory, Parser};

    fn selection(words: &[&str]) -> Selection {
        Cli::try_parse_from([&["osctl"], words].concat()).unwrap().nodes
    }

    #[test]
    fn nodes_are_named_by_commas_or_flags() {
        let names = |words: &[&str]| selection(words).names().unwrap();
        let several =
            |names: &[&str]| Names::Several(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(names(&["ps"]), Names::One(None));
        assert_eq!(names(&["ps", "-n", "a"]), Names::One(Some("a".to_owned())));
        assert_eq!(names(&["-n", "a,a", "ps"]), Names::One(Some("a".to_owned())));
        assert_eq!(names(&["ps", "-n", "b,a"]), several(&["b", "a"]));
        assert_eq!(names(&["ps", "-n", "b", "--node", "a", "-n", "b"]), several(&["b", "a"]));
    }

    #[test]
    fn one_known_node_is_one() {
        let all = |names: &[&str]| Names::Several(names.iter().map(|&n| n.to_owned()).collect());
        assert_eq!(all(&["edge-1"]).only().unwrap().as_deref(), Some("edge-1"));
        assert!(all(&["edge-1", "edge-2"]).only().is_err());
    }

    #[test]
    fn an_empty_variable_names_no_node() {
        let variables = |value: &'static str| {
            let command = cli::without_empty_variables(Cli::command(), |_| Some(value.into()));
            let variable = |id: &str| {
                let argument = command.get_arguments().find(|argument| argument.get_id() == id);
                argument.unwrap().get_env().map(|name| name.to_owned())
            };
            (variable("node"), variable("token_file"))
        };
        assert_eq!(variables(""), (None, None));
        let names = (Some("OSCTL_NODE".into()), Some("OSCTL_TOKEN_FILE".into()));
        assert_eq!(variables("edge-1"), names);
        // As in a script whose own variable is empty: the default node is not meant.
        assert_eq!(selection(&["reboot", "-n", ""]).only().unwrap().as_deref(), Some(""));
    }

    #[test]
    fn a_verb_for_one_node_refuses_several() {
        assert_eq!(selection(&["reboot", "-n", "a"]).only().unwrap().as_deref(), Some("a"));
        let error = selection(&["reboot", "-n", "a,b"]).only().unwrap_err();
        assert!(error.to_string().contains("a, b"), "{error}");
    }
}

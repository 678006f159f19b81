//! A unit of work: a command, its environment, its input files and the files that it makes. Its
//! digest, as the Remote Execution API defines it, is the key of its result.

mod input;
mod result;

pub use input::{InputTree, Properties};
pub use result::{ActionResult, Origin, OutputFile};

use super::digest::Digest;
use super::{reapi, rules};
use crate::error::Result;
use prost::Message;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The working directory of an action, with its input tree.
pub const BUILD: &str = "/build";

/// The directory of toolchains: `/toolchain/<name>`.
pub const TOOLCHAIN: &str = "/toolchain";

/// The variables of every action, unless it sets them itself. The host's environment is not passed
/// on.
const ENVIRONMENT: [(&str, &str); 4] =
    [("HOME", "/build/home"), ("LC_ALL", "C"), ("PATH", "/usr/bin:/usr/sbin"), ("TZ", "UTC")];

/// The file system at `/` of an action, mounted read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxRoot {
    /// The digest of what it was made from. The action's digest contains this key and not the path.
    pub key: Digest,
    /// Its directory on this machine.
    pub path: PathBuf,
}

/// A directory of tools, mounted read-only at `/toolchain/<name>`.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// Its name below `/toolchain`.
    pub name: String,
    /// The digest of what it was made from. The action's digest contains this key and not the path.
    pub key: Digest,
    /// Its directory on this machine.
    pub path: PathBuf,
}

impl Toolchain {
    /// Its path inside the sandbox.
    pub fn mount(&self) -> String {
        format!("{TOOLCHAIN}/{}", self.name)
    }
}

/// A unit of work.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name in reports and of its log, such as `kubelet amd64`. The digest does not contain it.
    pub name: String,
    /// The program, as a path in the sandbox or a name on its `PATH`, and its arguments. Its
    /// working directory is `/build`.
    pub argv: Vec<String>,
    /// Variables that add to the fixed ones (`HOME`, `LC_ALL`, `PATH`, `TZ`) or replace them.
    pub env: BTreeMap<String, String>,
    /// The files in `/build` when it starts.
    pub input: InputTree,
    /// The files that it makes, relative to `/build`. Their directories exist when it starts.
    pub outputs: Vec<String>,
    /// The file system at `/`.
    pub root: SandboxRoot,
    /// The directories below `/toolchain`.
    pub toolchains: Vec<Toolchain>,
}

impl Action {
    /// The key of its result: the digest of the REAPI message `Action`.
    pub fn digest(&self) -> Digest {
        self.digest_under(rules::VERSION)
    }

    /// The key of its result under the rules of `version`.
    fn digest_under(&self, version: u32) -> Digest {
        Digest::of(&self.message(self.input.digest(), version).encode_to_vec())
    }

    /// Passes the bytes of every message that describes the action to `emit`, and returns the
    /// action's digest.
    ///
    /// # Errors
    /// The error of `emit`.
    pub fn messages(&self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Digest> {
        emit(&self.command("").encode_to_vec())?;
        let input = self.input.encode(Properties::Nothing, emit)?;
        let action = self.message(input, rules::VERSION).encode_to_vec();
        emit(&action)?;
        Ok(Digest::of(&action))
    }

    /// Its whole environment: the fixed variables and its own.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let mut environment: BTreeMap<String, String> = ENVIRONMENT
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        environment.extend(self.env.clone());
        environment
    }

    /// Its `/build` when it starts: its input, and the folders of its outputs and of `HOME`.
    ///
    /// # Errors
    /// A file of its input has the path of such a folder.
    pub fn build_folder(&self) -> Result<InputTree> {
        let mut input = self.input.clone();
        let outputs = self.outputs.iter().filter_map(|output| Some(output.rsplit_once('/')?.0));
        outputs.chain(["home"]).try_for_each(|directory| input.add_directory(directory))?;
        Ok(input)
    }

    /// The REAPI message `Command`, with this working directory.
    pub(super) fn command(&self, working_directory: &str) -> reapi::Command {
        let mut output_paths = self.outputs.clone();
        output_paths.sort();
        let pair = |(name, value)| reapi::Pair { name, value };
        let environment_variables = self.environment().into_iter().map(pair).collect();
        reapi::Command {
            arguments: self.argv.clone(),
            environment_variables,
            working_directory: working_directory.to_owned(),
            output_paths,
        }
    }

    /// The digest of the REAPI message `Command`.
    pub fn command_digest(&self) -> Digest {
        Digest::of(&self.command("").encode_to_vec())
    }

    fn message(&self, input: Digest, version: u32) -> reapi::Action {
        let command = self.command_digest();
        let mut properties =
            vec![reapi::Pair { name: "sandbox-root".to_owned(), value: self.root.key.hex() }];
        let toolchain = |tool: &Toolchain| reapi::Pair {
            name: format!("toolchain-{}", tool.name),
            value: tool.key.hex(),
        };
        properties.extend(self.toolchains.iter().map(toolchain));
        properties.sort_by(|one, other| (&one.name, &one.value).cmp(&(&other.name, &other.value)));
        reapi::Action {
            command_digest: Some((&command).into()),
            input_root_digest: Some((&input).into()),
            timeout: None,
            do_not_cache: false,
            salt: rules::salt(version),
            platform: Some(reapi::Platform { properties }),
        }
    }
}

#[cfg(test)]
mod tests;

//! A unit of work: what is executed, with which environment, on which files, to make which files.
//! Its digest, as the Remote Execution API defines it, is the key of its result.

mod input;

pub use input::InputTree;

use super::digest::Digest;
use super::reapi;
use super::sandbox::SandboxRoot;
use super::store::Store;
use crate::error::{Error, Result};
use prost::Message;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Where an action runs and finds its input tree.
pub const BUILD: &str = "/build";

/// Where toolchains are: `/toolchain/<name>`.
pub const TOOLCHAIN: &str = "/toolchain";

/// The environment of each action beneath its own: nothing of the host's gets in.
const ENVIRONMENT: [(&str, &str); 4] =
    [("HOME", "/build/home"), ("LC_ALL", "C"), ("PATH", "/usr/bin:/usr/sbin"), ("TZ", "UTC")];

/// The type under which a result holds the CPU time of its action, a `google.protobuf.Duration`.
const CPU_TIME: &str = "osbuild/cpu-time";

/// A directory of tools that an action sees read-only.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// Its name: it is at `/toolchain/<name>`.
    pub name: String,
    /// What it was made from; this and not the path enters the action's digest.
    pub key: Digest,
    /// Where it is on this machine.
    pub path: PathBuf,
}

impl Toolchain {
    /// Where an action finds it.
    pub fn mount(&self) -> String {
        format!("{TOOLCHAIN}/{}", self.name)
    }
}

/// A unit of work.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name for people, such as `kubelet amd64`. It names the log too, and does not enter the
    /// digest.
    pub name: String,
    /// The program, as a path in the sandbox or a name on its `PATH`, and its arguments. It starts
    /// in `/build`.
    pub argv: Vec<String>,
    /// Variables besides, or instead of, the fixed ones: `HOME`, `LC_ALL`, `PATH`, `TZ`.
    pub env: BTreeMap<String, String>,
    /// What is in `/build` when it starts.
    pub input: InputTree,
    /// The files that it makes, relative to `/build`. Their directories are there when it starts.
    pub outputs: Vec<String>,
    /// What is at `/`.
    pub root: SandboxRoot,
    /// What is at `/toolchain/<name>`.
    pub toolchains: Vec<Toolchain>,
}

impl Action {
    /// The key of its result: the digest of the REAPI action.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.message(self.input.digest()).encode_to_vec())
    }

    /// Puts all messages that describe the action into the store, so that what ran can be looked
    /// up.
    pub fn put(&self, store: &Store) -> Result<Digest> {
        store.put_bytes(&self.command().encode_to_vec())?;
        store.put_bytes(&self.message(self.input.put(store)?).encode_to_vec())
    }

    /// Its whole environment.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let mut environment: BTreeMap<String, String> = ENVIRONMENT
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        environment.extend(self.env.clone());
        environment
    }

    fn command(&self) -> reapi::Command {
        let mut output_paths = self.outputs.clone();
        output_paths.sort();
        let pair = |(name, value)| reapi::Pair { name, value };
        let environment_variables = self.environment().into_iter().map(pair).collect();
        reapi::Command { arguments: self.argv.clone(), environment_variables, output_paths }
    }

    fn message(&self, input: Digest) -> reapi::Action {
        let command = Digest::of(&self.command().encode_to_vec());
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
            platform: Some(reapi::Platform { properties }),
        }
    }
}

/// A file that an action made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputFile {
    /// Its content, which is in the store.
    pub digest: Digest,
    /// Whether it can be executed.
    pub executable: bool,
}

/// What an action gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionResult {
    /// The files, by the paths that the action named.
    pub outputs: BTreeMap<String, OutputFile>,
    /// What it printed.
    pub log: Option<Digest>,
    /// How long it ran, when it ran.
    pub wall: Duration,
    /// The CPU time of all its processes.
    pub cpu: Duration,
}

impl ActionResult {
    /// The digest of the output `path`, which must be one that the action named.
    pub fn output(&self, path: &str) -> Result<Digest> {
        let output = self.outputs.get(path).map(|output| output.digest);
        output.ok_or_else(|| Error::build(format!("the step has no output `{path}`")))
    }

    /// The REAPI message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let output = |(path, output): (&String, &OutputFile)| reapi::OutputFile {
            path: path.clone(),
            digest: Some((&output.digest).into()),
            is_executable: output.executable,
        };
        let cpu = reapi::Any {
            type_url: CPU_TIME.to_owned(),
            value: reapi::Duration::from(self.cpu).encode_to_vec(),
        };
        let metadata = reapi::ExecutedActionMetadata {
            auxiliary_metadata: vec![cpu],
            virtual_execution_duration: Some(self.wall.into()),
        };
        let result = reapi::ActionResult {
            output_files: self.outputs.iter().map(output).collect(),
            stdout_digest: self.log.as_ref().map(Into::into),
            execution_metadata: Some(metadata),
        };
        result.encode_to_vec()
    }

    /// A result from the REAPI message's bytes; `None` when they are not one.
    pub fn decode(bytes: &[u8]) -> Option<ActionResult> {
        let message = reapi::ActionResult::decode(bytes).ok()?;
        let mut outputs = BTreeMap::new();
        for output in message.output_files {
            let digest = output.digest?.to_ours()?;
            outputs.insert(output.path, OutputFile { digest, executable: output.is_executable });
        }
        let log =
            message.stdout_digest.map(|digest| digest.to_ours().ok_or(())).transpose().ok()?;
        let metadata = message.execution_metadata?;
        let wall = metadata.virtual_execution_duration.unwrap_or_default().to_ours();
        let cpu = metadata.auxiliary_metadata.into_iter().find(|any| any.type_url == CPU_TIME)?;
        let cpu = reapi::Duration::decode(cpu.value.as_slice()).ok()?.to_ours();
        Some(ActionResult { outputs, log, wall, cpu })
    }
}

#[cfg(test)]
mod tests;

//! The result of an action that succeeded: the files that it made, its log and its cost.

use crate::engine::digest::Digest;
use crate::engine::reapi;
use crate::error::{Error, Result};
use prost::Message;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The type under which a result holds the CPU time of its action, a `google.protobuf.Duration`.
const CPU_TIME: &str = "osbuild/cpu-time";

/// The type under which the store keeps the [`Origin`] of a result, as text.
const ORIGIN: &str = "osbuild/origin";

/// The prefix of the address of a service that executed an action, in the text of an [`Origin`].
const EXECUTED: &str = "executed by ";

/// Where a result of another machine came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The cache with this address had it.
    Cache(String),
    /// The service with this address executed the action for us.
    Service(String),
}

impl Origin {
    fn parse(text: &str) -> Origin {
        match text.strip_prefix(EXECUTED) {
            Some(address) => Origin::Service(address.to_owned()),
            None => Origin::Cache(text.to_owned()),
        }
    }
}

/// The address of a cache, or `executed by` and that of a service.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Cache(address) => f.write_str(address),
            Origin::Service(address) => write!(f, "{EXECUTED}{address}"),
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

/// The result of an action. An action that failed has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionResult {
    /// The files, by the paths that the action named.
    pub outputs: BTreeMap<String, OutputFile>,
    /// Its log: the output that it printed.
    pub log: Option<Digest>,
    /// How long it ran, when it ran.
    pub wall: Duration,
    /// The CPU time of all its processes.
    pub cpu: Duration,
    /// Where the result came from; `None` if the action ran here.
    pub origin: Option<Origin>,
}

impl ActionResult {
    /// The digest of the output `path`.
    ///
    /// # Errors
    /// The action did not name this output.
    pub fn output(&self, path: &str) -> Result<Digest> {
        let output = self.outputs.get(path).map(|output| output.digest);
        output.ok_or_else(|| Error::build(format!("the step has no output `{path}`")))
    }

    /// The bytes of the REAPI message, whose exit code is 0.
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
        let origin = self.origin.as_ref().map(|origin| reapi::Any {
            type_url: ORIGIN.to_owned(),
            value: origin.to_string().into_bytes(),
        });
        let metadata = reapi::ExecutedActionMetadata {
            auxiliary_metadata: [cpu].into_iter().chain(origin).collect(),
            virtual_execution_duration: Some(self.wall.into()),
            ..reapi::ExecutedActionMetadata::default()
        };
        let result = reapi::ActionResult {
            output_files: self.outputs.iter().map(output).collect(),
            stdout_digest: self.log.as_ref().map(Into::into),
            execution_metadata: Some(metadata),
            ..reapi::ActionResult::default()
        };
        result.encode_to_vec()
    }

    /// A result from the bytes of the REAPI message; `None` when they are malformed, or when the
    /// message reports another exit code than 0: a cache may keep failures, and none of them may be
    /// taken for a success.
    pub fn decode(bytes: &[u8]) -> Option<ActionResult> {
        let message = reapi::ActionResult::decode(bytes).ok()?;
        if message.exit_code != 0 {
            return None;
        }
        let mut outputs = BTreeMap::new();
        for output in message.output_files {
            let digest = output.digest?.to_ours()?;
            outputs.insert(output.path, OutputFile { digest, executable: output.is_executable });
        }
        let log =
            message.stdout_digest.map(|digest| digest.to_ours().ok_or(())).transpose().ok()?;
        let metadata = message.execution_metadata?;
        let wall = metadata.virtual_execution_duration.unwrap_or_default().to_ours();
        let cpu = ActionResult::cpu_of(&metadata.auxiliary_metadata)?;
        let origin = metadata.auxiliary_metadata.into_iter().find(|any| any.type_url == ORIGIN);
        let origin = origin.map(|any| String::from_utf8(any.value)).transpose().ok()?;
        let origin = origin.map(|text| Origin::parse(&text));
        Some(ActionResult { outputs, log, wall, cpu, origin })
    }

    /// The CPU time among the details of a result; `None` if another program than ours wrote them.
    pub(in crate::engine) fn cpu_of(details: &[reapi::Any]) -> Option<Duration> {
        let cpu = details.iter().find(|any| any.type_url == CPU_TIME)?;
        Some(reapi::Duration::decode(cpu.value.as_slice()).ok()?.to_ours())
    }
}

//! The messages of the Remote Execution API, version 2, for actions and their results, with the
//! field numbers of `build/bazel/remote/execution/v2/remote_execution.proto`. Fields that we never
//! set are omitted: an absent field and one with its default value have the same encoding. All
//! lists are sorted as the specification requires.

use prost::Message;

/// A digest.
#[derive(Clone, PartialEq, Message)]
pub struct Digest {
    /// Lower-case hexadecimal SHA-256.
    #[prost(string, tag = "1")]
    pub hash: String,
    /// Length in bytes.
    #[prost(int64, tag = "2")]
    pub size_bytes: i64,
}

/// A directory, each list sorted by name.
#[derive(Clone, PartialEq, Message)]
pub struct Directory {
    /// Its files.
    #[prost(message, repeated, tag = "1")]
    pub files: Vec<FileNode>,
    /// Its directories.
    #[prost(message, repeated, tag = "2")]
    pub directories: Vec<DirectoryNode>,
    /// Its symbolic links.
    #[prost(message, repeated, tag = "3")]
    pub symlinks: Vec<SymlinkNode>,
    /// Further properties that a worker gives the directory.
    #[prost(message, optional, tag = "5")]
    pub node_properties: Option<NodeProperties>,
}

/// A directory with all directories below it.
#[derive(Clone, PartialEq, Message)]
pub struct Tree {
    /// The directory.
    #[prost(message, optional, tag = "1")]
    pub root: Option<Directory>,
    /// Those below it, in any order.
    #[prost(message, repeated, tag = "2")]
    pub children: Vec<Directory>,
}

/// Properties that a worker gives a file or a directory.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProperties {
    /// Its time of modification.
    #[prost(message, optional, tag = "2")]
    pub mtime: Option<Timestamp>,
    /// Its permission bits, a `google.protobuf.UInt32Value`.
    #[prost(message, optional, tag = "3")]
    pub unix_mode: Option<UInt32Value>,
}

/// A number (`google.protobuf.UInt32Value`).
#[derive(Clone, Copy, PartialEq, Message)]
pub struct UInt32Value {
    /// The number.
    #[prost(uint32, tag = "1")]
    pub value: u32,
}

/// A moment as its distance from 1970 (`google.protobuf.Timestamp`).
pub type Timestamp = Duration;

/// A file in a directory.
#[derive(Clone, PartialEq, Message)]
pub struct FileNode {
    /// Its name, without a slash.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its content.
    #[prost(message, optional, tag = "2")]
    pub digest: Option<Digest>,
    /// Whether it can be executed.
    #[prost(bool, tag = "4")]
    pub is_executable: bool,
    /// Further properties that a worker gives the file.
    #[prost(message, optional, tag = "6")]
    pub node_properties: Option<NodeProperties>,
}

/// A directory in a directory.
#[derive(Clone, PartialEq, Message)]
pub struct DirectoryNode {
    /// Its name, without a slash.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The digest of its [`Directory`].
    #[prost(message, optional, tag = "2")]
    pub digest: Option<Digest>,
}

/// A symbolic link in a directory.
#[derive(Clone, PartialEq, Message)]
pub struct SymlinkNode {
    /// Its name, without a slash.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its target.
    #[prost(string, tag = "2")]
    pub target: String,
}

/// A variable of an environment, or a property of a [`Platform`].
#[derive(Clone, PartialEq, Message)]
pub struct Pair {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A command with its environment and outputs.
#[derive(Clone, PartialEq, Message)]
pub struct Command {
    /// The program and its arguments.
    #[prost(string, repeated, tag = "1")]
    pub arguments: Vec<String>,
    /// The whole environment, sorted by name.
    #[prost(message, repeated, tag = "2")]
    pub environment_variables: Vec<Pair>,
    /// The working directory below the input root; absent for the input root itself.
    #[prost(string, tag = "6")]
    pub working_directory: String,
    /// The paths of the outputs, sorted, relative to the working directory.
    #[prost(string, repeated, tag = "7")]
    pub output_paths: Vec<String>,
}

/// The requirements of an action on its machine.
#[derive(Clone, PartialEq, Message)]
pub struct Platform {
    /// Its properties, sorted by name and then by value.
    #[prost(message, repeated, tag = "1")]
    pub properties: Vec<Pair>,
}

/// A unit of work. The digest of its bytes is the key of its result.
#[derive(Clone, PartialEq, Message)]
pub struct Action {
    /// The digest of the [`Command`].
    #[prost(message, optional, tag = "1")]
    pub command_digest: Option<Digest>,
    /// The digest of the [`Directory`] with its inputs.
    #[prost(message, optional, tag = "2")]
    pub input_root_digest: Option<Digest>,
    /// After which time a worker ends it.
    #[prost(message, optional, tag = "6")]
    pub timeout: Option<Duration>,
    /// Whether its result is for one use alone.
    #[prost(bool, tag = "7")]
    pub do_not_cache: bool,
    /// Bytes that keep the results of other rules apart; absent for the first rules.
    #[prost(bytes = "vec", tag = "9")]
    pub salt: Vec<u8>,
    /// The machines that can run it.
    #[prost(message, optional, tag = "10")]
    pub platform: Option<Platform>,
}

/// A file that an action made.
#[derive(Clone, PartialEq, Message)]
pub struct OutputFile {
    /// The path that the action named.
    #[prost(string, tag = "1")]
    pub path: String,
    /// Its content.
    #[prost(message, optional, tag = "2")]
    pub digest: Option<Digest>,
    /// Whether it can be executed.
    #[prost(bool, tag = "4")]
    pub is_executable: bool,
}

/// A length of time (`google.protobuf.Duration`).
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Duration {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds after these seconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// A message of any type (`google.protobuf.Any`).
#[derive(Clone, PartialEq, Message)]
pub struct Any {
    /// The type's name.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The message's bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// Measurements of a run.
#[derive(Clone, PartialEq, Message)]
pub struct ExecutedActionMetadata {
    /// When the command began.
    #[prost(message, optional, tag = "7")]
    pub execution_start_timestamp: Option<Timestamp>,
    /// When the command ended.
    #[prost(message, optional, tag = "8")]
    pub execution_completed_timestamp: Option<Timestamp>,
    /// Details that the API does not define; ours has the CPU time.
    #[prost(message, repeated, tag = "11")]
    pub auxiliary_metadata: Vec<Any>,
    /// How long the command ran.
    #[prost(message, optional, tag = "12")]
    pub virtual_execution_duration: Option<Duration>,
}

/// The result of an action.
#[derive(Clone, PartialEq, Message)]
pub struct ActionResult {
    /// The files that it made.
    #[prost(message, repeated, tag = "2")]
    pub output_files: Vec<OutputFile>,
    /// The exit code of its command; absent when that is 0.
    #[prost(int32, tag = "4")]
    pub exit_code: i32,
    /// Its output, if a server puts it here.
    #[prost(bytes = "bytes", tag = "5")]
    pub stdout_raw: bytes::Bytes,
    /// Its output; of an action that ran here, both streams in one.
    #[prost(message, optional, tag = "6")]
    pub stdout_digest: Option<Digest>,
    /// Its output of errors, if a server puts it here.
    #[prost(bytes = "bytes", tag = "7")]
    pub stderr_raw: bytes::Bytes,
    /// Its output of errors.
    #[prost(message, optional, tag = "8")]
    pub stderr_digest: Option<Digest>,
    /// Measurements of the run.
    #[prost(message, optional, tag = "9")]
    pub execution_metadata: Option<ExecutedActionMetadata>,
}

impl From<&super::digest::Digest> for Digest {
    fn from(digest: &super::digest::Digest) -> Self {
        let size_bytes =
            i64::try_from(digest.size()).expect("no file is larger than eight exabytes");
        Digest { hash: digest.hex(), size_bytes }
    }
}

impl Digest {
    /// Our type of digest; `None` when it is malformed.
    pub fn to_ours(&self) -> Option<super::digest::Digest> {
        super::digest::Digest::parse(&self.hash, u64::try_from(self.size_bytes).ok()?)
    }
}

impl From<std::time::Duration> for Duration {
    fn from(time: std::time::Duration) -> Self {
        Duration { seconds: time.as_secs() as i64, nanos: time.subsec_nanos() as i32 }
    }
}

impl Duration {
    /// The standard library's type of duration; 0 for a negative one.
    pub fn to_ours(self) -> std::time::Duration {
        std::time::Duration::new(
            self.seconds.max(0) as u64,
            self.nanos.clamp(0, 999_999_999) as u32,
        )
    }
}

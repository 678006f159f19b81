//! Results that another machine made, read with care: the writers of a cache choose their bytes.

use crate::engine::action::{Action, ActionResult, Origin, OutputFile};
use crate::engine::digest::Digest;
use crate::engine::reapi;
use bytes::Bytes;
use prost::Message;
use std::collections::BTreeMap;
use std::time::Duration;

/// The upper limit of an output in bytes. A result that names a larger one would only fill the
/// disk.
const MAX_OUTPUT: u64 = 8 << 30;

/// The upper limit of what an action printed, in bytes.
const MAX_LOG: u64 = 64 << 20;

/// A result of `action` from the bytes of a cache, and what the action printed if the result
/// contains that; `cache` names the cache. `None` if the bytes are malformed, report a failure, or
/// lack a named output or have something other than a file in its place: the step runs here then.
pub fn foreign(
    bytes: &[u8],
    action: &Action,
    cache: &str,
) -> Option<(ActionResult, Option<Bytes>)> {
    let message = reapi::ActionResult::decode(bytes).ok()?;
    if message.exit_code != 0 {
        return None;
    }
    let outputs = outputs(&message, action)?.ok()?;
    let log = message.stdout_digest.as_ref().and_then(|log| digest(log, MAX_LOG));
    let printed = (!message.stdout_raw.is_empty()).then_some(message.stdout_raw);
    let metadata = message.execution_metadata.unwrap_or_default();
    let origin = Some(Origin::Cache(cache.to_owned()));
    let cpu = ActionResult::cpu_of(&metadata.auxiliary_metadata).unwrap_or_default();
    Some((ActionResult { outputs, log, wall: wall(&metadata), cpu, origin }, printed))
}

/// The run of an action on a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// How it ended.
    pub end: End,
    /// The output that it printed: stdout, then stderr.
    pub printed: Vec<Printed>,
}

/// How an action ended on a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It made each output. The result has no log yet.
    Made(ActionResult),
    /// It ended well, but this output is not there, or is no file.
    Lacks(String),
    /// A signal ended it, so this exit status says nothing about the action.
    Killed(i32),
    /// It ended with this exit status.
    Failed(i32),
}

/// A part of what an action printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Printed {
    /// Its bytes.
    Inline(Bytes),
    /// Their digest.
    Blob(Digest),
}

/// The run of `action` on a service, from the bytes of its result; `service` names the service.
/// `None` if the bytes are malformed.
pub fn executed(bytes: &[u8], action: &Action, service: &str) -> Option<Run> {
    let message = reapi::ActionResult::decode(bytes).ok()?;
    let outputs = outputs(&message, action)?;
    let printed = |raw: &Bytes, blob: &Option<reapi::Digest>| match blob {
        _ if !raw.is_empty() => Some(Printed::Inline(raw.clone())),
        blob => Some(Printed::Blob(digest(blob.as_ref()?, MAX_LOG)?)),
    };
    let printed = [
        printed(&message.stdout_raw, &message.stdout_digest),
        printed(&message.stderr_raw, &message.stderr_digest),
    ];
    let metadata = message.execution_metadata.unwrap_or_default();
    let cpu = ActionResult::cpu_of(&metadata.auxiliary_metadata).unwrap_or_default();
    let origin = Some(Origin::Service(service.to_owned()));
    let end = match (message.exit_code, outputs) {
        (0, Ok(outputs)) => {
            End::Made(ActionResult { outputs, log: None, wall: wall(&metadata), cpu, origin })
        }
        (0, Err(lacking)) => End::Lacks(lacking),
        (status, _) if is_of_signal(status) => End::Killed(status),
        (status, _) => End::Failed(status),
    };
    Some(Run { end, printed: printed.into_iter().flatten().collect() })
}

/// The outputs of `action` in a result, or the name of the first one that it lacks. `None` if a
/// digest is malformed, or two files have the same path and so contradict each other.
fn outputs(
    message: &reapi::ActionResult,
    action: &Action,
) -> Option<std::result::Result<BTreeMap<String, OutputFile>, String>> {
    let mut files = BTreeMap::new();
    for output in &message.output_files {
        let digest = digest(output.digest.as_ref()?, MAX_OUTPUT)?;
        let file = OutputFile { digest, executable: output.is_executable };
        if files.insert(output.path.as_str(), file).is_some() {
            return None;
        }
    }
    let named = |path: &String| match files.get(path.as_str()) {
        Some(file) => Ok((path.clone(), *file)),
        None => Err(path.clone()),
    };
    Some(action.outputs.iter().map(named).collect())
}

/// Whether services report this exit status for an action that a signal ended: 128 and the number
/// of the signal as a shell does, or -1.
fn is_of_signal(status: i32) -> bool {
    const MAX_SIGNAL: i32 = 64;
    status < 0 || (129..=128 + MAX_SIGNAL).contains(&status)
}

/// How long an action ran.
fn wall(metadata: &reapi::ExecutedActionMetadata) -> Duration {
    let moment = |time: &Option<reapi::Timestamp>| time.unwrap_or_default().to_ours();
    let between = moment(&metadata.execution_completed_timestamp)
        .saturating_sub(moment(&metadata.execution_start_timestamp));
    metadata.virtual_execution_duration.map_or(between, reapi::Duration::to_ours)
}

fn digest(digest: &reapi::Digest, max: u64) -> Option<Digest> {
    digest.to_ours().filter(|digest| digest.size() <= max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::action::{InputTree, SandboxRoot};
    use proptest::prelude::*;

    fn action(outputs: &[&str]) -> Action {
        Action {
            name: "step".into(),
            argv: vec!["true".into()],
            env: BTreeMap::new(),
            input: InputTree::new(),
            outputs: outputs.iter().map(|&output| output.to_owned()).collect(),
            root: SandboxRoot { key: Digest::of(b"root"), path: "/root".into() },
            toolchains: Vec::new(),
        }
    }

    fn file(path: &str) -> reapi::OutputFile {
        let digest = Some((&Digest::of(path.as_bytes())).into());
        reapi::OutputFile { path: path.into(), digest, is_executable: false }
    }

    fn read(message: &reapi::ActionResult, outputs: &[&str]) -> Option<ActionResult> {
        Some(foreign(&message.encode_to_vec(), &action(outputs), "grpc://cache")?.0)
    }

    #[test]
    fn a_result_counts_with_every_named_output_and_only_these() {
        let output_files = vec![file("a"), file("b"), file("unasked")];
        let message = reapi::ActionResult { output_files, ..Default::default() };
        let result = read(&message, &["a", "b"]).unwrap();
        assert_eq!(result.outputs.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(result.origin, Some(Origin::Cache("grpc://cache".into())));
        assert_eq!(read(&message, &["a", "c"]), None);
    }

    #[test]
    fn a_cached_failure_is_no_success() {
        let failed = reapi::ActionResult {
            output_files: vec![file("a")],
            exit_code: 1,
            ..Default::default()
        };
        assert_eq!(read(&failed, &["a"]), None);
        assert!(read(&reapi::ActionResult { exit_code: 0, ..failed }, &["a"]).is_some());
    }

    /// Folders and links among the outputs of a result, in the four fields of the API.
    #[derive(Clone, PartialEq, Message)]
    struct OtherOutputs {
        #[prost(message, repeated, tag = "3")]
        directories: Vec<OtherOutput>,
        #[prost(message, repeated, tag = "10")]
        file_symlinks: Vec<OtherOutput>,
        #[prost(message, repeated, tag = "11")]
        directory_symlinks: Vec<OtherOutput>,
        #[prost(message, repeated, tag = "12")]
        symlinks: Vec<OtherOutput>,
    }

    /// A folder with the digest of its tree, or a link with its target.
    #[derive(Clone, PartialEq, Message)]
    struct OtherOutput {
        #[prost(string, tag = "1")]
        path: String,
        #[prost(string, tag = "2")]
        target: String,
        #[prost(message, optional, tag = "3")]
        tree: Option<reapi::Digest>,
    }

    #[test]
    fn a_folder_or_a_link_in_place_of_an_output_is_no_result() {
        let file_b = reapi::ActionResult { output_files: vec![file("b")], ..Default::default() };
        let (path, tree) = ("a".to_owned(), Some((&Digest::of(b"tree")).into()));
        let folder = vec![OtherOutput { path: path.clone(), tree, ..Default::default() }];
        let link = vec![OtherOutput { path, target: "b".into(), ..Default::default() }];
        for others in [
            OtherOutputs { directories: folder, ..Default::default() },
            OtherOutputs { file_symlinks: link.clone(), ..Default::default() },
            OtherOutputs { directory_symlinks: link.clone(), ..Default::default() },
            OtherOutputs { symlinks: link, ..Default::default() },
        ] {
            let bytes = [file_b.encode_to_vec(), others.encode_to_vec()].concat();
            let step = action(&["a", "b"]);
            assert_eq!(foreign(&bytes, &step, ""), None, "{others:?}");
            let run = executed(&bytes, &step, "").unwrap();
            assert_eq!(run.end, End::Lacks("a".into()), "{others:?}");
            assert!(foreign(&bytes, &action(&["b"]), "").is_some(), "{others:?}");
        }
    }

    #[test]
    fn the_time_of_a_step_is_that_of_its_worker() {
        let at = |seconds, nanos| Some(reapi::Timestamp { seconds, nanos });
        let duration = |seconds| Some(reapi::Duration { seconds, nanos: 0 });
        let wall = |start, end, virtual_execution_duration| {
            let metadata = reapi::ExecutedActionMetadata {
                execution_start_timestamp: start,
                execution_completed_timestamp: end,
                virtual_execution_duration,
                ..Default::default()
            };
            let execution_metadata = Some(metadata);
            read(&reapi::ActionResult { execution_metadata, ..Default::default() }, &[])
                .unwrap()
                .wall
        };
        let seconds = Duration::from_secs;
        assert_eq!(wall(at(10, 500_000_000), at(12, 0), None), Duration::from_millis(1500));
        assert_eq!(wall(at(10, 0), at(12, 0), duration(7)), seconds(7));
        // A worker whose clock was set back, or that sends nonsense, costs the number alone.
        assert_eq!(wall(at(12, 0), at(10, 0), None), Duration::ZERO);
        assert_eq!(wall(at(12, 0), None, None), Duration::ZERO);
        assert_eq!(wall(at(-5, -1), at(3, i32::MIN), None), seconds(3));
        assert_eq!(wall(None, None, duration(i64::MIN)), Duration::ZERO);
        let endless = seconds(i64::MAX as u64);
        assert_eq!(wall(None, at(i64::MAX, 0), None), endless);
    }

    #[test]
    fn a_malformed_digest_and_a_file_named_twice_are_refused() {
        let mut huge = file("a");
        huge.digest.as_mut().unwrap().size_bytes = i64::MAX;
        let mut negative = file("a");
        negative.digest.as_mut().unwrap().size_bytes = -1;
        let mut path = file("a");
        path.digest.as_mut().unwrap().hash = "../../../etc/passwd".into();
        let none = reapi::OutputFile { digest: None, ..file("a") };
        for output_files in
            [vec![huge], vec![negative], vec![path], vec![none], vec![file("a"), file("a")]]
        {
            let message = reapi::ActionResult { output_files, ..Default::default() };
            assert_eq!(read(&message, &["a"]), None, "{message:?}");
        }
    }

    #[test]
    fn what_it_printed_comes_inline_or_by_digest() {
        let message = reapi::ActionResult {
            stdout_digest: Some((&Digest::of(b"log")).into()),
            ..Default::default()
        };
        assert_eq!(read(&message, &[]).unwrap().log, Some(Digest::of(b"log")));
        let inline = reapi::ActionResult { stdout_raw: "log".into(), ..Default::default() };
        let (result, printed) = foreign(&inline.encode_to_vec(), &action(&[]), "").unwrap();
        assert_eq!((result.log, printed.as_deref()), (None, Some(&b"log"[..])));
    }

    #[test]
    fn a_run_prints_its_output_and_then_its_errors_inline_or_by_digest() {
        let blob = |text: &str| Digest::of(text.as_bytes());
        let message = reapi::ActionResult {
            stdout_digest: Some((&blob("output")).into()),
            stderr_digest: Some((&blob("errors")).into()),
            ..Default::default()
        };
        let printed = |message: &reapi::ActionResult| {
            executed(&message.encode_to_vec(), &action(&[]), "").unwrap().printed
        };
        let output = Printed::Blob(blob("output"));
        assert_eq!(printed(&message), [output.clone(), Printed::Blob(blob("errors"))]);
        let inline = reapi::ActionResult { stderr_raw: "errors".into(), ..message.clone() };
        assert_eq!(printed(&inline), [output.clone(), Printed::Inline("errors".into())]);
        // A digest that is malformed or of too many bytes costs the text alone.
        for (hash, size_bytes) in [("../errors".to_owned(), 6), (blob("errors").hex(), i64::MAX)] {
            let stderr_digest = Some(reapi::Digest { hash, size_bytes });
            let other = reapi::ActionResult { stderr_digest, ..message.clone() };
            assert_eq!(printed(&other), std::slice::from_ref(&output));
        }
    }

    #[test]
    fn a_run_ends_by_a_signal_or_its_exit_status_or_without_an_output() {
        let run = |exit_code, output: &str| {
            let output_files = vec![file(output)];
            let stderr_raw = "why".into();
            let message =
                reapi::ActionResult { output_files, exit_code, stderr_raw, ..Default::default() };
            let run = executed(&message.encode_to_vec(), &action(&["a"]), "grpc://there").unwrap();
            assert_eq!(run.printed, [Printed::Inline("why".into())]);
            run.end
        };
        assert_eq!((run(3, "a"), run(3, "b")), (End::Failed(3), End::Failed(3)));
        assert_eq!((run(137, "a"), run(-1, "b")), (End::Killed(137), End::Killed(-1)));
        assert_eq!((run(128, "a"), run(255, "a")), (End::Failed(128), End::Failed(255)));
        assert_eq!(run(0, "b"), End::Lacks("a".into()));
        let End::Made(result) = run(0, "a") else { panic!("it made its output") };
        assert_eq!(result.origin, Some(Origin::Service("grpc://there".into())));
        assert_eq!(ActionResult::decode(&result.encode()), Some(result));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic_and_with_every_output(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            if let Some((result, _)) = foreign(&bytes, &action(&["a"]), "") {
                prop_assert!(result.outputs.contains_key("a"));
            }
            let run = executed(&bytes, &action(&["a"]), "");
            if let Some(Run { end: End::Made(result), .. }) = run {
                prop_assert!(result.outputs.contains_key("a"));
            }
        }

        #[test]
        fn a_flipped_bit_gives_no_result_without_its_output(
            byte in any::<prop::sample::Index>(), bit in 0..8
        ) {
            let output_files = vec![file("a")];
            let message = reapi::ActionResult { output_files, ..Default::default() };
            let mut bytes = message.encode_to_vec();
            let place = byte.index(bytes.len());
            bytes[place] ^= 1_u8 << bit;
            if let Some((result, _)) = foreign(&bytes, &action(&["a"]), "") {
                prop_assert!(result.outputs.len() == 1 && result.outputs.contains_key("a"));
            }
        }
    }
}

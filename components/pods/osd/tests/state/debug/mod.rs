//! Debug containers: the program in them, `osd`, and a client. Only the kubelet is missing.

mod node;

use crate::osd::Osd;
use crate::remote::RemoteOsd;
use node::{Came, DebugNode, IMAGE, Session, container, on_terminal, script};
use osbuild_cosi::v1::debug_request::Part as Sent;
use osbuild_cosi::v1::{DebugRequest, DebugSize, DebugStart};
use std::path::Path;
use std::time::{Duration, Instant};
use tonic::{Code, Status};

async fn start() -> (DebugNode, Osd) {
    let node = DebugNode::start().await;
    let arguments = node.arguments();
    let osd = Osd::start_with(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    (node, osd)
}

async fn begin(osd: &Osd, start: DebugStart) -> Result<Session, Status> {
    Session::begin(osd.channel().await, start).await
}

/// All that a script sends that gets no input.
async fn ran(start: DebugStart) -> Came {
    let (_node, osd) = self::start().await;
    let mut session = begin(&osd, start).await.unwrap();
    session.end_input();
    session.all().await.unwrap()
}

/// Waits for something that comes soon.
async fn soon(what: &str, mut is_there: impl FnMut() -> bool) {
    for _ in 0..500 {
        if is_there() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}");
}

#[tokio::test]
async fn a_command_has_its_outputs_apart_and_gives_its_exit_code() {
    let (node, osd) = start().await;
    let mut session = begin(&osd, script("echo out; echo err >&2; exit 7")).await.unwrap();
    let came = session.all().await.unwrap();
    assert_eq!((came.text().as_str(), &*came.errors, came.code), ("out\n", &b"err\n"[..], Some(7)));
    assert!(came.progress[0].contains(IMAGE), "{came:?}");
    soon("the container is not removed", || !node.has_container()).await;
    let [debug, end] = &node.requests()[..] else { panic!("{:?}", node.requests()) };
    assert!(debug.ends_with(&format!(" restricted 3600 {IMAGE}")), "{debug}");
    assert_eq!(end, "end-debug");
}

#[tokio::test]
async fn the_end_of_a_command_is_reported_as_a_shell_does() {
    assert_eq!(ran(script("kill -9 $$")).await.code, Some(137));
    let command = |word: &str| DebugStart { command: vec![word.to_owned()], ..script("") };
    let came = ran(command("no-such-program")).await;
    let errors = String::from_utf8_lossy(&came.errors).into_owned();
    assert!(
        came.code == Some(127) && errors.contains("cannot start `no-such-program`"),
        "{errors}"
    );
    assert_eq!(ran(command("/etc/hostname")).await.code, Some(126));
    let came = ran(DebugStart { command: vec!["no-such-program".into()], ..on_terminal("") }).await;
    assert!(came.code == Some(127) && came.text().contains("No such file"), "{came:?}");
}

#[tokio::test]
async fn a_terminal_has_the_size_of_the_clients_and_follows_it() {
    let (_node, osd) = start().await;
    let text = "trap 'stty size' WINCH; stty size; echo $TERM; tty; while :; do sleep 0.1; done";
    let mut session = begin(&osd, on_terminal(text)).await.unwrap();
    let came = session.until("/dev/pts/").await.text();
    assert!(came.contains("30 100\r\nvt100\r\n"), "{came:?}");
    session.send(Sent::Size(DebugSize { columns: 132, rows: 43 })).await;
    session.until("43 132").await;
    // The terminal makes a signal of Ctrl-C.
    session.write(b"\x03").await;
    assert_eq!(session.all().await.unwrap().code, Some(130));
}

#[tokio::test]
async fn a_shell_on_a_terminal_is_talked_to() {
    let (_node, osd) = start().await;
    let shell = DebugStart { command: vec!["sh".into()], ..on_terminal("") };
    let mut session = begin(&osd, shell).await.unwrap();
    session.write(b"echo $((6 * 7))\n").await;
    session.until("42\r\n").await;
    // It has job control, so the terminal is its own.
    session.write(b"set -m && sleep 60 & jobs\n").await;
    session.until("unning").await;
    session.send(Sent::EndOfInput(osbuild_cosi::v1::DebugEndOfInput {})).await;
    assert!(session.all().await.unwrap().code.is_some());
}

#[tokio::test]
async fn no_byte_is_lost_while_the_client_is_slow() {
    let expected: String = (1..=400_000).map(|number| format!("{number}\n")).collect();
    for (start, expected) in [
        (script("seq 1 400000"), expected.clone()),
        (on_terminal("seq 1 400000"), expected.replace('\n', "\r\n")),
    ] {
        let (_node, osd) = self::start().await;
        let mut session = begin(&osd, start).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let came = session.all().await.unwrap();
        assert!(came.text() == expected, "{} of {}", came.output.len(), expected.len());
        assert_eq!(came.code, Some(0));
    }
}

#[tokio::test]
async fn a_program_in_the_background_keeps_no_output_open() {
    let began = Instant::now();
    let came = ran(script("sleep 60 & echo done")).await;
    assert_eq!((came.text().as_str(), came.code), ("done\n", Some(0)));
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn input_of_any_length_comes_back_over_the_network() {
    let node = DebugNode::start().await;
    let arguments = node.arguments();
    let remote = RemoteOsd::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let alice = remote.identity("alice", "admin");
    let channel = remote.channel(&alice).await.unwrap();
    let mut session = Session::begin(channel, script("cat; exit 3")).await.unwrap();
    // More than a client may hold of the memory of `osd`.
    let bytes: Vec<u8> = (0..6 << 20).map(|at: u32| (at / 7) as u8).collect();
    let (to, sent) = (session.sender(), bytes.clone());
    tokio::spawn(async move {
        for part in sent.chunks(50_000) {
            to.send(DebugRequest { part: Some(Sent::Input(part.to_vec())) }).await.unwrap();
        }
    });
    let came = session.all().await.unwrap();
    assert!(came.output == bytes && came.code == Some(3), "{}", came.output.len());
    let record = remote.recorded("ended with exit code 3", 1).await;
    let call = "call: admin \"alice\": osbuild.v1.Node/Debug: done: localhost/tools:1 with the \
                rights restricted: [\"sh\", \"-c\", \"cat; exit 3\"]";
    assert!(record.contains(call), "{record}");
    assert!(record.contains("ended: admin \"alice\": debug-"), "{record}");
    for role in ["operator", "reader"] {
        let other = remote.channel(&remote.identity("bob", role)).await.unwrap();
        let refused = Session::begin(other, script("id")).await.err().unwrap();
        assert_eq!(refused.code(), Code::PermissionDenied, "{role}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_command() {
    for start in [script("echo pid=$$; cat"), on_terminal("echo pid=$$; cat")] {
        let (node, osd) = self::start().await;
        let mut session = begin(&osd, start).await.unwrap();
        let came = session.until("\n").await.text();
        let pid = came.trim().strip_prefix("pid=").unwrap().to_owned();
        let process = Path::new("/proc").join(pid);
        assert!(process.exists());
        drop(session);
        soon("the command goes on", || !process.exists()).await;
        soon("the container is not removed", || !node.has_container()).await;
    }
}

#[tokio::test]
async fn a_client_that_goes_away_before_there_is_a_container_leaves_none() {
    let (node, osd) = start().await;
    node.delay(Duration::from_millis(500));
    let arrives = soon("the request does not arrive", || !node.requests().is_empty());
    tokio::select! {
        _ = begin(&osd, script("sleep 60")) => panic!("there is a container already"),
        () = arrives => {}
    }
    let has_ended = || node.requests().last().is_some_and(|last| last == "end-debug");
    soon("the container stays", || !node.requests().is_empty() && has_ended()).await;
    assert!(!node.has_container());
    node.delay(Duration::ZERO);
    assert_eq!(begin(&osd, script("exit 3")).await.unwrap().all().await.unwrap().code, Some(3));
}

#[tokio::test]
async fn a_command_is_hung_up_on_when_its_container_ends() {
    let (node, osd) = start().await;
    let text =
        "trap 'echo hung up >trace; exit' HUP; cd \"$0\"; echo begun; while :; do sleep 0.1; done";
    let mut start = script(text);
    start.command.push(node.path("logs").display().to_string());
    let mut session = begin(&osd, start).await.unwrap();
    session.until("begun").await;
    node.end();
    assert_eq!(session.all().await.unwrap_err().code(), Code::Aborted);
    // The shell runs its trap after the command that it waits for.
    let trace = node.path("logs/trace");
    let is_written = || std::fs::read_to_string(&trace).is_ok_and(|text| text == "hung up\n");
    soon("the command is hung up on", is_written).await;
}

#[tokio::test]
async fn a_container_ends_with_its_time() {
    let (node, osd) = start().await;
    let began = Instant::now();
    let start = DebugStart { seconds: 10, ..script("sleep 1000") };
    let mut session = begin(&osd, start).await.unwrap();
    let over = session.all().await.unwrap_err();
    assert_eq!(over.code(), Code::DeadlineExceeded);
    assert!(
        over.message().contains("10 s") && began.elapsed() >= Duration::from_secs(10),
        "{over}"
    );
    assert!(!node.has_container());
}

#[tokio::test]
async fn a_node_has_one_at_a_time() {
    let (_node, osd) = start().await;
    let mut first = begin(&osd, script("echo begun; cat")).await.unwrap();
    first.until("begun").await;
    let second = begin(&osd, script("id")).await.err().unwrap();
    assert_eq!(second.code(), Code::ResourceExhausted);
    first.end_input();
    assert_eq!(first.all().await.unwrap().code, Some(0));
    let mut third = begin(&osd, script("exit 5")).await.unwrap();
    assert_eq!(third.all().await.unwrap().code, Some(5));
}

#[tokio::test]
async fn what_the_node_does_not_allow_or_cannot_pull_is_said() {
    let (node, osd) = start().await;
    let start = DebugStart { rights: "node".into(), ..script("id") };
    let refused = begin(&osd, start).await.err().unwrap();
    assert_eq!((refused.code(), refused.message()), (Code::FailedPrecondition, "not allowed"));
    let start = DebugStart { image: "registry.example/a:1".into(), ..script("id") };
    let failed = begin(&osd, start).await.unwrap().all().await.unwrap_err();
    assert_eq!(failed.code(), Code::FailedPrecondition);
    let reason = "the image cannot be pulled: failed to pull and unpack image \
                  \"registry.example/a:1\": not found";
    assert_eq!(failed.message(), reason);
    soon("the pod stays", || node.requests().last().is_some_and(|last| last == "end-debug")).await;
}

#[tokio::test]
async fn a_program_that_nobody_waits_for_is_refused() {
    let (node, osd) = start().await;
    let folder = node.path("debug").parent().unwrap().to_owned();
    let mut session = begin(&osd, script("echo begun; cat")).await.unwrap();
    session.until("begun").await;
    let id = node.requests()[0].split(' ').nth(1).unwrap().to_owned();
    // A second program with the identifier of the first one, and one with another.
    for id in [id.as_str(), "00000000000000000000000000000000"] {
        assert!(!container(&folder, id).wait().unwrap().success());
    }
    session.end_input();
    assert_eq!(session.all().await.unwrap().code, Some(0));
}

#[tokio::test]
async fn an_osd_that_ends_ends_the_command() {
    let (node, mut osd) = start().await;
    let mut session = begin(&osd, script("echo pid=$$; cat")).await.unwrap();
    let came = session.until("\n").await.text();
    let process = Path::new("/proc").join(came.trim().strip_prefix("pid=").unwrap());
    osd.process().kill().unwrap();
    soon("the command goes on", || !process.exists()).await;
    // `init` still has the pod, until the next `osd` has it removed.
    assert!(node.has_container());
    let arguments = node.arguments();
    osd.restart_with(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    soon("the pod stays", || !node.has_container()).await;
}

#[tokio::test]
async fn requests_out_of_order_end_the_call() {
    let (_node, osd) = start().await;
    let mut session = begin(&osd, script("echo begun; cat")).await.unwrap();
    session.until("begun").await;
    session.send(Sent::Start(script("id"))).await;
    assert_eq!(session.all().await.unwrap_err().code(), Code::InvalidArgument);
    let wrong =
        begin(&osd, DebugStart { image: "a b".into(), ..script("id") }).await.err().unwrap();
    assert_eq!(wrong.code(), Code::InvalidArgument);
}

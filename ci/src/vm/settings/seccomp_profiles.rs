//! A resource writes a seccomp profile into the kubelet's folder, and binds the pods that name it.

use super::node::{Node, TIMEOUT, yaml};
use super::{BY_EVENT, was_repaired};
use crate::check::Outcome;
use crate::vm::probe;
use osbuild::error::{Context, Result};
use osbuild_abi::paths::{DATA_MANIFESTS, SECCOMP_LINK, SECCOMP_PROFILES};
use serde_json::json;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PROFILES: &str = "SeccompProfiles";
const STATUSES: &str = "SeccompProfileStatuses";
const ID: &str = "quiet";
const NAME: &str = "no-calls.json";
/// The system call that the profile denies first, and the one that it denies after a change.
const FIRST: &str = "getpriority";
const SECOND: &str = "getsid";
/// The pods that are made before and after that.
const PODS: [&str; 2] = ["filtered", "refiltered"];
/// The number of names in the changed profile beside that: more than an architecture has. runc
/// leaves out what the kernel does not have.
const OTHERS: usize = 500;
/// How often to read the log of a pod.
const PAUSE: Duration = Duration::from_millis(500);

/// Its file is below the kubelet's folder of profiles, and is put back.
pub fn is_written(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(PROFILES, ID, &spec(&[FIRST.to_owned()]))?;
    has_status(node, "a resource sets a seccomp profile", outcome)?;
    let expected = text(&[FIRST.to_owned()]);
    let text = node.read(&format!("{SECCOMP_LINK}/{NAME}"))?;
    outcome.check("the kubelet's folder has the profile", text == expected, || text.clone());
    let file = format!("{SECCOMP_PROFILES}/{NAME}");
    node.write(&file, "{}")?;
    let within = node.becomes(&file, &expected)?;
    was_repaired("a seccomp profile is put back", within, BY_EVENT, outcome);
    Ok(())
}

/// An ordinary pod that names it cannot make the call. One that is made after a change gets the
/// changed profile, however long it is, and the first pod keeps its own.
pub fn bind_pods(node: &Node, outcome: &mut Outcome) -> Result<()> {
    run(node, PODS[0])?;
    prints(node, PODS[0], [(FIRST, "EPERM"), (SECOND, "ok")], outcome)?;
    let found = node.resource(PROFILES, ID)?;
    let version = found["metadata"]["version"].as_str().unwrap_or_default();
    node.update(PROFILES, ID, version, &spec(&second()))?;
    let file = format!("{SECCOMP_PROFILES}/{NAME}");
    let within = node.becomes(&file, &text(&second()))?;
    outcome.check("a profile has room for every system call", within.is_some(), String::new);
    run(node, PODS[1])?;
    prints(node, PODS[1], [(FIRST, "ok"), (SECOND, "EPERM")], outcome)?;
    prints(node, PODS[0], [(FIRST, "EPERM"), (SECOND, "ok")], outcome)?;
    // The next boot does not run them.
    PODS.into_iter().try_for_each(|pod| node.write(&manifest(pod), "{}"))
}

/// It is there after a power cut, and goes with its resource.
pub fn outlasts_a_power_cut_and_goes(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_status(node, "a seccomp profile outlasts a power cut", outcome)?;
    let path = format!("{SECCOMP_LINK}/{NAME}");
    let found = node.read(&path)?;
    let holds = found == text(&second());
    outcome.check("its file outlasts a power cut", holds, || found.clone());
    node.destroy(PROFILES, ID)?;
    let is_gone = node.is_gone(STATUSES, ID)?;
    outcome.check("its status goes with its resource", is_gone, || "it has a status".into());
    let left = node.read(&path).unwrap_or_default();
    outcome.check("its file goes with its resource", left.starts_with(probe::ERROR), || left);
    Ok(())
}

/// The names in the changed profile.
fn second() -> Vec<String> {
    let others = (0..OTHERS).map(|number| format!("call_of_no_kernel_{number:03}"));
    std::iter::once(SECOND.to_owned()).chain(others).collect()
}

/// The spec of a profile that denies these calls.
fn spec(calls: &[String]) -> String {
    format!(
        "{{name: no-calls, defaultAction: SCMP_ACT_ALLOW, syscalls: [{{names: [{}], action: \
         SCMP_ACT_ERRNO, errnoRet: 1}}]}}",
        calls.join(", ")
    )
}

/// The text of its file, as the probe answers with it: without the newline at the end.
fn text(calls: &[String]) -> String {
    let syscalls = json!([{ "names": calls, "action": "SCMP_ACT_ERRNO", "errnoRet": 1 }]);
    format!("{:#}", json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": syscalls }))
}

/// Has the kubelet run a pod that names the profile, without a right or an API server.
fn run(node: &Node, name: &str) -> Result<()> {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "hostNetwork": true,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "seccompProfile": {
                    "type": "Localhost",
                    "localhostProfile": format!("osbuild/{NAME}"),
                },
            },
            "containers": [{
                "name": "calls",
                "image": "localhost/probe:1",
                "imagePullPolicy": "Never",
                "args": ["calls"],
            }],
        },
    });
    let (path, text) = (manifest(name), pod.to_string());
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o600);
    header.set_size(text.len() as u64);
    let archive = archive
        .append_data(&mut header, path.trim_start_matches('/'), text.as_bytes())
        .and_then(|()| archive.into_inner())
        .or_build(|| format!("cannot pack `{path}`"))?;
    probe::command(node.places, |stream| stream.write_all(&archive))
}

/// The manifest of a pod on DATA.
fn manifest(pod: &str) -> String {
    format!("{DATA_MANIFESTS}/{pod}.json")
}

/// Waits for the pod's first lines, and compares its last ones with these calls and their results.
fn prints(
    node: &Node,
    pod: &str,
    expected: [(&str, &str); 2],
    outcome: &mut Outcome,
) -> Result<()> {
    let began = Instant::now();
    let mut log = String::new();
    while log.lines().count() < expected.len() && began.elapsed() < TIMEOUT {
        sleep(PAUSE);
        log = probe::request(node.logs, |stream| write!(stream, "{pod}"))?;
    }
    for (call, result) in expected {
        let last = log.lines().rfind(|line| line.contains(&format!(" {call} ")));
        let holds = last.is_some_and(|line| line.ends_with(&format!(" {call} {result}")));
        let claim = format!("`{call}` gives `{result}` in the pod `{pod}`");
        outcome.check(&claim, holds, || log.clone());
    }
    Ok(())
}

fn has_status(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let is_set = |yaml: &str| yaml.contains("set: true");
    let status = node.resource_with(STATUSES, ID, is_set)?;
    outcome.check(claim, is_set(yaml(&status)), || status.to_string());
    Ok(())
}

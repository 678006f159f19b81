//! The pod of a debug container. `init` makes it from a template of its own, of which a client
//! chooses the image alone, and removes it when its time is over. `/run` has it, so no boot finds
//! one.

mod root_view;

use std::time::Duration;

use osbuild_abi::paths::{API_DEBUG, DEBUG_MANIFEST, STATIC_PODS};
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{DebugContainer, DebugRights, Refusal, RefusalCode};

use crate::host::run_files;

/// The templates, and the words that each container replaces in them.
const RESTRICTED: &str = include_str!("restricted.yaml");
const NODE: &str = include_str!("node.yaml");
const NAME: &str = "@NAME@";
const ID: &str = "@ID@";
const IMAGE: &str = "@IMAGE@";
const SECONDS: &str = "@SECONDS@";

/// How much later than `init` the kubelet ends a container. Its own deadline is the second one.
const LATER: u32 = 60;
/// The pause before a manifest that could not be removed is removed again.
const PAUSE: Duration = Duration::from_secs(1);
/// The word in the recipe's file with which there is no debug container.
const OFF: &str = "off";

/// The debug container that there is.
#[derive(Debug, Default)]
pub struct DebugPod(Option<Running>);

#[derive(Debug)]
struct Running {
    /// The name of the pod.
    name: String,
    /// When it ends, since boot.
    deadline: Duration,
}

impl DebugPod {
    /// When the container ends, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.0.as_ref().map(|running| running.deadline)
    }

    /// The pod's manifest for a container that may have these rights at most, if any. It begins
    /// `now`, since boot.
    ///
    /// # Errors
    /// There is one already, or the image does not allow its rights.
    pub fn begin(
        &mut self,
        container: &DebugContainer,
        allowed: Option<DebugRights>,
        now: Duration,
    ) -> Result<String, Refusal> {
        if allowed.is_none_or(|allowed| container.rights > allowed) {
            return Err(Refusal::new(RefusalCode::NotAllowed, refusal(container.rights, allowed)));
        }
        if let Some(Running { name, deadline }) = &self.0 {
            let left = deadline.saturating_sub(now).as_secs();
            let reason = format!("the node has the debug container `{name}`, {left} s at most");
            return Err(Refusal::new(RefusalCode::Busy, reason));
        }
        let (name, deadline) = (container.id.pod(), now + container.time.duration());
        self.0 = Some(Running { name, deadline });
        Ok(manifest(container))
    }

    /// The container shall end, or it could not begin. Returns its name.
    pub fn end(&mut self) -> Option<String> {
        self.0.take().map(|running| running.name)
    }

    /// The manifest of this container could not be removed.
    pub fn on_stuck(&mut self, name: String, now: Duration) {
        self.0 = Some(Running { name, deadline: now + PAUSE });
    }
}

/// The greatest rights that the recipe allows: without a word of it `restricted`, with an unknown
/// word none.
pub fn allowed() -> Option<DebugRights> {
    of_word(std::fs::read_to_string(API_DEBUG).ok().as_deref())
}

fn of_word(word: Option<&str>) -> Option<DebugRights> {
    match word.map(str::trim) {
        None => Some(DebugRights::Restricted),
        Some(OFF) => None,
        Some(word) => DebugRights::parse(word).ok(),
    }
}

fn refusal(wanted: DebugRights, allowed: Option<DebugRights>) -> String {
    match allowed {
        None => "the recipe of the node allows no debug containers (`debug` of `[api]`)".to_owned(),
        Some(_) => format!(
            "the recipe of the node allows no debug container with the rights `{wanted}`: it needs \
             `debug = \"{wanted}\"` in `[api]`"
        ),
    }
}

/// The words that replace others are of letters, digits and `._-/:@`, see their types.
fn manifest(container: &DebugContainer) -> String {
    let template = match container.rights {
        DebugRights::Restricted => RESTRICTED,
        DebugRights::Node => NODE,
    };
    let seconds = container.time.seconds() + LATER;
    template
        .replace(NAME, &container.id.pod())
        .replace(ID, &container.id.to_string())
        .replace(SECONDS, &seconds.to_string())
        .replace(IMAGE, &container.image.to_string())
}

/// Puts the manifest where the kubelet finds it, and before that the node's root where a container
/// with `rights` sees it. Both only change memory.
///
/// # Errors
/// It cannot be written, or the root cannot be mounted a second time.
pub fn place(rights: DebugRights, manifest: &str) -> Outcome {
    if rights == DebugRights::Node {
        root_view::make()?;
    }
    set(Some(manifest))
}

/// Removes what there is of the manifest and of the root. Both only change memory.
///
/// # Errors
/// One of them stays.
pub fn remove() -> Outcome {
    set(None)?;
    root_view::remove()
}

fn set(manifest: Option<&str>) -> Outcome {
    run_files::folder(STATIC_PODS).explain(format_args!("make {STATIC_PODS}"))?;
    run_files::set(&format!("{STATIC_PODS}/{DEBUG_MANIFEST}"), manifest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_abi::osd::DEBUG_VARIABLE;
    use osbuild_abi::paths::{DEBUG, DEBUG_ROOT};
    use osbuild_protocol::{DebugId, DebugTime, ImageName};
    use serde_json::{Value, json};

    const BEGIN: Duration = Duration::from_secs(100);

    fn container(rights: DebugRights) -> DebugContainer {
        DebugContainer {
            id: DebugId::new([7; 16]),
            rights,
            time: DebugTime::new(20).unwrap(),
            image: ImageName::parse("docker.io/library/busybox:1").unwrap(),
        }
    }

    fn pod(rights: DebugRights) -> Value {
        let text = DebugPod::default().begin(&container(rights), Some(rights), BEGIN).unwrap();
        serde_saphyr::from_str(&text).unwrap()
    }

    #[test]
    fn a_container_ends_at_its_deadline_and_there_is_one_at_a_time() {
        let mut debug = DebugPod::default();
        let restricted = container(DebugRights::Restricted);
        let allowed = Some(DebugRights::Restricted);
        assert!(debug.deadline().is_none());
        debug.begin(&restricted, allowed, BEGIN).unwrap();
        assert_eq!(debug.deadline(), Some(BEGIN + Duration::from_secs(20)));
        let second = debug.begin(&restricted, allowed, BEGIN + Duration::from_secs(5)).unwrap_err();
        let reason = "the node has the debug container `debug-07070707`, 15 s at most";
        assert_eq!((second.code, second.reason.as_str()), (RefusalCode::Busy, reason));
        assert_eq!(debug.end().as_deref(), Some("debug-07070707"));
        assert!(debug.deadline().is_none() && debug.end().is_none());
        debug.begin(&restricted, allowed, BEGIN).unwrap();
    }

    #[test]
    fn a_manifest_that_stays_is_removed_again() {
        let mut debug = DebugPod::default();
        debug.on_stuck("debug-07070707".to_owned(), BEGIN);
        assert_eq!(debug.deadline(), Some(BEGIN + PAUSE));
    }

    #[test]
    fn the_recipe_decides_which_rights_there_are() {
        use DebugRights::{Node, Restricted};
        for (word, allowed) in [
            (None, Some(Restricted)),
            (Some("restricted\n"), Some(Restricted)),
            (Some("node\n"), Some(Node)),
            (Some("off\n"), None),
            (Some("all\n"), None),
            (Some(""), None),
        ] {
            assert_eq!(of_word(word), allowed, "{word:?}");
            for rights in DebugRights::ALL {
                let begun = DebugPod::default().begin(&container(rights), allowed, BEGIN);
                let code = begun.map(drop).map_err(|refusal| refusal.code);
                let is_allowed = allowed.is_some_and(|allowed| rights <= allowed);
                let expected = is_allowed.then_some(()).ok_or(RefusalCode::NotAllowed);
                assert_eq!(code, expected, "{word:?} {rights}");
            }
        }
    }

    #[test]
    fn a_restricted_container_has_nothing_of_the_node() {
        let spec = &pod(DebugRights::Restricted)["spec"];
        for key in ["hostPID", "hostNetwork", "hostIPC", "shareProcessNamespace"] {
            assert_eq!(spec.get(key), None, "{key}");
        }
        for container in ["initContainers", "containers"].map(|key| &spec[key][0]) {
            let context = &container["securityContext"];
            assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
            assert_eq!(context["allowPrivilegeEscalation"], false);
            assert_eq!(context.get("privileged"), None);
        }
        let paths = spec["volumes"].as_array().unwrap().iter();
        let paths: Vec<&Value> = paths.filter_map(|volume| volume.get("hostPath")).collect();
        assert_eq!(paths, [&json!({"path": "/run/osbuild/debug", "type": "Directory"})]);
        assert_eq!(spec["containers"][0]["volumeMounts"][1]["readOnly"], true);
    }

    #[test]
    fn a_container_that_sees_the_node_writes_to_none_of_its_files() {
        let spec = &pod(DebugRights::Node)["spec"];
        assert_eq!((&spec["hostPID"], &spec["hostNetwork"]), (&json!(true), &json!(true)));
        let container = &spec["containers"][0];
        assert_eq!(container["securityContext"].get("privileged"), None);
        for mount in container["volumeMounts"].as_array().unwrap() {
            assert_eq!(mount["readOnly"], true, "{mount}");
        }
        assert_eq!(container["volumeMounts"][2]["name"], "host");
        assert_eq!(spec["volumes"][0]["hostPath"]["path"], DEBUG_ROOT);
        let context = &spec["initContainers"][0]["securityContext"];
        assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    }

    #[test]
    fn both_have_what_the_client_has_named_and_a_second_deadline() {
        for rights in DebugRights::ALL {
            let pod = pod(rights);
            assert_eq!(pod["metadata"]["name"], "debug-07070707");
            let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
            assert_eq!(container["image"], "docker.io/library/busybox:1");
            let variable = json!({"name": DEBUG_VARIABLE, "value": "07".repeat(16)});
            assert_eq!(container["env"], json!([variable]));
            let mount = &container["volumeMounts"][1];
            assert_eq!((&mount["name"], &mount["mountPath"]), (&json!("socket"), &json!(DEBUG)));
            assert_eq!(spec["activeDeadlineSeconds"], 80);
            assert_eq!(spec["restartPolicy"], "Never");
            assert!(!pod.to_string().contains('@'), "{pod}");
        }
    }
}

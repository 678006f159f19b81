//! Real files, each test in a mount namespace of its own. They need root.

use super::*;

use std::fs;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use serde_json::{Value, json};

use crate::sys::own_mounts;

const PATH: &str = "/run/osbuild/kubelet/pods/osbuild-setting-web.json";
const NOW: Duration = Duration::from_secs(100);

/// A pod with each field.
const WHOLE: &str = "namespace=media host-network host-pid restart=OnFailure grace=5 \
     volume=cache:memory:16Mi volume=work:disk:64Mi volume=films:host:/srv/films \
     init-container=prepare image=example.org/tools:1 arg=a%20$(b) \
     container=web image=docker.io/library/nginx:1 pull=IfNotPresent command=/bin/web arg=-v \
     env=MODE=fast request-cpu=100m request-memory=32Mi limit-cpu=1 limit-memory=64Mi \
     port=8080/TCP mount=cache:rw:/var/cache mount=films:ro:/films user=1000 group=0 \
     writable-root privileged capability=NET_ADMIN startup=0:0:0:30:tcp:8080 \
     liveness=5:10:1:3:http:8080:/healthz readiness=0:0:0:0:exec:/bin/ready,-v";

/// Runs a test on a thread where `/run` is as on a node.
fn on_a_node(work: impl FnOnce(&mut PodSettings) + Send) {
    let inside = || {
        own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        mount("node", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).unwrap();
        work(&mut PodSettings::default());
    };
    let ended = std::thread::scope(|scope| scope.spawn(inside).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn pod(name: &str, words: &str) -> StaticPod {
    match Setting::parse(&format!("static-pod {name} {words}")) {
        Ok(Setting::StaticPod(pod)) => pod,
        other => panic!("{words}: {other:?}"),
    }
}

fn image(rights: &str) -> OfImage {
    let names = ["dhcp", "osd"].map(str::to_owned).into();
    OfImage { rights: PodRights::of_lines(Some(rights)), names }
}

fn apply(pods: &mut PodSettings, source: Source, words: &str) -> Result<(), Refusal> {
    pods.apply(source, &pod("web", words), &image(""), NOW)
}

fn name() -> PodName {
    PodName::of_pod("web").unwrap()
}

fn manifest(words: &str) -> Value {
    serde_json::from_str(&manifest::text(&pod("web", words))).unwrap()
}

#[test]
fn a_manifest_has_what_the_setting_says_and_safe_defaults() {
    let text = manifest::text(&pod("web", "container=a image=b"));
    assert_eq!(text, include_str!("smallest.json"));
    let text = manifest::text(&pod("web", WHOLE));
    assert_eq!(text, include_str!("whole.json"));
}

#[test]
fn a_pod_without_rights_has_nothing_of_the_node() {
    let pod = manifest(
        "volume=c:disk:1Mi init-container=i image=b container=a image=b mount=c:rw:/c \
         capability=CHOWN",
    );
    let spec = &pod["spec"];
    for key in ["hostPID", "hostNetwork", "hostIPC", "priorityClassName", "serviceAccountName"] {
        assert_eq!(spec.get(key), None, "{key}");
    }
    assert_eq!(spec["priority"], 0);
    assert_eq!(spec["automountServiceAccountToken"], false);
    for container in ["initContainers", "containers"].map(|key| &spec[key][0]) {
        let context = &container["securityContext"];
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context.get("privileged"), None);
        assert_eq!(container["resources"]["limits"]["memory"], "512Mi");
    }
    assert_eq!(spec["volumes"], json!([{ "name": "c", "emptyDir": { "sizeLimit": "1Mi" } }]));
}

#[test]
fn a_request_above_the_default_limit_raises_it() {
    let pod = manifest("container=a image=b request-memory=1Gi");
    let resources = &pod["spec"]["containers"][0]["resources"];
    assert_eq!(resources, &json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}));
}

#[test]
fn a_manifest_is_there_as_long_as_the_setting() {
    on_a_node(|pods| {
        apply(pods, Source::Document, "container=a image=b").unwrap();
        apply(pods, Source::Api, "container=a image=c").unwrap();
        assert!(fs::read_to_string(PATH).unwrap().contains("\"image\": \"c\""));
        let observed: Vec<Observed> = pods.observe().collect();
        assert_eq!(observed[0].source, Some(Source::Api));
        assert_eq!(observed[0].current, "container=a image=c");
        assert_eq!(pods.of(Source::Document).count(), 1);
        pods.withdraw(Source::Api, &name(), NOW).unwrap();
        assert!(fs::read_to_string(PATH).unwrap().contains("\"image\": \"b\""));
        pods.withdraw(Source::Document, &name(), NOW).unwrap();
        assert!(!Path::new(PATH).exists());
        assert_eq!(pods.observe().count(), 0);
    });
}

#[test]
fn a_manifest_that_another_program_changes_is_back() {
    on_a_node(|pods| {
        apply(pods, Source::Api, "container=a image=b").unwrap();
        let text = fs::read_to_string(PATH).unwrap();
        let other = PATH.replace("web", "other");
        fs::remove_file(PATH).unwrap();
        fs::write(&other, text.replace("false", "true")).unwrap();
        let lines = pods.hold();
        assert_eq!(
            lines,
            [
                "another program changed the static pod `web`, it is as before again",
                "no setting asks for the static pod in `osbuild-setting-other.json`",
            ]
        );
        assert_eq!(fs::read_to_string(PATH).unwrap(), text);
        assert!(!Path::new(&other).exists());
        fs::write(PATH, "{}").unwrap();
        assert_eq!(pods.hold().len(), 1);
        assert_eq!(fs::read_to_string(PATH).unwrap(), text);
        assert_eq!(pods.hold(), [""; 0]);
    });
}

#[test]
fn rights_that_the_recipe_does_not_allow_are_refused() {
    on_a_node(|pods| {
        for (words, right) in [
            ("host-network container=a image=b", "host-network"),
            ("host-pid container=a image=b", "host-pid"),
            ("volume=a:host:/srv container=a image=b", "host-path=/srv"),
            ("container=a image=b privileged", "privileged"),
            ("init-container=i image=b privileged container=a image=b", "privileged"),
            ("container=a image=b capability=SYS_ADMIN", "capability=SYS_ADMIN"),
        ] {
            let refusal = apply(pods, Source::Api, words).unwrap_err();
            assert_eq!(refusal.code, RefusalCode::NotAllowed, "{words}");
            assert!(refusal.reason.contains(right), "{refusal}");
            let pod = pod("web", words);
            pods.apply(Source::Document, &pod, &image(right), NOW).unwrap();
            pods.withdraw(Source::Document, &name(), NOW).unwrap();
        }
        let off = pods.apply(Source::Api, &pod("web", "container=a image=b"), &image("off"), NOW);
        assert_eq!(off.unwrap_err().code, RefusalCode::NotAllowed);
        assert!(!Path::new(PATH).exists() && pods.observe().count() == 0);
    });
}

#[test]
fn a_pod_of_the_image_or_of_data_wins_over_one_of_its_name() {
    on_a_node(|pods| {
        let signed = pods.apply(Source::Api, &pod("dhcp", "container=a image=b"), &image(""), NOW);
        assert_eq!(signed.unwrap_err().reason, "the image has a pod `dhcp` of its own");
        apply(pods, Source::Api, "container=a image=b").unwrap();
        let error = "/etc/kubernetes/manifests has a pod `web`, which stays";
        assert_eq!(pods.on_data(&["web.yaml".to_owned()]), [format!("`web`: {error}")]);
        assert_eq!(pods.on_data(&["web.yaml".to_owned()]), [""; 0]);
        let observed: Vec<Observed> = pods.observe().collect();
        assert_eq!((observed[0].error.as_str(), observed[0].current.as_str()), (error, ""));
        assert!(!Path::new(PATH).exists());
        assert_eq!(pods.on_data(&[]), [""; 0]);
        assert!(Path::new(PATH).exists());
        assert_eq!(pods.observe().next().unwrap().error, "");
    });
}

#[test]
fn the_number_of_pods_is_bounded() {
    on_a_node(|pods| {
        for number in 0..MAX_STATIC_PODS {
            let pod = pod(&format!("a{number}"), "container=a image=b");
            pods.apply(Source::Api, &pod, &image(""), NOW).unwrap();
        }
        let refusal = apply(pods, Source::Api, "container=a image=b").unwrap_err();
        assert_eq!(refusal.code, RefusalCode::Failed);
        let first = pod("a0", "container=a image=c");
        pods.apply(Source::Api, &first, &image(""), NOW).unwrap();
    });
}

#[test]
fn a_change_during_a_look_is_looked_at_after_its_end() {
    on_a_node(|pods| {
        apply(pods, Source::Api, "container=a image=b").unwrap();
        pods.on_asking();
        apply(pods, Source::Api, "container=a image=c").unwrap();
        assert_eq!(pods.deadline(), None, "one child at a time");
        pods.on_states("web running=1 restarts=0 reason= message=\n", NOW);
        assert_eq!(pods.deadline(), Some(NOW + SOON));
        pods.on_asking();
        pods.withdraw(Source::Api, &name(), NOW).unwrap();
        pods.on_states("", NOW);
        assert_eq!(pods.deadline(), None);
    });
}

#[test]
fn states_are_of_the_pods_that_there_are() {
    on_a_node(|pods| {
        assert_eq!(pods.deadline(), None);
        apply(pods, Source::Api, "namespace=a container=a image=b container=c image=b").unwrap();
        assert_eq!(pods.deadline(), Some(NOW + SOON));
        assert_eq!(pods.on_asking(), ["a/web/2"]);
        assert_eq!(pods.deadline(), None, "a child looks");
        let other = "other running=1 restarts=0 reason= message=";
        pods.on_states(&format!("{other}\nnonsense\n"), NOW);
        assert_eq!((pods.states(), pods.deadline()), (Vec::new(), Some(NOW + SOON)));
        let line = "web running=1 restarts=2 reason= message=";
        pods.on_states(&format!("{line}\n{other}\n"), NOW);
        assert_eq!(pods.states()[0].encode(), line);
        assert_eq!(pods.deadline(), Some(NOW + INTERVAL));
        pods.withdraw(Source::Api, &name(), NOW).unwrap();
        assert_eq!((pods.states(), pods.deadline()), (Vec::new(), None));
    });
}

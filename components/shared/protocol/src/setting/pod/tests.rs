use super::*;
use proptest::prelude::*;

/// A pod with each field, in the words of the protocol.
const WHOLE: &str = "namespace=media host-network host-pid restart=OnFailure grace=5 \
     volume=cache:memory:16Mi volume=work:disk:64Mi volume=films:host:/srv/films \
     init-container=prepare image=example.org/tools:1 arg=a%20b \
     container=web image=docker.io/library/nginx:1@sha256:ab pull=IfNotPresent command=/bin/web \
     arg=--title arg=100%25%2c%20%c3%a4 env=MODE=fast env=EMPTY= request-cpu=100m \
     request-memory=32Mi limit-cpu=1 limit-memory=64Mi port=8080/TCP port=53/UDP \
     mount=cache:rw:/var/cache mount=films:ro:/films user=1000 group=0 writable-root privileged \
     capability=CHOWN capability=NET_ADMIN startup=0:0:0:30:tcp:8080 \
     liveness=5:10:1:3:http:8080:/healthz?a=b:c readiness=0:0:0:0:exec:/bin/ready,-v,a%20b";

fn read(words: &str) -> Result<StaticPod, Refusal> {
    StaticPod::parse_words(PodName::of_pod("web")?, words)
}

#[test]
fn a_pod_with_each_field_is_written_as_it_was_read() {
    let pod = read(WHOLE).unwrap();
    assert_eq!(pod.words(), WHOLE);
    let rights: Vec<String> = pod.rights().iter().map(ToString::to_string).collect();
    assert_eq!(
        rights,
        ["host-network", "host-pid", "privileged", "capability=NET_ADMIN", "host-path=/srv/films"]
    );
    assert_eq!(pod.spec().containers[0].arguments[1].as_str(), "100%, \u{e4}");
}

#[test]
fn a_pod_without_more_than_an_image_needs_no_rights() {
    for words in [
        "container=a image=b",
        "container=a image=b capability=CHOWN capability=NET_BIND_SERVICE writable-root",
        "volume=c:disk:1Gi container=a image=b mount=c:rw:/c",
    ] {
        assert!(read(words).unwrap().rights().is_empty(), "{words}");
    }
}

#[test]
fn what_no_static_pod_can_have_is_refused() {
    for words in [
        "",
        "container=a",
        "image=b",
        "container=a image=",
        "container=a image=b image=c",
        "container=a image=b container=a image=b",
        "container=a image=b  port=1/TCP",
        "container=a image=b host-network",
        "host-network=true container=a image=b",
        "host-ipc container=a image=b",
        "service-account=admin container=a image=b",
        "priority=2000001000 container=a image=b",
        "runtime-class=kata container=a image=b",
        "namespace=kube-system container=a image=b",
        "volume=a:host:srv container=a image=b",
        "volume=a:host:/srv/../etc container=a image=b",
        "volume=a:secret:token container=a image=b",
        "volume=a:disk:1Mi volume=a:disk:1Mi container=a image=b",
        "grace=601 container=a image=b",
        "grace=-1 container=a image=b",
        "container=a image=b mount=c:rw:/c",
        "container=a image=b privileged=true",
        "container=a image=b capability=ALL",
        "container=a image=b device=/dev/sda",
        "container=a image=b user=4294967295",
        "container=a image=b port=0/TCP",
        "container=a image=b port=65536/TCP",
        "container=a image=b host-port=80/TCP",
        "container=a image=b env=7A=b",
        "container=a image=b env=A=b env=A=c",
        "container=a image=b arg=%",
        "container=a image=b request-memory=2Mi limit-memory=1Mi",
        "container=a image=b liveness=0:0:0:0:exec:",
        "container=a image=b liveness=0:0:0:0:http:80:healthz",
        "container=a image=b liveness=0:0:0:0:tcp:0",
        "container=a image=b liveness=3601:0:0:0:tcp:80",
        "init-container=a image=b liveness=0:0:0:0:tcp:80 container=c image=b",
        "init-container=a image=b",
    ] {
        assert!(read(words).is_err(), "{words}");
    }
}

#[test]
fn all_mistakes_of_a_pod_are_named_at_once() {
    let refusal = read(
        "volume=a:disk:1Mi volume=a:disk:1Mi container=b image=c mount=d:rw:/d \
                        request-cpu=2 limit-cpu=1",
    )
    .unwrap_err();
    assert_eq!(
        refusal.reason,
        "the pod `web` has two volumes `a`, has the container `b` with a mount of the volume `d`, \
         which it lacks, has the container `b` with requests above its limits"
    );
}

#[test]
fn the_size_of_a_pod_is_bounded() {
    let with = |length: usize| read(&format!("container=a image=b arg={}", "x".repeat(length)));
    assert!(with(3000).is_ok());
    assert!(with(3073).is_err());
    let many = |entries: usize| read(&format!("container=a image=b{}", " arg=x".repeat(entries)));
    assert!(many(MAX_ENTRIES).is_ok() && many(MAX_ENTRIES + 1).is_err());
    let long = format!("container=a image=b arg={0} arg={0}", "x".repeat(2000));
    assert!(read(&long).unwrap_err().reason.contains("and may take 3584"));
    let containers = |number: usize| {
        let all: Vec<String> = (0..number).map(|one| format!("container=a{one} image=b")).collect();
        read(&all.join(" "))
    };
    assert!(containers(MAX_CONTAINERS).is_ok() && containers(MAX_CONTAINERS + 1).is_err());
}

proptest! {
    #[test]
    fn what_is_read_from_any_words_is_written_and_read_again(
        words in prop::collection::vec(
            prop::sample::select(WHOLE.split(' ').collect::<Vec<_>>()),
            0..12,
        ),
        noise in "[ -~]{0,12}",
    ) {
        let words = format!("container=a image=b {} {noise}", words.join(" "));
        for words in [words.trim(), &words] {
            if let Ok(pod) = read(words) {
                prop_assert_eq!(read(&pod.words()), Ok(pod));
            }
        }
    }
}

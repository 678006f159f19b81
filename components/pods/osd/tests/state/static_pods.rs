//! Static pods as resources, with an `init` that sets all that it is asked for.

use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
use tonic::Code;

/// A pod with the fields of a manifest of Kubernetes.
const POD: &str = "\
type: StaticPod
id: films
spec:
  name: web
  hostPID: true
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 5
  volumes:
  - name: cache
    emptyDir: {medium: Memory}
  - name: films
    hostPath: {path: /srv/films}
  initContainers:
  - name: prepare
    image: example.org/tools:1
    command: [sh, -c, 'echo 100%']
  containers:
  - name: web
    image: docker.io/library/nginx:1.29
    env:
    - name: NUMBER
      value: 7
    resources:
      requests: {cpu: 2, memory: 32Mi}
    ports:
    - containerPort: 80
    volumeMounts:
    - {name: films, mountPath: /films, readOnly: true}
    securityContext:
      readOnlyRootFilesystem: false
      capabilities: {add: [NET_ADMIN]}
    readinessProbe:
      httpGet: {port: 80}
";
const LINE: &str = "static-pod web host-pid restart=OnFailure grace=5 volume=cache:memory:64Mi \
     volume=films:host:/srv/films init-container=prepare image=example.org/tools:1 command=sh \
     command=-c command=echo%20100%25 container=web image=docker.io/library/nginx:1.29 \
     env=NUMBER=7 request-cpu=2 request-memory=32Mi port=80/TCP mount=films:ro:/films \
     writable-root capability=NET_ADMIN readiness=0:0:0:0:http:80:/";

#[tokio::test]
async fn a_pod_reaches_init_has_a_status_and_goes_with_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, POD).await.unwrap();
    until("init holds it", || lines(&held) == [LINE]).await;

    let client = &mut osd.client().await;
    let status = status_when(client, "StaticPodStatuses.osbuild", "films", |yaml| {
        yaml.contains("set: true")
    })
    .await;
    assert_eq!(
        status,
        "name: web\nset: true\nrunning: true\nrestarts: 2\nsetBy: api\nversion: \"1\"\n"
    );

    destroy(client, "StaticPods.osbuild", "films").await;
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn a_pod_that_no_node_can_have_is_refused() {
    let osd = Osd::start_with(&[]);
    let start = "type: StaticPod\nid: a\nspec:\n  name: web\n";
    let containers = "  containers:\n  - name: a\n    image: b\n";
    for (more, reason) in [
        ("", "1 to 8 containers"),
        ("  hostIPC: true\n", "unknown field `hostIPC`"),
        ("  serviceAccountName: admin\n", "unknown field `serviceAccountName`"),
        ("  priorityClassName: system-node-critical\n", "unknown field `priorityClassName`"),
        ("  namespace: kube-system\n", "has the node's own pods"),
        ("  volumes: [{name: a, secret: {secretName: b}}]\n", "unknown field `secret`"),
        ("  volumes: [{name: a}]\n", "has one of `emptyDir` and `hostPath`"),
        ("  containers: [{name: a, image: b, volumeDevices: []}]\n", "unknown field"),
        ("  containers: [{name: a, image: b, ports: [{hostPort: 80}]}]\n", "unknown field"),
        ("  containers: [{name: a, image: 'b c'}]\n", "an image is"),
        ("  containers: [{name: a, image: b, livenessProbe: {}}]\n", "a probe has one of"),
    ] {
        let has_some = more.is_empty() || more.contains("containers:");
        let document = format!("{start}{more}{}", if has_some { "" } else { containers });
        let refused = apply(&osd, &document).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{document}");
        assert!(refused.message().contains(reason), "{document}: {refused}");
    }
    let all = "  volumes: [{name: B}]\n  containers: [{name: a, image: 'b c'}, {name: a, image: \
               b, resources: {limits: {memory: 64mb}}}]\n";
    let refused = apply(&osd, &format!("{start}{all}")).await.unwrap_err();
    for reason in ["`B` has one of", "an image is", "`64mb` is not a size"] {
        assert!(refused.message().contains(reason), "{refused}");
    }
    let twice = format!("{start}{containers}---\n{}", start.replace("id: a", "id: b"));
    assert_eq!(code(apply(&osd, &format!("{twice}{containers}")).await), Code::InvalidArgument);
}

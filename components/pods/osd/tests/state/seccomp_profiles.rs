//! Seccomp profiles as resources, with an `init` that sets all that it is asked for.

use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
use tonic::Code;

const DOCUMENT: &str = "\
type: SeccompProfile
id: quiet
spec:
  name: no-mounts
  defaultAction: SCMP_ACT_ALLOW
  syscalls:
  - names: [mount, umount2]
    action: SCMP_ACT_ERRNO
    errnoRet: 1
  - names: [clone]
    action: SCMP_ACT_LOG
    args:
    - {index: 0, value: 268435456, op: SCMP_CMP_EQ}
";
const LINE: &str = "seccomp-profile no-mounts default=ALLOW calls=ERRNO/1:mount,umount2 \
     calls=LOG:clone argument=0:268435456:0:EQ";

#[tokio::test]
async fn a_seccomp_filter_reaches_init_has_a_status_and_goes_with_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, DOCUMENT).await.unwrap();
    until("init holds it", || lines(&held) == [LINE]).await;

    let client = &mut osd.client().await;
    let expected = "name: no-mounts\nlocalhostProfile: osbuild/no-mounts.json\nset: true\nsetBy: \
                    api\nversion: \"1\"\n";
    let status = status_when(client, "SeccompProfileStatuses.osbuild", "quiet", |yaml| {
        yaml.contains("setBy: api")
    })
    .await;
    assert_eq!(status, expected);

    destroy(client, "SeccompProfiles.osbuild", "quiet").await;
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn a_seccomp_filter_that_no_container_can_have_is_refused() {
    let osd = Osd::start_with(&[]);
    for spec in [
        "name: a",
        "name: ../a, defaultAction: SCMP_ACT_ALLOW",
        "name: a, defaultAction: SCMP_ACT_NOTIFY",
        "name: a, defaultAction: ALLOW",
        "name: a, defaultAction: SCMP_ACT_ALLOW, listenerPath: /run/a",
        "name: a, defaultAction: SCMP_ACT_ALLOW, syscalls: [{names: [], action: SCMP_ACT_LOG}]",
        "name: a, defaultAction: SCMP_ACT_ALLOW, syscalls: [{names: [a/b], action: SCMP_ACT_LOG}]",
    ] {
        let document = format!("{{type: SeccompProfile, id: a, spec: {{{spec}}}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let twice = format!("{DOCUMENT}---\n{}", DOCUMENT.replace("quiet", "other"));
    assert_eq!(code(apply(&osd, &twice).await), Code::InvalidArgument);
}

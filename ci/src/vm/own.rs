//! A user's own pods.

use super::machine::options;
use crate::check::Verdict;
use crate::image::RECIPE;
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Context, Problem, Result};
use osbuild::ship::audit::inspect::inspect;
use osbuild::ship::vm::run::start;
use osbuild_abi::console::SLOT_GOOD;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// The recipe, the pod and its image.
const OWN: &str = "own";

const MANIFEST: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: own
spec:
  hostNetwork: true
  containers:
    - name: waits
      image: example.org/own:1
      imagePullPolicy: Never
";

/// One that does its work and ends: with a program of the node's that says its version.
const ONCE: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: once
  annotations: { osbuild/runs: once }
spec:
  hostNetwork: true
  restartPolicy: OnFailure
  containers:
    - name: ends
      image: example.org/own:1
      imagePullPolicy: Never
      command: [/host/runc, --version]
      volumeMounts: [{ name: bin, mountPath: /host, readOnly: true }]
  volumes: [{ name: bin, hostPath: { path: /bin } }]
";

/// How long the node may take to be a good one.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Makes an archive of the image of all pods' sandboxes, under another name, and says its digest.
const ARCHIVE: &str = "\
cpio --extract --make-directories --quiet --file \"$1\" 'layers/*pods*'
fsck.erofs --extract=root layers/*pods*.erofs >/dev/null
skopeo copy --quiet oci:root/usr/share/osbuild/images:localhost/pause:1 oci-archive:own.tar:example.org/own:1
echo \"sha256:$(sha256sum own.tar | cut -d' ' -f1)\"";

/// A recipe of a few lines adds pods whose image is an archive that somebody else's program wrote.
/// The node is ready when one runs; and it is a good one though the other one has ended, which runs
/// once.
pub fn a_pod_from_an_archive_runs(site: &Site) -> Result<Verdict> {
    let project = site.root.join("out/ci").join(OWN);
    site.copy_to(&project)?;
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let initramfs = site.project().join("out").join(RECIPE).join("initramfs.cpio");
    let mut archive = Command::new("sh");
    archive.args(["-euc", ARCHIVE, "sh"]).arg(initramfs).current_dir(folder.path());
    let digest = site.finish("own-archive", &mut archive)?.said;
    let files = project.join("recipes");
    fs::copy(folder.path().join("own.tar"), files.join("own.tar"))
        .and_then(|_| fs::write(files.join("own.yaml"), MANIFEST))
        .and_then(|()| fs::write(files.join("once.yaml"), ONCE))
        .or_build(|| "cannot write the pods".to_owned())?;
    let digest = digest.trim();
    let pod = |name: &str| {
        format!(
            "\n[pods.{name}]\nmanifest = \"{name}.yaml\"\nimage = \"own.tar\"\ndigest = \"{digest}\"\n"
        )
    };
    recipe::inherit(site, &project, OWN, RECIPE, &[pod(OWN), pod("once")].concat())?;
    site.finish("own-build", site.osbuild()?.current_dir(&project).args(["build", OWN, "--yes"]))?;
    let image = project.join("out").join(OWN).join("image.raw");
    let mut node = start(site.report, &options(site, image.clone(), "own-run"))?;
    // It has held the gate open for a while, in which the kubelet starts nothing anew.
    node.hear(SLOT_GOOD, TIMEOUT)?;
    node.power_off()?;
    let pods = inspect(&image)?.root.pods;
    let own = pods.iter().any(|pod| pod.name == OWN);
    let problem = (!own).then(|| Problem::new("`inspect` does not see the pod"));
    let verdict = Verdict::of(problem.into_iter().collect(), "example.org/own:1");
    Ok(Verdict { passed: verdict.passed + 1, ..verdict })
}

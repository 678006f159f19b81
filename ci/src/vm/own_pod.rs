//! Pods in a user's recipe.

use super::machine::Machine;
use crate::check::Outcome;
use crate::image::{RECIPE, image_in};
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Context, Problem, Result};
use osbuild::ship::audit::inspect::inspect;
use osbuild_abi::console::SLOT_GOOD;
use std::fs;
use std::process::Command;

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

/// A pod that runs to completion: a program of the node prints its version.
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

/// Makes an archive of the sandbox image under another name, and prints its digest.
const ARCHIVE: &str = "\
images=oci:root/usr/share/osbuild/images
cpio --extract --make-directories --quiet --file \"$1\" 'layers/*-images.erofs'
fsck.erofs --extract=root layers/*-images.erofs >/dev/null
skopeo copy --quiet $images:localhost/pause:1 oci-archive:own.tar:example.org/own:1
echo \"sha256:$(sha256sum own.tar | cut -d' ' -f1)\"";

/// A recipe of a few lines adds two pods with an image from one of skopeo's archives. The node is
/// ready when the first pod runs, and becomes good although the second one, which runs once, has
/// ended.
pub fn a_pod_from_an_archive_runs(site: &Site) -> Result<Outcome> {
    let project = site.root.join("out/ci").join(OWN);
    site.copy_to(&project)?;
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let initramfs = site.project().join("out").join(RECIPE).join("initramfs.cpio");
    let mut archive = Command::new("sh");
    archive.args(["-euc", ARCHIVE, "sh"]).arg(initramfs).current_dir(folder.path());
    let digest = site.finish("own-archive", &mut archive)?.output;
    let files = project.join("recipes");
    fs::copy(folder.path().join("own.tar"), files.join("own.tar"))
        .and_then(|_| fs::write(files.join("own.yaml"), MANIFEST))
        .and_then(|()| fs::write(files.join("once.yaml"), ONCE))
        .or_build(|| "cannot write the pods".to_owned())?;
    let digest = digest.trim();
    let pod = |name: &str| {
        let image = format!("image = \"own.tar\"\ndigest = \"{digest}\"\n");
        format!("\n[pods.{name}]\nmanifest = \"{name}.yaml\"\n{image}")
    };
    recipe::inherit(site, &project, OWN, RECIPE, &[pod(OWN), pod("once")].concat())?;
    let image = image_in(site, &project, OWN)?;
    let mut node = Machine::new(site, &image, "own-run").start()?;
    // The slot becomes good after a time in which the kubelet restarts no pod.
    node.wait_for(SLOT_GOOD)?;
    node.power_off()?;
    let pods = inspect(&image)?.root.pods;
    let own = pods.iter().any(|pod| pod.name == OWN);
    let problem = (!own).then(|| Problem::new("`inspect` does not list the pod"));
    let outcome = Outcome::of(problem.into_iter().collect(), "example.org/own:1");
    Ok(Outcome { passed: outcome.passed + 1, ..outcome })
}

//! A user's own pod.

use crate::check::Verdict;
use crate::image::RECIPE;
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Context, Problem, Result};
use osbuild::ship::inspect::inspect;
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

/// Makes an archive of the image of all pods' sandboxes, under another name, and says its digest.
const ARCHIVE: &str = "\
cpio --extract --make-directories --quiet --file \"$1\" 'layers/*pods*'
fsck.erofs --extract=root layers/*pods*.erofs >/dev/null
skopeo copy --quiet oci:root/usr/share/osbuild/images:localhost/pause:1 oci-archive:own.tar:example.org/own:1
echo \"sha256:$(sha256sum own.tar | cut -d' ' -f1)\"";

/// A recipe of a few lines adds a pod whose image is an archive that somebody else's program wrote. The node is ready when it runs.
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
        .or_build(|| "cannot write the pod".to_owned())?;
    let pod = format!("\n[pods.{OWN}]\nmanifest = \"own.yaml\"\nimage = \"own.tar\"\ndigest = \"{}\"\n", digest.trim());
    recipe::inherit(site, &project, OWN, RECIPE, &pod)?;
    let words = ["run", OWN, "--until", "ready", "--timeout", "300", "--yes"];
    site.finish("own-run", site.osbuild()?.current_dir(&project).args(words))?;
    let pods = inspect(&project.join("out").join(OWN).join("image.raw"))?.root.pods;
    let own = pods.iter().any(|pod| pod.name == OWN);
    let problem = (!own).then(|| Problem::new("`inspect` does not see the pod"));
    Ok(Verdict::of(problem.into_iter().collect(), "example.org/own:1"))
}

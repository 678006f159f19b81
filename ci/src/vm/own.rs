//! A user's own pod.

use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Context, Problem, Result};
use osbuild::plan::Lock;
use osbuild::ship::inspect::inspect;
use std::fs;
use std::path::Path;
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
    write(&project, &folder.path().join("own.tar"), digest.trim()).or_build(|| format!("cannot write recipe `{OWN}`"))?;

    let osbuild = |words: &[&str]| {
        site.osbuild().map(|mut osbuild| {
            osbuild.current_dir(&project).args(words).arg("--yes");
            osbuild
        })
    };
    site.finish("own-lock", &mut osbuild(&["lock", OWN, "--offline"])?)?;
    site.finish("own-run", &mut osbuild(&["run", OWN, "--until", "ready", "--timeout", "300"])?)?;
    let pods = inspect(&project.join("out").join(OWN).join("image.raw"))?.root.pods;
    let own = pods.iter().any(|pod| pod.name == OWN);
    let problem = (!own).then(|| Problem::new("`inspect` does not see the pod"));
    Ok(Verdict::of(problem.into_iter().collect(), "example.org/own:1"))
}

/// The recipe with its pod, and a lock that pins what the recipe below it pins.
fn write(project: &Path, archive: &Path, digest: &str) -> std::io::Result<()> {
    let recipes = project.join("recipes");
    let recipe =
        format!("inherit = \"{RECIPE}\"\n\n[pods.{OWN}]\nmanifest = \"own.yaml\"\nimage = \"own.tar\"\ndigest = \"{digest}\"\n");
    fs::copy(archive, recipes.join("own.tar"))?;
    fs::write(recipes.join("own.yaml"), MANIFEST)?;
    fs::write(recipes.join("own.toml"), recipe)?;
    let lock = fs::read_to_string(project.join(Lock::path(RECIPE)))?;
    let (was, is) = (format!("recipe = \"{RECIPE}\""), format!("recipe = \"{OWN}\""));
    fs::write(project.join(Lock::path(OWN)), lock.replacen(&was, &is, 1))
}

//! Images that the recipe of a check carries in an archive, with programs that others wrote.

use crate::site::Site;
use osbuild::error::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes the archive `image.tar` of an image from the folder `root`, and prints its digest. The
/// arguments are the name of the image, and its configuration.
const ARCHIVE: &str = "\
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C root -cf layer.tar .
layer=$(sha256sum layer.tar | cut -d' ' -f1)
printf '{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":%s,' \"$2\" >config.json
printf '\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:%s\"]}}' \"$layer\" >>config.json
printf '[{\"Config\":\"config.json\",\"RepoTags\":[\"%s\"],' \"$1\" >manifest.json
printf '\"Layers\":[\"layer.tar\"]}]' >>manifest.json
tar -cf docker.tar config.json manifest.json layer.tar
skopeo copy --quiet docker-archive:docker.tar \"oci-archive:image.tar:$1\"
echo \"sha256:$(sha256sum image.tar | cut -d' ' -f1)\"";

/// An image.
pub struct CarriedImage {
    /// Its name, with the tag.
    pub name: &'static str,
    /// The shell script that fills the folder `root`.
    pub fill: &'static str,
    /// Its configuration in JSON (the image specification of OCI, 1.1).
    pub configuration: &'static str,
}

impl CarriedImage {
    /// Makes the image in the project's folder of recipes, and returns the section of a recipe with
    /// a pod that has it. `sources` are arguments of the script.
    pub fn pod(
        &self,
        site: &Site,
        project: &Path,
        pod: &str,
        manifest: &str,
        sources: &[&Path],
    ) -> Result<String> {
        let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        let mut fill = Command::new("sh");
        fill.args(["-euc", self.fill, "sh"]).args(sources).current_dir(folder.path());
        site.finish("carried-root", &mut fill)?;
        let mut archive = Command::new("sh");
        archive.args(["-euc", ARCHIVE, "sh", self.name, self.configuration]);
        let digest = site.finish("carried-image", archive.current_dir(folder.path()))?.output;
        let files = project.join("recipes");
        fs::copy(folder.path().join("image.tar"), files.join(format!("{pod}.tar")))
            .and_then(|_| fs::write(files.join(format!("{pod}.yaml")), manifest))
            .or_build(|| "cannot write the pod".to_owned())?;
        let image = format!("image = \"{pod}.tar\"\ndigest = \"{}\"\n", digest.trim());
        Ok(format!("\n[pods.{pod}]\nmanifest = \"{pod}.yaml\"\n{image}"))
    }
}

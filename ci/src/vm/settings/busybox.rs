//! An image with busybox, whose programs were written by others.

use crate::site::Site;
use osbuild::error::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The image.
pub const IMAGE: &str = "example.org/tools:1";

/// Makes an archive of an image with busybox, and prints its digest.
const ARCHIVE: &str = "\
mkdir -p root/bin
for name in $(/bin/busybox --list); do ln -sf busybox \"root/bin/$name\"; done
cp --remove-destination /bin/busybox root/bin/busybox
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C root -cf layer.tar .
layer=$(sha256sum layer.tar | cut -d' ' -f1)
printf '{\"architecture\":\"amd64\",\"os\":\"linux\",' >config.json
printf '\"config\":{\"Env\":[\"PATH=/bin\"]},' >>config.json
printf '\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:%s\"]}}' \"$layer\" >>config.json
printf '[{\"Config\":\"config.json\",\"RepoTags\":[\"%s\"],' \"$1\" >manifest.json
printf '\"Layers\":[\"layer.tar\"]}]' >>manifest.json
tar -cf docker.tar config.json manifest.json layer.tar
skopeo copy --quiet docker-archive:docker.tar \"oci-archive:tools.tar:$1\"
echo \"sha256:$(sha256sum tools.tar | cut -d' ' -f1)\"";

/// Makes the image in the project's folder of recipes, and returns the section of a recipe with a
/// pod that has it.
pub fn pod(site: &Site, project: &Path, name: &str, manifest: &str) -> Result<String> {
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let mut archive = Command::new("sh");
    archive.args(["-euc", ARCHIVE, "sh", IMAGE]).current_dir(folder.path());
    let digest = site.finish("busybox-archive", &mut archive)?.output;
    let files = project.join("recipes");
    fs::copy(folder.path().join("tools.tar"), files.join("tools.tar"))
        .and_then(|_| fs::write(files.join(format!("{name}.yaml")), manifest))
        .or_build(|| "cannot write the pod".to_owned())?;
    let image = format!("image = \"tools.tar\"\ndigest = \"{}\"\n", digest.trim());
    Ok(format!("\n[pods.{name}]\nmanifest = \"{name}.yaml\"\n{image}"))
}

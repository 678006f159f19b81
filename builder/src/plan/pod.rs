//! Static pods and the images that they run.

use super::binary::GoBuild;

/// A static pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.name` of its manifest, which is also its key in the recipe.
    pub name: String,
    /// The manifest: YAML as it was written.
    pub manifest: String,
    /// The names of its containers, without init containers.
    pub containers: Vec<String>,
    /// Whether it has done its work when they have ended well.
    pub runs_once: bool,
    /// Every image that the manifest names, in order of name.
    pub images: Vec<PodImage>,
}

/// An image that the node carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodImage {
    /// The name that manifests call it by: `localhost/dhcp:1`.
    pub name: String,
    /// Where its content comes from.
    pub from: ImageFrom,
}

/// Where the content of an image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageFrom {
    /// An image with one program of this workspace.
    Built {
        /// The Cargo package.
        package: String,
        /// Its program, which is the image's entry point.
        bin: String,
        /// What the program installs on the node; none for one that installs nothing.
        payload: Option<Payload>,
    },
    /// An OCI archive (a tar file) or an OCI image layout (a folder) of the project.
    Archive {
        /// Its path, relative to the project.
        path: String,
        /// The digest of its manifest or index for a folder, of the whole file for an archive:
        /// `sha256:…`.
        digest: String,
    },
}

/// Programs that an image carries beside its own, which installs them on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The component that the static programs are built from.
    pub component: String,
    /// How they are compiled.
    pub build: GoBuild,
    /// The dynamically linked ones, in order of name.
    pub debian: Vec<DebianProgram>,
}

/// A program of a Debian package with the shared libraries that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebianProgram {
    /// Its file name on the node.
    pub name: String,
    /// The package that has it.
    pub package: String,
    /// Its path in that package, without a leading slash.
    pub path: String,
    /// The packages that have its loader and its libraries, and nothing else.
    pub libraries: Vec<String>,
}

impl PodImage {
    /// What the image's program installs on the node.
    pub fn payload(&self) -> Option<&Payload> {
        match &self.from {
            ImageFrom::Built { payload, .. } => payload.as_ref(),
            ImageFrom::Archive { .. } => None,
        }
    }
}

impl DebianProgram {
    /// Every package that it is made of.
    pub fn packages(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.package).chain(&self.libraries)
    }
}

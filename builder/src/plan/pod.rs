//! Static pods and the images that they run.

/// A static pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.name` of its manifest, which is also its key in the recipe.
    pub name: String,
    /// The manifest: YAML as it was written.
    pub manifest: String,
    /// The names of its containers, without init containers.
    pub containers: Vec<String>,
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
    },
    /// An OCI archive (a tar file) or an OCI image layout (a folder) of the project.
    Archive {
        /// Its path, relative to the project.
        path: String,
        /// The digest of its manifest or index for a folder, of the whole file for an archive: `sha256:…`.
        digest: String,
    },
}

//! Static pods and the images that they run.

use super::file_package::FilePackage;
use super::host_component::GoComponent;
use crate::plan::lock::Pins;
use crate::plan::{LockState, Locked, Unlocked};
use osbuild_abi::pods::Runs;

/// A static pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod<L: LockState = Unlocked> {
    /// `metadata.name` of its manifest, which is also its key in the recipe.
    pub name: String,
    /// The manifest: YAML as it was written.
    pub manifest: String,
    /// The names of its containers, without init containers.
    pub containers: Vec<String>,
    /// How it runs.
    pub runs: Runs,
    /// Every image that the manifest names, in order of name.
    pub images: Vec<PodImage<L>>,
}

/// An image that the node carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodImage<L: LockState = Unlocked> {
    /// Its name in manifests: `localhost/dhcp:1`.
    pub name: String,
    /// Where its content comes from.
    pub from: ImageFrom<L>,
}

/// Where the content of an image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageFrom<L: LockState = Unlocked> {
    /// An image with one program of this workspace.
    Built {
        /// The Cargo package.
        package: String,
        /// Its program, which is the image's entry point.
        bin: String,
        /// The programs that it installs on the node, if any.
        payload: Option<Box<Payload<L>>>,
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

/// Programs that an image carries in addition to its own, which installs them on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload<L: LockState = Unlocked> {
    /// The component of the static programs.
    pub go: GoComponent<L>,
    /// The dynamically linked programs, in order of name.
    pub debian: Vec<DebianProgram<L>>,
}

/// A program of a Debian package with the shared libraries that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebianProgram<L: LockState = Unlocked> {
    /// Its file name on the node.
    pub name: String,
    /// The package that contains it.
    pub package: FilePackage<L>,
    /// Its path in that package, without a leading slash.
    pub path: String,
    /// The packages with its loader and its libraries, and no others.
    pub libraries: Vec<FilePackage<L>>,
}

impl<L: LockState> PodImage<L> {
    /// The programs that the image installs on the node, if any.
    pub fn payload(&self) -> Option<&Payload<L>> {
        match &self.from {
            ImageFrom::Built { payload, .. } => payload.as_deref(),
            ImageFrom::Archive { .. } => None,
        }
    }
}

impl<L: LockState> DebianProgram<L> {
    /// The packages that it is read from.
    pub fn packages(&self) -> impl Iterator<Item = &FilePackage<L>> {
        std::iter::once(&self.package).chain(&self.libraries)
    }
}

impl DebianProgram {
    /// The program with its packages from a lock.
    fn lock(self, pins: &Pins<'_>) -> DebianProgram<Locked> {
        let DebianProgram { name, package, path, libraries } = self;
        let libraries = libraries.into_iter().map(|library| library.lock(pins)).collect();
        DebianProgram { name, package: package.lock(pins), path, libraries }
    }
}

impl Payload {
    /// The payload with its modules and packages from a lock.
    fn lock(self, pins: &Pins<'_>) -> Payload<Locked> {
        let debian = self.debian.into_iter().map(|program| program.lock(pins)).collect();
        Payload { go: self.go.lock(pins), debian }
    }
}

impl Pod {
    /// The pod with the inputs of its images from a lock.
    pub(in crate::plan) fn lock(self, pins: &Pins<'_>) -> Pod<Locked> {
        let Pod { name, manifest, containers, runs, images } = self;
        let images = images.into_iter().map(|image| image.lock(pins)).collect();
        Pod { name, manifest, containers, runs, images }
    }
}

impl PodImage {
    /// The image with its inputs from a lock.
    pub(in crate::plan) fn lock(self, pins: &Pins<'_>) -> PodImage<Locked> {
        let from = match self.from {
            ImageFrom::Built { package, bin, payload } => ImageFrom::Built {
                package,
                bin,
                payload: payload.map(|each| Box::new(each.lock(pins))),
            },
            ImageFrom::Archive { path, digest } => ImageFrom::Archive { path, digest },
        };
        PodImage { name: self.name, from }
    }
}

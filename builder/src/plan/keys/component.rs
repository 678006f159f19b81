//! `components/<name>/component.toml`

use super::values::{
    DebianName, ImageName, Line, List, Map, ModulePath, Name, PackageName, RelativePath, True, Word,
};
use crate::plan::document::Located;
use crate::plan::{Architecture, Minor, Version};

table! {
    /// A component.
    ComponentFile {
        /// Its description, in one line.
        about: Required Line,
        /// It is the kernel.
        kernel: Optional ComponentKernelTable,
        /// It is compiled from a Go module.
        go: Optional GoTable,
        /// It is compiled from a package of this workspace.
        cargo: Optional CargoTable,
        /// It is a UEFI program of this workspace, which the firmware starts.
        uefi: Optional UefiTable,
        /// It is an image with a program of this workspace.
        image: Optional ComponentImageTable,
        /// It is a static pod that runs its `image`.
        pod: Optional PodTable,
        /// For a container runtime: for each minor of the kubelet, the first versions that support
        /// it.
        kubernetes: Optional Map<Minor, List<Version>>,
        /// Debian packages that its compilation needs in the sandbox.
        sandbox: Optional ComponentSandboxTable,
    }
}

table! {
    /// `[kernel]`
    ComponentKernelTable {
        /// The Debian package with the source.
        package: Required DebianName,
        /// Files `fragments/<name>.config`; later ones override earlier ones.
        fragments: Required List<Name>,
        /// Fragments for amd64, after the others.
        fragments_amd64: Optional List<Name>,
        /// Fragments for arm64, after the others.
        fragments_arm64: Optional List<Name>,
        /// Fragments that a recipe can add or leave out, and whether a node has them if it does
        /// neither. One that also has a file `fragments/<name>-<architecture>.config` brings that.
        groups: Optional Map<Name, bool>,
    }
}

impl ComponentKernelTable {
    /// The fragments of one architecture.
    pub fn fragments_of(&self, architecture: Architecture) -> &Option<Located<List<Name>>> {
        match architecture {
            Architecture::Amd64 => &self.fragments_amd64,
            Architecture::Arm64 => &self.fragments_arm64,
        }
    }
}

table! {
    /// `[go]`
    GoTable {
        /// The module's path.
        module: Required ModulePath,
        /// File names, each with its Go package.
        programs: Required Map<Name, Word>,
        /// File names of test programs (`go test -c`), each with the Go package that it tests.
        tests: Optional Map<Name, Word>,
        /// Build tags.
        tags: Optional List<Word>,
        /// Linker flags. `{version}`, `{major}` and `{minor}` are replaced by the version's.
        ldflags: Optional List<Line>,
        /// Debian packages of the node's architecture to link; naming any enables cgo.
        libraries: Optional List<DebianName>,
        /// The module cannot be a main module: build it from a module that requires it.
        wrapper: Optional True,
        /// Folders of packages of the module that are compiled without their content, because what
        /// they import cannot be had. Not with `wrapper`.
        empty_packages: Optional List<RelativePath>,
    }
}

table! {
    /// `[cargo]`
    CargoTable {
        /// The Cargo package.
        package: Required PackageName,
        /// Its programs, by file name.
        programs: Required List<Name>,
    }
}

table! {
    /// `[uefi]`
    UefiTable {
        /// The Cargo package.
        package: Required PackageName,
        /// Its program.
        program: Required Name,
    }
}

table! {
    /// `[image]`
    ComponentImageTable {
        /// The image's name in manifests.
        name: Required ImageName,
        /// The Cargo package.
        package: Required PackageName,
        /// Its program, the image's entry point.
        program: Required Name,
        /// The programs that it installs on the node, which the image has below `/payload`.
        payload: Optional PayloadTable,
    }
}

table! {
    /// `[image.payload]`
    PayloadTable {
        /// The component in `components/` with the static programs, compiled by Go without cgo.
        component: Required Name,
        /// Dynamically linked programs of Debian packages, by their file name on the node.
        debian: Optional Map<Name, DebianProgramTable>,
    }
}

table! {
    /// An entry of `[image.payload.debian]`.
    DebianProgramTable {
        /// The package that contains it.
        package: Required DebianName,
        /// Its path in the package.
        path: Required RelativePath,
        /// The packages with its loader and its libraries: all that it needs, and no others.
        libraries: Required List<DebianName>,
    }
}

table! {
    /// `[pod]`
    PodTable {
        /// The pod's manifest, relative to this file.
        manifest: Required RelativePath,
    }
}

table! {
    /// `[sandbox]`
    ComponentSandboxTable {
        /// Debian packages.
        packages: Optional List<DebianName>,
        /// Debian packages for an amd64 node.
        packages_amd64: Optional List<DebianName>,
        /// Debian packages for an arm64 node.
        packages_arm64: Optional List<DebianName>,
    }
}

impl ComponentSandboxTable {
    /// The packages for a node of one architecture.
    pub fn packages_for(&self, architecture: Architecture) -> &Option<Located<List<DebianName>>> {
        match architecture {
            Architecture::Amd64 => &self.packages_amd64,
            Architecture::Arm64 => &self.packages_arm64,
        }
    }
}

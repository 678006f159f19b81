//! `recipes/<name>.toml`

use super::values::{
    DebianName, ImageName, KernelWord, Line, Lines, List, Map, Mib, Mode, Name, Number, OfDocument,
    OptionName, OptionSetting, PodRight, RelativePath, ReleaseName, RootPath, Seconds, Sha256,
    TimeServer, True, Url, Word,
};
use crate::plan::document::Located;
use crate::plan::{BinaryName, Date, DebugAccess, Minor, Version};
use osbuild_release::Channel;

table! {
    /// A recipe.
    RecipeFile {
        /// The recipe that this one changes.
        inherit: Optional Name,
        /// The machine: a file in `boards/`.
        board: Inherited Name,
        /// The version of the node, different in each of its releases; the kubelet's version by
        /// default.
        version: Optional ReleaseName,
        /// Increased by a release that closes a security hole: a machine that has run it starts no
        /// release of a lower epoch. 1 by default.
        security_epoch: Optional Number<1, { u32::MAX as i64 }>,
        /// Programs for the build machine, by file name. Such a recipe makes no node.
        programs: Optional Map<Name, ProgramTable, true>,
        /// The time servers that the node uses where its network announces none, instead of those
        /// of its board.
        time_servers: Optional List<TimeServer>,
        /// The kernel.
        kernel: Inherited RecipeKernelTable,
        /// The unified kernel image.
        uki: Inherited UkiTable,
        /// The component of the boot program, which the firmware starts and which starts the UKI.
        boot: Inherited Name,
        /// The seven files of `/bin`.
        binaries: Inherited BinariesTable,
        /// Static pods by the name in their manifest.
        pods: Optional Map<Name, PodEntry, true>,
        /// The component with the image of every pod's sandbox.
        pause: Inherited Name,
        /// The rest of the root, one entry for each path.
        files: Optional Map<RootPath, FileEntry, true>,
        /// Folders by path that pods can write to, in addition to those of every node.
        writable: Optional Map<RootPath, WritableEntry, true>,
        /// Input of the version-skew policy: API servers to join, and an exception to the peg.
        kubernetes: Optional KubernetesTable,
        /// Which keys sign the image. Without this section it is unsigned.
        signing: Optional SigningTable,
        /// Clients of the API of the node over the network. Without this section there are none.
        api: Optional ApiTable,
        /// Where the node gets its updates. Without this section it gets none.
        updates: Optional UpdatesTable,
        /// Settings of the node, of the lowest rank, in the words of the node document.
        node: Optional NodeTable,
        /// Which documents on volumes configure the node. Without this section it reads none.
        volumes: Optional VolumesTable,
        /// The rights of a person at a console of the machine. Without this section, consoles only
        /// show.
        console: Optional ConsoleTable,
        /// The node that a USB stick with this node installs on the machine that boots from it.
        installs: Optional InstallsTable,
        /// The toolchains that compile the node.
        toolchains: Inherited ToolchainsTable,
        /// The root in which every step of a build runs.
        sandbox: Optional SandboxTable,
    }
}

table! {
    /// `[kernel]`
    RecipeKernelTable {
        /// The component that names the source and the fragments.
        component: Inherited Name,
        /// Words of the kernel's command line, after the board's and the inherited ones. A word
        /// replaces the inherited ones of the same name.
        command_line: Extended List<KernelWord>,
        /// Groups of options of the component, and whether this node has them.
        groups: Optional Map<Name, bool>,
        /// Options that override the board's and the fragments', by name without `CONFIG_`.
        options: Optional Map<OptionName, OptionSetting>,
    }
}

table! {
    /// `[node]`
    NodeTable {
        /// How the node resolves names.
        resolver: Optional OfDocument,
        /// Links: what they are, their state and their MTU, and whether DHCP configures them.
        links: Optional OfDocument,
        /// Addresses of links.
        addresses: Optional OfDocument,
        /// Routes.
        routes: Optional OfDocument,
        /// Rules that choose the table of routes.
        routing_rules: Optional OfDocument,
        /// Rules that filter packets.
        firewall_rules: Optional OfDocument,
        /// Rules that change addresses of packets.
        nat: Optional OfDocument,
        /// Disks and folders for pods.
        volumes: Optional OfDocument,
        /// Swap in compressed memory.
        swap: Optional OfDocument,
        /// Parameters of the kernel, by name.
        kernel_parameters: Optional OfDocument,
        /// Images that the node keeps.
        system_images: Optional OfDocument,
        /// Seccomp profiles for pods.
        seccomp_profiles: Optional OfDocument,
        /// How the node registers in its cluster.
        kubelet: Optional NodeKubeletTable,
    }
}

table! {
    /// `[node.kubelet]`
    NodeKubeletTable {
        /// Labels of the node.
        labels: Optional OfDocument,
        /// Taints of the node.
        taints: Optional OfDocument,
    }
}

table! {
    /// `[uki]`
    UkiTable {
        /// The Debian package with systemd's UEFI stub.
        stub: Inherited DebianName,
    }
}

table! {
    /// `[signing]`
    SigningTable {
        /// The keys that sign the image: a folder in `keys/`.
        key: Inherited Name,
    }
}

table! {
    /// `[updates]`
    UpdatesTable {
        /// The TUF repository that `osbuild release` wrote, at the URL where it is served.
        url: Inherited Url,
        /// The channel that the node follows; `stable` by default.
        channel: Optional Channel,
        /// The root of trust, `keys/NAME/root.json`, relative to the project.
        root: Inherited RelativePath,
        /// How long the node waits between two checks for updates; 3600 by default.
        interval_s: Optional Seconds<10, 604_800>,
        /// Whether a node in a cluster reboots only once the cluster grants it; `true` by default.
        waits_for_grant: Optional bool,
    }
}

table! {
    /// `[volumes]`
    VolumesTable {
        /// The root of trust whose release key signs documents: `keys/NAME/root.json`, relative to
        /// the project.
        root: Optional RelativePath,
        /// Whether any document on a volume configures the node, without a signature; `false` by
        /// default.
        unsigned: Optional bool,
    }
}

table! {
    /// `[console]`
    ConsoleTable {
        /// Whether a person at a screen or serial line may give the node an address until its next
        /// boot; `false` by default.
        address: Optional bool,
    }
}

table! {
    /// `[api]`
    ApiTable {
        /// The certificates of the CAs whose clients may connect over the network, in one PEM file:
        /// `keys/NAME/api.crt`, relative to the project.
        clients: Optional RelativePath,
        /// The greatest rights of administrators' debug containers; `restricted` by default.
        debug: Optional DebugAccess,
        /// The rights on the node that static pods of its settings may have, or `off` for no such
        /// pods; none by default.
        static_pods: Optional List<PodRight>,
        /// Whether an administrator may choose the cluster of the node, which is root on the node
        /// for the owner of that cluster; `false` by default.
        cluster_join: Optional bool,
        /// Whether an administrator may configure the control plane that runs on the node, whose
        /// static pods may mount any of its folders; `false` by default.
        control_plane: Optional bool,
    }
}

table! {
    /// `[installs]`
    InstallsTable {
        /// The recipe of the node that it installs.
        recipe: Inherited Name,
        /// Its `installer.toml`, relative to the project: the installer's settings unless the stick
        /// is edited.
        settings: Inherited RelativePath,
    }
}

table! {
    /// `[binaries]`
    BinariesTable {
        /// PID 1.
        init: Inherited BinaryTable,
        /// The container runtime.
        containerd: Inherited BinaryTable,
        /// The parent process of each pod.
        containerd_shim_runc_v2: Inherited BinaryTable,
        /// The program that starts containers.
        runc: Inherited BinaryTable,
        /// The node's agent.
        kubelet: Inherited BinaryTable,
        /// The program that the kubelet mounts with.
        mount: Inherited BinaryTable,
        /// The program that the kubelet unmounts with.
        umount: Inherited BinaryTable,
    }
}

impl BinariesTable {
    /// The entry of one binary.
    pub fn entry(&self, name: BinaryName) -> Option<&Located<BinaryTable>> {
        let entry = match name {
            BinaryName::Init => &self.init,
            BinaryName::Containerd => &self.containerd,
            BinaryName::ContainerdShimRuncV2 => &self.containerd_shim_runc_v2,
            BinaryName::Runc => &self.runc,
            BinaryName::Kubelet => &self.kubelet,
            BinaryName::Mount => &self.mount,
            BinaryName::Umount => &self.umount,
        };
        entry.as_ref()
    }
}

table! {
    /// An entry of `[binaries]`.
    BinaryTable {
        /// The component that it is built from.
        component: Required Name,
        /// The upstream version; none for a program of this workspace.
        version: Optional Version,
    }
}

table! {
    /// An entry of `[programs]`.
    ProgramTable {
        /// The component in `components/lab/` or `components/`, which must be compiled from a Go
        /// module.
        component: Required Name,
        /// The upstream version.
        version: Required Version,
    }
}

choice! {
    /// An entry of `[pods]`.
    PodEntry {
        /// A pod of a component.
        Component(PodOfComponent),
        /// A pod of a manifest.
        Manifest(PodOfManifest),
    }
}

impl PodEntry {
    /// The component of the pod, if it is one of a component.
    pub fn component(&self) -> Option<&Located<Name>> {
        match self {
            PodEntry::Component(pod) => pod.component.as_ref(),
            PodEntry::Manifest(_) => None,
        }
    }
}

table! {
    /// A pod of a component.
    PodOfComponent {
        /// The component in `components/pods/`.
        component: Required Name,
        /// The upstream version of the programs that its image carries; none for an image that
        /// carries none.
        version: Optional Version,
        /// A manifest in place of the component's, relative to this recipe.
        manifest: Optional RelativePath,
    }
}

table! {
    /// A pod of a manifest.
    PodOfManifest {
        /// The pod's manifest, relative to this recipe.
        manifest: Required RelativePath,
        /// The only image that it runs: an OCI archive or layout, relative to this recipe.
        image: Optional RelativePath,
        /// The digest of `image`: of the archive's bytes, or of a layout's `index.json`.
        digest: Optional Sha256,
        /// Images by the name in the manifest, where there are several.
        images: Optional Map<ImageName, ArchiveTable>,
    }
}

table! {
    /// An entry of a pod's `images`.
    ArchiveTable {
        /// An OCI archive or layout, relative to this recipe.
        archive: Required RelativePath,
        /// Its digest: of the archive's bytes, or of a layout's `index.json`.
        digest: Required Sha256,
    }
}

choice! {
    /// An entry of `[files]`.
    FileEntry {
        /// A file of the project.
        Source(SourceTable),
        /// A text.
        Text(TextTable),
        /// A symbolic link.
        Symlink(SymlinkTable),
        /// An empty folder.
        Directory(DirectoryTable),
        /// Files of a Debian package.
        Debian(DebianTable),
    }
}

table! {
    /// A file of the project.
    SourceTable {
        /// A file of the project, relative to its root.
        source: Required RelativePath,
        /// Permission bits.
        mode: Required Mode,
    }
}

table! {
    /// A text.
    TextTable {
        /// The file's text.
        text: Required Lines,
        /// Permission bits.
        mode: Required Mode,
    }
}

table! {
    /// A symbolic link.
    SymlinkTable {
        /// The target of the link.
        symlink: Required Word,
    }
}

table! {
    /// An empty folder.
    DirectoryTable {
        /// An empty folder.
        directory: Required True,
        /// Permission bits.
        mode: Required Mode,
    }
}

table! {
    /// Files of a Debian package.
    DebianTable {
        /// The Debian package that contains it.
        debian: Required DebianName,
        /// The file in the package, or a folder whose files are concatenated in order of name.
        path: Required RelativePath,
        /// Permission bits.
        mode: Required Mode,
    }
}

choice! {
    /// An entry of `[writable]`.
    WritableEntry {
        /// A folder on DATA.
        Data(DataTable),
        /// Memory.
        Memory(MemoryTable),
    }
}

table! {
    /// A folder on DATA.
    DataTable {
        /// The name of its folder on DATA, whose content persists across boots and updates.
        data: Required Name,
        /// Permission bits of the folder when it is created.
        mode: Required Mode,
        /// Whether the host can execute programs on it; `false` by default.
        exec: Optional bool,
    }
}

table! {
    /// Memory.
    MemoryTable {
        /// How much memory it can use; the content is lost at the next boot.
        memory_mib: Required Mib<1, { 1 << 20 }>,
        /// Permission bits of the folder.
        mode: Required Mode,
        /// Whether the host can execute programs on it; `false` by default.
        exec: Optional bool,
    }
}

table! {
    /// `[kubernetes]`
    KubernetesTable {
        /// Minors of the API servers that the node must be able to join.
        api_servers: Optional List<Minor>,
        /// Why the kubelet is not pegged two minors behind the newest.
        exception: Optional ExceptionTable,
    }
}

table! {
    /// `[kubernetes.exception]`
    ExceptionTable {
        /// Why.
        reason: Required Line,
        /// The last day on which the exception holds.
        until: Required Date,
    }
}

table! {
    /// `[toolchains]`
    ToolchainsTable {
        /// The version of Go. Rust's is in `rust-toolchain.toml`.
        go: Inherited Version,
    }
}

table! {
    /// `[sandbox]`
    SandboxTable {
        /// Debian packages that every build needs, in addition to those of components.
        packages: Optional List<DebianName>,
    }
}

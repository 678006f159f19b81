//! Every key of every file that a plan is made of.

use super::board::{Bus, MAX_ESP_SIZE_MIB, MAX_SLOT_SIZE_MIB};
use super::shape::Need::{Here, Inherited, Optional};
use super::shape::{Form, Key, Shape};

const fn key(
    name: &'static str,
    need: super::shape::Need,
    shape: Shape,
    about: &'static str,
) -> Key {
    Key { name, need, shape, about }
}

static NAME: Form = Form {
    what: "a name of small letters, digits and hyphens",
    pattern: "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
};
static ANY: Form = Form { what: "a string of one line", pattern: "^[^\\n\\r]+$" };
static LINES: Form = Form { what: "a string", pattern: "^[^\\u0000]*$" };
static WORD: Form = Form { what: "a string without white space", pattern: "^\\S+$" };
static VERSION: Form = Form {
    what: "a version such as `\"1.35.8\"`",
    pattern: "^(0|[1-9][0-9]{0,8})(\\.(0|[1-9][0-9]{0,8})){2}$",
};
static RELEASE_NAME: Form = Form {
    what: "at most 64 letters, digits and `.~-`, such as `\"1.35.8-2\"`",
    pattern: "^[A-Za-z0-9][A-Za-z0-9.~-]{0,63}$",
};
static URL: Form = Form {
    what: "a URL such as `\"https://updates.example/nodes\"`",
    pattern: "^(https?://[^\\s/?#]+|file://)(/[^\\s/?#]+)*$",
};
static MINOR: Form = Form {
    what: "a minor version such as `\"1.35\"`",
    pattern: "^(0|[1-9][0-9]{0,8})\\.(0|[1-9][0-9]{0,8})$",
};
static TIME_SERVER: Form = Form {
    what: "an IP address or a host name, with `:PORT` behind it or without",
    pattern: "^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*|\\[[0-9A-Fa-f:.]+\\](:[0-9]{1,5})?)$",
};
static DIGEST: Form = Form {
    what: "a digest such as `\"sha256:…\"` with 64 hexadecimal digits",
    pattern: "^sha256:[0-9a-f]{64}$",
};
pub(super) static ROOT_PATH: Form = Form {
    what: "an absolute path without `.`, `..`, white space or a slash at its end",
    pattern: "^(/(\\.?[A-Za-z0-9_@+~%:=,-][A-Za-z0-9._@+~%:=,-]*|\\.\\.[A-Za-z0-9_@+~%:=,-][A-Za-z0-9._@+~%:=,-]*))+$",
};
static FILE_PATH: Form = Form { what: "a relative path", pattern: "^[^/\\s][^\\s]*$" };
static DEBIAN: Form =
    Form { what: "the name of a Debian package", pattern: "^[a-z0-9][a-z0-9+.-]+$" };
static OPTION: Form =
    Form { what: "the name of a kernel option without `CONFIG_`", pattern: "^[A-Za-z0-9_]+$" };
static IMAGE: Form = Form {
    what: "the name of an image with its tag, such as `\"localhost/dhcp:1\"`",
    pattern: "^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+:[A-Za-z0-9_][A-Za-z0-9_.-]*$",
};
static MODULE: Form =
    Form { what: "the path of a Go module", pattern: "^[a-z0-9.-]+\\.[a-z]+(/[A-Za-z0-9._~-]+)+$" };
static PACKAGE: Form = Form { what: "the name of a Cargo package", pattern: "^[a-z][a-z0-9_-]*$" };

const TIME_SERVERS: Shape = Shape::List(&Shape::Text(&TIME_SERVER));
const WORDS: Shape = Shape::List(&Shape::Text(&WORD));
const NAMES: Shape = Shape::List(&Shape::Text(&NAME));
const PACKAGES: Shape = Shape::List(&Shape::Text(&DEBIAN));
const OPTIONS: Shape = Shape::Map { key: &OPTION, value: &Shape::KernelValue, removable: false };

const MIB: &str = "a number of MiB";
const GIB: &str = "a number of GiB";
const SECONDS: &str = "a number of seconds";

/// `recipes/<name>.toml`
pub(super) static RECIPE: &[Key] = &[
    key("inherit", Optional, Shape::Text(&NAME), "The recipe that this one changes."),
    key("board", Inherited, Shape::Text(&NAME), "The machine: a file in `boards/`."),
    key(
        "version",
        Optional,
        Shape::Text(&RELEASE_NAME),
        "The version of the node, by which its releases differ; none for the kubelet's.",
    ),
    key(
        "security-epoch",
        Optional,
        Shape::Integer { least: 1, most: u32::MAX as i64, what: "a number" },
        "Counted up by a release that closes a hole: a machine that has run it starts none of a lower one. 1 if nothing is said.",
    ),
    key(
        "programs",
        Optional,
        Shape::Map { key: &NAME, value: &PROGRAM, removable: true },
        "Programs for the machine that builds, by file name: such a recipe makes them and no node.",
    ),
    key(
        "time-servers",
        Optional,
        TIME_SERVERS,
        "Whom the node asks for the time where its network names nobody, instead of those of its board.",
    ),
    key("kernel", Inherited, Shape::Table(RECIPE_KERNEL), "The kernel."),
    key("uki", Inherited, Shape::Table(UKI), "The unified kernel image."),
    key(
        "boot",
        Inherited,
        Shape::Text(&NAME),
        "The component with what the firmware starts, which starts the UKI.",
    ),
    key("binaries", Inherited, Shape::Table(BINARIES), "The seven files of `/bin`."),
    key(
        "pods",
        Optional,
        Shape::Map { key: &NAME, value: &POD, removable: true },
        "Static pods by the name in their manifest.",
    ),
    key(
        "pause",
        Inherited,
        Shape::Text(&NAME),
        "The component with the image of every pod's sandbox.",
    ),
    key(
        "files",
        Optional,
        Shape::Map { key: &ROOT_PATH, value: &FILE, removable: true },
        "The rest of the root, one line a path.",
    ),
    key(
        "writable",
        Optional,
        Shape::Map { key: &ROOT_PATH, value: &WRITABLE_PATH, removable: true },
        "Folders that pods may write to besides those of every node, by path.",
    ),
    key("kubernetes", Optional, Shape::Table(KUBERNETES), "What the version-skew policy looks at."),
    key(
        "signing",
        Optional,
        Shape::Table(SIGNING),
        "Whose image it is; without it nothing is signed.",
    ),
    key(
        "updates",
        Optional,
        Shape::Table(UPDATES),
        "Where the node gets its updates; without it, it gets none.",
    ),
    key(
        "installs",
        Optional,
        Shape::Table(INSTALLS),
        "What a stick with this node installs on the machine that it boots.",
    ),
    key("toolchains", Inherited, Shape::Table(TOOLCHAINS), "What compiles the node."),
    key(
        "sandbox",
        Optional,
        Shape::Table(SANDBOX),
        "The root in which every step of a build runs.",
    ),
];

static RECIPE_KERNEL: &[Key] = &[
    key(
        "component",
        Inherited,
        Shape::Text(&NAME),
        "The component that names the source and the fragments.",
    ),
    key("command-line", Optional, WORDS, "Words of the kernel's command line, behind the board's."),
    key(
        "options",
        Optional,
        OPTIONS,
        "Options over the board's and the fragments', by name without `CONFIG_`.",
    ),
];

static UKI: &[Key] =
    &[key("stub", Inherited, Shape::Text(&DEBIAN), "The Debian package with systemd's UEFI stub.")];

static SIGNING: &[Key] =
    &[key("key", Inherited, Shape::Text(&NAME), "The keys that sign it: a folder in `keys/`.")];

static UPDATES: &[Key] = &[
    key(
        "url",
        Inherited,
        Shape::Text(&URL),
        "The TUF repository that `osbuild release` wrote, wherever it is served.",
    ),
    key(
        "channel",
        Optional,
        Shape::Word(&["stable", "candidate"]),
        "The channel that the node follows; `stable` if it is not said.",
    ),
    key(
        "root",
        Inherited,
        Shape::Text(&FILE_PATH),
        "The root of trust, `keys/NAME/root.json`, relative to the project.",
    ),
    key(
        "interval-s",
        Optional,
        Shape::Integer { least: 10, most: 604_800, what: SECONDS },
        "How long the node waits between two looks; 3600 if it is not said.",
    ),
];

static INSTALLS: &[Key] = &[
    key("recipe", Inherited, Shape::Text(&NAME), "The recipe of the node that it installs."),
    key(
        "settings",
        Inherited,
        Shape::Text(&FILE_PATH),
        "Its `installer.toml`, relative to the project: what it does unless the stick is edited.",
    ),
];

/// An `installer.toml`. The pod `installer` reads it again on the machine
/// (`components/pods/installer/src/settings.rs`).
pub(super) static INSTALLER: &[Key] = &[
    key("unattended", Optional, Shape::Flag, "Whether to begin without anybody's word."),
    key(
        "countdown-s",
        Optional,
        Shape::Integer { least: 0, most: u32::MAX as i64, what: SECONDS },
        "Time to pull the plug.",
    ),
    key("enroll-keys", Optional, Shape::Flag, "Whether the firmware gets the keys of the stick."),
    key("replace-node", Optional, Shape::Flag, "Whether a disk with a node may be erased."),
    key("disk", Optional, Shape::Table(DISK), "Which disk; without it nothing is installed."),
    key(
        "files",
        Optional,
        Shape::Map { key: &ANY, value: &Shape::Text(&ANY), removable: false },
        "Files of the stick for DATA.",
    ),
];

static DISK: &[Key] = &[
    key(
        "bus",
        Optional,
        Shape::Word(&["nvme", "sata", "scsi", "virtio", "mmc", "usb"]),
        "What it is connected to.",
    ),
    key("model", Optional, Shape::Text(&ANY), "Its model."),
    key("serial", Optional, Shape::Text(&ANY), "Its serial number."),
    key(
        "min-size-gib",
        Optional,
        Shape::Integer { least: 0, most: i64::MAX, what: GIB },
        "Its least size.",
    ),
    key(
        "max-size-gib",
        Optional,
        Shape::Integer { least: 0, most: i64::MAX, what: GIB },
        "Its greatest size.",
    ),
];

static BINARIES: &[Key] = &[
    key("init", Inherited, Shape::Table(BINARY), "PID 1."),
    key("containerd", Inherited, Shape::Table(BINARY), "The container runtime."),
    key("containerd-shim-runc-v2", Inherited, Shape::Table(BINARY), "The process above each pod."),
    key("runc", Inherited, Shape::Table(BINARY), "What starts containers."),
    key("kubelet", Inherited, Shape::Table(BINARY), "The node's agent."),
    key("mount", Inherited, Shape::Table(BINARY), "What the kubelet mounts with."),
    key("umount", Inherited, Shape::Table(BINARY), "What the kubelet unmounts with."),
];

static BINARY: &[Key] = &[
    key("component", Here, Shape::Text(&NAME), "The component that it is built from."),
    key(
        "version",
        Optional,
        Shape::Text(&VERSION),
        "The upstream version; none for a program of this workspace.",
    ),
];

static PROGRAM: Shape = Shape::Table(&[
    key(
        "component",
        Here,
        Shape::Text(&NAME),
        "The component in `components/lab/`, or else in `components/`: one that is compiled from a Go module.",
    ),
    key("version", Here, Shape::Text(&VERSION), "The upstream version."),
]);

static POD: Shape = Shape::Choice(&[
    &[
        key("component", Here, Shape::Text(&NAME), "The component in `components/pods/`."),
        key(
            "version",
            Optional,
            Shape::Text(&VERSION),
            "The upstream version of what its image carries; none for an image with a program of this workspace alone.",
        ),
        key(
            "manifest",
            Optional,
            Shape::Text(&FILE_PATH),
            "A manifest in place of the component's, relative to this recipe.",
        ),
    ],
    &[
        key(
            "manifest",
            Here,
            Shape::Text(&FILE_PATH),
            "The pod's manifest, relative to this recipe.",
        ),
        key(
            "image",
            Optional,
            Shape::Text(&FILE_PATH),
            "The one image that it runs: an OCI archive or layout, relative to this recipe.",
        ),
        key(
            "digest",
            Optional,
            Shape::Text(&DIGEST),
            "The digest of `image`: of the archive's bytes, or of a layout's `index.json`.",
        ),
        key(
            "images",
            Optional,
            Shape::Map { key: &IMAGE, value: &ARCHIVE, removable: false },
            "Images by the name in the manifest, when there are several.",
        ),
    ],
]);

static ARCHIVE: Shape = Shape::Table(&[
    key(
        "archive",
        Here,
        Shape::Text(&FILE_PATH),
        "An OCI archive or layout, relative to this recipe.",
    ),
    key(
        "digest",
        Here,
        Shape::Text(&DIGEST),
        "Its digest: of the archive's bytes, or of a layout's `index.json`.",
    ),
]);

static FILE: Shape = Shape::Choice(&[
    &[
        key("source", Here, Shape::Text(&FILE_PATH), "A file of the project, relative to its top."),
        key("mode", Here, Shape::Mode, "Permission bits."),
    ],
    &[
        key("text", Here, Shape::Text(&LINES), "The file's text."),
        key("mode", Here, Shape::Mode, "Permission bits."),
    ],
    &[key("symlink", Here, Shape::Text(&WORD), "Where the link points.")],
    &[
        key("directory", Here, Shape::True, "An empty folder."),
        key("mode", Here, Shape::Mode, "Permission bits."),
    ],
    &[
        key("debian", Here, Shape::Text(&DEBIAN), "The Debian package that has it."),
        key(
            "path",
            Here,
            Shape::Text(&FILE_PATH),
            "The file in the package, or a folder whose files are joined in order of their names.",
        ),
        key("mode", Here, Shape::Mode, "Permission bits."),
    ],
]);

static WRITABLE_PATH: Shape = Shape::Choice(&[
    &[
        key(
            "data",
            Here,
            Shape::Text(&NAME),
            "The name of its folder on DATA, where the content lives as long as the disk.",
        ),
        key("mode", Here, Shape::Mode, "Permission bits of the folder when it is made."),
        key(
            "exec",
            Optional,
            Shape::Flag,
            "Whether the host can execute programs on it; not if nothing is said.",
        ),
    ],
    &[
        key(
            "memory-mib",
            Here,
            Shape::Integer { least: 1, most: 1 << 20, what: MIB },
            "How much memory it may take at most; the content is gone at the next boot.",
        ),
        key("mode", Here, Shape::Mode, "Permission bits of the folder."),
        key(
            "exec",
            Optional,
            Shape::Flag,
            "Whether the host can execute programs on it; not if nothing is said.",
        ),
    ],
]);

static KUBERNETES: &[Key] = &[
    key(
        "api-servers",
        Optional,
        Shape::List(&Shape::Text(&MINOR)),
        "Minors of the API servers that the node must be able to join.",
    ),
    key(
        "exception",
        Optional,
        Shape::Table(EXCEPTION),
        "Why the kubelet is not two minors behind the newest.",
    ),
];

static EXCEPTION: &[Key] = &[
    key("reason", Here, Shape::Text(&ANY), "Why."),
    key("until", Here, Shape::Date, "The last day on which the exception holds."),
];

static TOOLCHAINS: &[Key] = &[key(
    "go",
    Inherited,
    Shape::Text(&VERSION),
    "The version of Go. Rust's is in `rust-toolchain.toml`.",
)];

static SANDBOX: &[Key] = &[
    key(
        "packages",
        Optional,
        PACKAGES,
        "Debian packages that every build needs; components add theirs.",
    ),
    key(
        "suite",
        Optional,
        Shape::Text(&NAME),
        "The Debian suite that all packages come from; none is the build machine's own.",
    ),
];

/// `boards/<name>.toml`
pub(super) static BOARD: &[Key] = &[
    key("inherit", Optional, Shape::Text(&NAME), "The board that this one changes."),
    key(
        "architecture",
        Inherited,
        Shape::Word(&["amd64", "arm64"]),
        "The processor's architecture.",
    ),
    key(
        "sector-size",
        Inherited,
        Shape::Number(&[512, 4096]),
        "Logical sector size of the disk in bytes.",
    ),
    key(
        "esp-size-mib",
        Inherited,
        Shape::Integer { least: 34, most: MAX_ESP_SIZE_MIB as i64, what: MIB },
        "Size of the EFI system partition.",
    ),
    key(
        "slot-size-mib",
        Inherited,
        Shape::Integer { least: 16, most: MAX_SLOT_SIZE_MIB as i64, what: MIB },
        "Size of each slot.",
    ),
    key(
        "data-size-mib",
        Inherited,
        Shape::Integer { least: 160, most: 1 << 20, what: MIB },
        "Size of DATA in the image; it grows to the disk at first boot.",
    ),
    key(
        "min-ram-mib",
        Inherited,
        Shape::Integer { least: 128, most: 1 << 24, what: MIB },
        "The least memory with which the node works.",
    ),
    key(
        "gate-hold-s",
        Inherited,
        Shape::Integer { least: 0, most: 3600, what: SECONDS },
        "How long the node has to be ready before its slot is a good one.",
    ),
    key(
        "gate-deadline-s",
        Inherited,
        Shape::Integer { least: 30, most: 86_400, what: SECONDS },
        "When, after power-on, a slot that has not become a good one gives way to the other one.",
    ),
    key(
        "watchdog-s",
        Inherited,
        Shape::Integer { least: 0, most: 600, what: SECONDS },
        "After how long the machine's hardware watchdog resets a node that hangs; 0 where there is none.",
    ),
    key(
        "time-servers",
        Optional,
        TIME_SERVERS,
        "Whom the node asks for the time where its network names nobody.",
    ),
    key("kernel", Optional, Shape::Table(BOARD_KERNEL), "What the kernel needs on this machine."),
    key("qemu", Optional, Shape::Table(QEMU), "The machine that `osbuild run` makes."),
];

static BOARD_KERNEL: &[Key] = &[
    key("command-line", Optional, WORDS, "Words of the kernel's command line."),
    key(
        "fragments",
        Optional,
        NAMES,
        "Fragments of the kernel's component besides those that it names.",
    ),
    key("options", Optional, OPTIONS, "Options over the fragments', by name without `CONFIG_`."),
];

static QEMU: &[Key] = &[
    key("machine", Inherited, Shape::Text(&WORD), "`-machine`, without an accelerator."),
    key("cpu", Inherited, Shape::Text(&WORD), "`-cpu` under software emulation."),
    key(
        "memory-mib",
        Inherited,
        Shape::Integer { least: 128, most: 1 << 20, what: MIB },
        "Memory.",
    ),
    key(
        "cpus",
        Inherited,
        Shape::Integer { least: 1, most: 255, what: "a number of processors" },
        "Processors.",
    ),
    key("bus", Inherited, Shape::Word(&Bus::NAMES), "What the disk is connected to."),
];

/// `components/<name>/component.toml`
pub(super) static COMPONENT: &[Key] = &[
    key("about", Here, Shape::Text(&ANY), "What it is, in one line."),
    key("kernel", Optional, Shape::Table(COMPONENT_KERNEL), "It is the kernel."),
    key("go", Optional, Shape::Table(GO), "It is compiled from a Go module."),
    key("cargo", Optional, Shape::Table(CARGO), "It is compiled from a package of this workspace."),
    key(
        "uefi",
        Optional,
        Shape::Table(UEFI),
        "It is a UEFI program of this workspace, which the firmware starts.",
    ),
    key(
        "image",
        Optional,
        Shape::Table(IMAGE_KEYS),
        "It is an image with a program of this workspace.",
    ),
    key("pod", Optional, Shape::Table(POD_KEYS), "It is a static pod that runs its `image`."),
    key(
        "kubernetes",
        Optional,
        Shape::Map { key: &MINOR, value: &VERSIONS, removable: false },
        "For a container runtime: the kubelet's minor, and the first versions that fit it.",
    ),
    key(
        "sandbox",
        Optional,
        Shape::Table(COMPONENT_SANDBOX),
        "What its compilation needs in the sandbox.",
    ),
];

static VERSIONS: Shape = Shape::List(&Shape::Text(&VERSION));

static COMPONENT_KERNEL: &[Key] = &[
    key("package", Here, Shape::Text(&DEBIAN), "The Debian package with the source."),
    key("fragments", Here, NAMES, "Files `fragments/<name>.config`, later ones over earlier ones."),
    key("fragments-amd64", Optional, NAMES, "Fragments for amd64 behind them."),
    key("fragments-arm64", Optional, NAMES, "Fragments for arm64 behind them."),
];

static GO: &[Key] = &[
    key("module", Here, Shape::Text(&MODULE), "The module's path."),
    key(
        "programs",
        Here,
        Shape::Map { key: &NAME, value: &Shape::Text(&WORD), removable: false },
        "File names, each with its Go package.",
    ),
    key("tags", Optional, WORDS, "Build tags."),
    key(
        "ldflags",
        Optional,
        Shape::List(&Shape::Text(&ANY)),
        "Linker flags. `{version}`, `{major}` and `{minor}` are replaced by the version's.",
    ),
    key(
        "libraries",
        Optional,
        PACKAGES,
        "Debian packages of the node's architecture to link; naming any turns cgo on.",
    ),
    key(
        "wrapper",
        Optional,
        Shape::True,
        "The module cannot be a main module: build it from a module that requires it.",
    ),
];

static CARGO: &[Key] = &[
    key("package", Here, Shape::Text(&PACKAGE), "The Cargo package."),
    key("programs", Here, NAMES, "Its programs, by file name."),
];

static UEFI: &[Key] = &[
    key("package", Here, Shape::Text(&PACKAGE), "The Cargo package."),
    key("program", Here, Shape::Text(&NAME), "Its program."),
];

static IMAGE_KEYS: &[Key] = &[
    key("name", Here, Shape::Text(&IMAGE), "The image's name, as manifests call it."),
    key("package", Here, Shape::Text(&PACKAGE), "The Cargo package."),
    key("program", Here, Shape::Text(&NAME), "Its program, the image's entry point."),
    key(
        "payload",
        Optional,
        Shape::Table(PAYLOAD),
        "What the program installs on the node: the image has it below `/payload`.",
    ),
];

static PAYLOAD: &[Key] = &[
    key(
        "component",
        Here,
        Shape::Text(&NAME),
        "The component in `components/` with the static programs, made by Go without cgo.",
    ),
    key(
        "debian",
        Optional,
        Shape::Map { key: &NAME, value: &DEBIAN_PROGRAM, removable: false },
        "Dynamically linked programs of Debian packages, by their file name on the node.",
    ),
];

static DEBIAN_PROGRAM: Shape = Shape::Table(&[
    key("package", Here, Shape::Text(&DEBIAN), "The package that has it."),
    key("path", Here, Shape::Text(&FILE_PATH), "Its path in the package."),
    key(
        "libraries",
        Here,
        PACKAGES,
        "The packages with its loader and its libraries: each one that it needs, and no other.",
    ),
]);

static POD_KEYS: &[Key] =
    &[key("manifest", Here, Shape::Text(&FILE_PATH), "The pod's manifest, relative to this file.")];

static COMPONENT_SANDBOX: &[Key] = &[
    key("packages", Optional, PACKAGES, "Debian packages."),
    key("packages-amd64", Optional, PACKAGES, "Debian packages when the node is amd64."),
    key("packages-arm64", Optional, PACKAGES, "Debian packages when the node is arm64."),
];

/// `components/kubelet/releases.toml`
pub(super) static RELEASES: &[Key] = &[
    key("checked", Here, Shape::Date, "The day on which the table was compared with upstream."),
    key(
        "minors",
        Here,
        Shape::Map { key: &MINOR, value: &RELEASE, removable: false },
        "Minors of Kubernetes.",
    ),
];

static RELEASE: Shape = Shape::Table(&[
    key("newest", Here, Shape::Text(&VERSION), "The newest patch."),
    key("released", Here, Shape::Date, "The day of the first release."),
    key("end-of-life", Here, Shape::Date, "The last day of support."),
]);

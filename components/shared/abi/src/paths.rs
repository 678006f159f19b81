//! Paths inside the initramfs and on the running node.

/// In the initramfs: the folder of the root's read-only layers, `NN-name.erofs`. The highest number
/// is the topmost layer.
pub const LAYERS: &str = "/layers";
/// In the initramfs: `init`'s first life, which mounts the root and becomes [`INIT`].
pub const EARLY_INIT: &str = "/init";
/// On the node: the folder of the seven host binaries.
pub const BIN: &str = "/bin";
/// On the node: PID 1.
pub const INIT: &str = "/bin/init";

/// Everything that the builder puts on the node for `init` to read.
pub const SHARE: &str = "/usr/share/osbuild";
/// OCI image layout with every pod image.
pub const IMAGES: &str = "/usr/share/osbuild/images";
/// The kubelet's `staticPodPath`: one `NAME.yaml` a declared pod, read-only and as trusted as the
/// root.
pub const POD_MANIFESTS: &str = "/usr/share/osbuild/pods";
/// The declared pods in the form that [`crate::pods`] reads.
pub const POD_LIST: &str = "/usr/share/osbuild/pods.list";
/// The kubelet's configuration, over which `init` lays what belongs to the machine and to a
/// cluster.
pub const KUBELET_CONFIG: &str = "/usr/share/osbuild/kubelet.yaml";
/// containerd's configuration.
pub const CONTAINERD_CONFIG: &str = "/usr/share/osbuild/containerd.toml";
/// `KEY = VALUE` lines, each a file below `/proc/sys`, with comments that give the reason.
pub const SYSCTL: &str = "/usr/share/osbuild/sysctl.conf";

/// The writable paths that the recipe declares, in the form that [`crate::declared`] reads; not
/// there where it declares none.
pub const WRITABLE_PATHS: &str = "/usr/share/osbuild/writable";
/// Network configurations that the recipe lists, which the pod `cni` copies to
/// [`CNI_CONFIGURATIONS`].
pub const CNI: &str = "/usr/share/osbuild/cni";
/// Where containerd finds CNI plugins. Whoever writes here is root on the node: containerd executes
/// what is here.
pub const CNI_PLUGINS: &str = "/opt/cni/bin";
/// Where containerd finds network configurations: the first one by name is the node's.
pub const CNI_CONFIGURATIONS: &str = "/etc/cni/net.d";

/// What a node that updates itself trusts and follows; not there on one that does not.
pub const UPDATE: &str = "/usr/share/osbuild/update";
/// The root of trust of releases: the `root.json` of a TUF repository.
pub const UPDATE_ROOT: &str = "/usr/share/osbuild/update/root.json";
/// Where updates come from, in the form that [`crate::update`] reads.
pub const UPDATE_SETTINGS: &str = "/usr/share/osbuild/update/settings";

/// What an installer carries; not there on any other node.
pub const INSTALL: &str = "/usr/share/osbuild/install";
/// The disk image that it installs.
pub const INSTALL_IMAGE: &str = "/usr/share/osbuild/install/image.raw";
/// The certificate, in PEM, of whoever signed that image; not there if nobody did.
pub const INSTALL_CERTIFICATE: &str = "/usr/share/osbuild/install/db.crt";
/// What the installer is to do where no stick says it.
pub const INSTALL_SETTINGS: &str = "/usr/share/osbuild/install/installer.toml";

/// Where the kernel shows the firmware's variables, each as `NAME-VENDOR`: four bytes of
/// attributes, then its value.
pub const FIRMWARE_VARIABLES: &str = "/sys/firmware/efi/efivars";

/// Where the updater keeps the newest metadata of releases that it has seen.
pub const UPDATE_SEEN: &str = "/var/lib/updater";

/// Where DATA is mounted.
pub const DATA: &str = "/data";
/// A kubeconfig here makes the node start joined to its cluster.
pub const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
/// A bootstrap kubeconfig here makes the kubelet ask its cluster for a certificate.
pub const BOOTSTRAP_KUBECONFIG: &str = "/etc/kubernetes/bootstrap-kubeconfig";
/// The certificates of the CA of a cluster's clients. If they are here when the kubelet starts
/// joined, it believes who has a certificate of it.
pub const CLIENT_CA: &str = "/etc/kubernetes/ca.crt";
/// Drop-ins (`*.conf`) over [`KUBELET_CONFIG`], as of the kubelet's `--config-dir`.
pub const KUBELET_CONFIG_DIR: &str = "/etc/kubernetes/kubelet.conf.d";

/// The socket by which a pod sets host name and name servers.
pub const NET_SOCKET: &str = "/run/osbuild/net/socket";
/// The socket by which an administrator's pod asks for status and restarts.
pub const ADMIN_SOCKET: &str = "/run/osbuild/admin/socket";
/// The socket by which the pod that updates the node reaches the other slot.
pub const UPDATE_SOCKET: &str = "/run/osbuild/update/socket";
/// The socket by which the pod that keeps the clock right learns when the node last ran, and says
/// what it did.
pub const TIME_SOCKET: &str = "/run/osbuild/time/socket";
/// containerd's gRPC socket.
pub const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
/// Where containerd keeps the blobs of images, each under the hexadecimal digits of its SHA-256.
pub const CONTAINERD_BLOBS: &str =
    "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256";
/// What `/etc/resolv.conf` in the root links to. `init` writes it, from the `net` socket.
pub const RESOLV_CONF: &str = "/run/osbuild/resolv.conf";
/// The time servers, one address or name a line, which the `time` pod reads. `init` writes it, by
/// rename: first those of the image ([`crate::cmdline::TIME_SERVERS`]), then what the `net` socket
/// says. Its folder is there before the kubelet starts. It is not beside the socket, as a read-only
/// mount does not keep a pod from connecting.
pub const NTP_SERVERS: &str = "/run/osbuild/ntp/servers";
/// The folder of `init.log`, `containerd.log` and `kubelet.log`.
pub const LOGS: &str = "/var/log";

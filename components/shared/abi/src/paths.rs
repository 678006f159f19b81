//! Paths inside the initramfs and on the running node.

/// In the initramfs: the folder of the root's read-only layers, `NN-name.erofs`. The layer with the
/// highest number is on top.
pub const LAYERS: &str = "/layers";
/// In the initramfs: the `name` of the layer with [`IMAGES`]. It is not part of the root, so that
/// its memory can be freed.
pub const IMAGES_LAYER: &str = "images";
/// In the initramfs: `init`'s first stage, which mounts the root and executes [`INIT`].
pub const EARLY_INIT: &str = "/init";
/// On the node: the folder of the seven host binaries.
pub const BIN: &str = "/bin";
/// On the node: the folder of the other names of binaries that the kubelet finds, in the table
/// [`crate::program_names::KUBELET`].
pub const KUBELET_PROGRAMS: &str = "/usr/libexec/kubelet";
/// On the node: PID 1.
pub const INIT: &str = "/bin/init";

/// The files that the builder makes for `init` to read.
pub const SHARE: &str = "/usr/share/osbuild";
/// OCI image layout with every pod image; empty once containerd has them.
pub const IMAGES: &str = "/usr/share/osbuild/images";
/// `NAME.yaml` for each declared pod, read-only and as trusted as the root.
pub const POD_MANIFESTS: &str = "/usr/share/osbuild/pods";
/// The declared pods in the format of [`crate::pods`].
pub const POD_LIST: &str = "/usr/share/osbuild/pods.list";
/// The kubelet's configuration, to which `init` adds settings of the machine and of a cluster.
pub const KUBELET_CONFIG: &str = "/usr/share/osbuild/kubelet.yaml";
/// containerd's configuration.
pub const CONTAINERD_CONFIG: &str = "/usr/share/osbuild/containerd.toml";
/// `KEY = VALUE` lines, one for each file below `/proc/sys`, with comments that give the reason.
pub const SYSCTL: &str = "/usr/share/osbuild/sysctl.conf";
/// The kernel parameters that the `host` socket may set: a name on each line, or the start of one
/// with `*` at its end, with comments.
pub const KERNEL_PARAMETERS: &str = "/usr/share/osbuild/kernel-parameters.conf";

/// The modules that the kernel has built in, in the format of [`crate::kernel_modules`].
pub const KERNEL_MODULES: &str = "/usr/share/osbuild/kernel-modules";

/// containerd's AppArmor profile of pods, compiled for the kernel; missing if the kernel has no
/// AppArmor.
pub const APPARMOR_PROFILE: &str = "/usr/share/osbuild/apparmor-profile";

/// The packages that the node is made of, in the format of [`crate::packages`].
pub const PACKAGES: &str = "/usr/share/osbuild/packages";

/// The settings in `[node]` of the recipe, one on each line; missing if it has none.
pub const IMAGE_SETTINGS: &str = "/usr/share/osbuild/settings";

/// The message that the consoles of a node show above its summary; missing if the recipe has none.
pub const MOTD: &str = "/etc/motd";

/// The fields of the kubelet's configuration that settings may have: a name on each line, with
/// comments.
pub const KUBELET_FIELDS: &str = "/usr/share/osbuild/kubelet-fields.conf";

/// The folders at and below which the `host` socket may mount: a path on each line, with comments.
pub const MOUNT_TARGETS: &str = "/usr/share/osbuild/mount-targets.conf";

/// The disks that settings may give to pods as volumes: an identifier on each line, or the start of
/// one with `*` at its end, with comments.
pub const VOLUME_DISKS: &str = "/usr/share/osbuild/volume-disks.conf";

/// The writable paths of the recipe in the format of [`crate::declared`]; missing if it declares
/// none.
pub const WRITABLE_PATHS: &str = "/usr/share/osbuild/writable";
/// The network configurations of the recipe, which the pod `cni` copies to [`CNI_CONFIGURATIONS`].
pub const CNI: &str = "/usr/share/osbuild/cni";
/// The folder of CNI plugins. Writing here gives root on the node, because containerd executes
/// these files.
pub const CNI_PLUGINS: &str = "/opt/cni/bin";
/// The folder of network configurations. containerd uses the first one by name.
pub const CNI_CONFIGURATIONS: &str = "/etc/cni/net.d";
/// The folder of sockets at which the kubelet finds plugins, such as storage drivers.
pub const KUBELET_REGISTRATIONS: &str = "/var/lib/kubelet/plugins_registry";
/// The folder of their other files, such as the sockets at which the kubelet uses them.
pub const KUBELET_PLUGINS: &str = "/var/lib/kubelet/plugins";

/// The settings of a node that updates itself; missing on other nodes.
pub const UPDATE: &str = "/usr/share/osbuild/update";
/// The root of trust of releases: the `root.json` of a TUF repository.
pub const UPDATE_ROOT: &str = "/usr/share/osbuild/update/root.json";
/// The source of updates, in the format of [`crate::update`].
pub const UPDATE_SETTINGS: &str = "/usr/share/osbuild/update/settings";

/// The files for documents on volumes; missing on nodes that read none.
pub const VOLUMES: &str = "/usr/share/osbuild/volumes";
/// The root of trust that names the key of documents on volumes: a `root.json`. Missing if any
/// document counts.
pub const VOLUMES_ROOT: &str = "/usr/share/osbuild/volumes/root.json";
/// A file that says that unsigned documents on volumes count.
pub const VOLUMES_UNSIGNED: &str = "/usr/share/osbuild/volumes/unsigned";

/// The files for consoles; missing on nodes whose consoles only show.
pub const CONSOLE: &str = "/usr/share/osbuild/console";
/// A file that lets a person at a console give the node an address.
pub const CONSOLE_ADDRESS: &str = "/usr/share/osbuild/console/address";

/// The files for the node API; missing on nodes without it.
pub const API: &str = "/usr/share/osbuild/api";
/// The CAs whose clients may connect over the network, in PEM; missing if none may.
pub const API_CLIENTS: &str = "/usr/share/osbuild/api/clients.crt";

/// The greatest rights of a debug container, as a word; missing if the recipe has no such key.
pub const API_DEBUG: &str = "/usr/share/osbuild/api/debug";

/// The rights that static pods of settings may have, one on each line; missing if the recipe has no
/// such key.
pub const API_STATIC_PODS: &str = "/usr/share/osbuild/api/static-pods";

/// A file that allows a setting to name the node's cluster; missing if the recipe does not.
pub const API_CLUSTER_JOIN: &str = "/usr/share/osbuild/api/cluster-join";

/// A file that allows a setting to configure the control plane that runs on the node; missing if
/// the recipe does not.
pub const API_CONTROL_PLANE: &str = "/usr/share/osbuild/api/control-plane";

/// The CAs that the node document names in their place, in PEM; missing if it names none.
pub const DOCUMENT_CLIENTS: &str = "/run/osbuild/api/clients.crt";

/// The files of an installer; missing on other nodes.
pub const INSTALL: &str = "/usr/share/osbuild/install";
/// The disk image to install.
pub const INSTALL_IMAGE: &str = "/usr/share/osbuild/install/image.raw";
/// The certificate of the image's signer in PEM; missing if the image is unsigned.
pub const INSTALL_CERTIFICATE: &str = "/usr/share/osbuild/install/db.crt";
/// The installer's settings if no stick has any.
pub const INSTALL_SETTINGS: &str = "/usr/share/osbuild/install/installer.toml";

/// The folder of the firmware's variables, each a file `NAME-VENDOR`: four bytes of attributes,
/// then the value.
pub const FIRMWARE_VARIABLES: &str = "/sys/firmware/efi/efivars";

/// The folder of the kernel messages that the firmware keeps over a restart (pstore).
pub const FIRMWARE_MESSAGES: &str = "/sys/fs/pstore";

/// The updater's folder for the newest metadata of releases that it has seen.
pub const UPDATE_SEEN: &str = "/var/lib/updater";

/// The machine's identity, which persists until the disk is reset.
pub const MACHINE_ID: &str = "/etc/machine-id";

/// The mount point of DATA.
pub const DATA: &str = "/data";
/// The folder with the mount point of each volume that settings ask for. It is in memory, and
/// nothing but `init` makes an entry there.
pub const VOLUME_MOUNTS: &str = "/var/mnt";
/// The node document, in which the node's owner configures it.
pub const NODE_DOCUMENT: &str = "/etc/osbuild/node.toml";
/// The kubeconfig that `init` or the kubelet makes for the cluster that settings name.
pub const JOIN_KUBECONFIG: &str = "/run/osbuild/kubelet/kubelet.conf";
/// The bootstrap kubeconfig that `init` makes for the cluster that settings name.
pub const JOIN_BOOTSTRAP: &str = "/run/osbuild/kubelet/bootstrap-kubelet.conf";
/// The CA certificates of that cluster.
pub const JOIN_CA: &str = "/run/osbuild/kubelet/ca.crt";
/// The kubelet's client certificate, and the one of the cluster before: links in its folder.
pub const CLIENT_CERTIFICATES: [&str; 2] = [
    "/var/lib/kubelet/pki/kubelet-client-current.pem",
    "/var/lib/kubelet/pki/osbuild-client-former.pem",
];
/// With a kubeconfig here, the node starts as a member of its cluster. This path and the next two
/// are kubeadm's.
pub const KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";
/// With a bootstrap kubeconfig here, the kubelet requests a certificate from its cluster.
pub const BOOTSTRAP_KUBECONFIG: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
/// The CA certificates for the cluster's clients. If this file exists when the kubelet starts in a
/// cluster, the kubelet authenticates clients with certificates of this CA.
pub const CLIENT_CA: &str = "/etc/kubernetes/pki/ca.crt";
/// The same three on a node that joined with an earlier release, whose names they have. A node
/// keeps them, so that its other slot finds them.
pub const EARLIER_KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
/// See [`EARLIER_KUBECONFIG`].
pub const EARLIER_BOOTSTRAP_KUBECONFIG: &str = "/etc/kubernetes/bootstrap-kubeconfig";
/// See [`EARLIER_KUBECONFIG`].
pub const EARLIER_CLIENT_CA: &str = "/etc/kubernetes/ca.crt";
/// Drop-ins (`*.conf`) for [`KUBELET_CONFIG`]: the kubelet's `--config-dir`.
pub const KUBELET_CONFIG_DIR: &str = "/etc/kubernetes/kubelet.conf.d";

/// The kubelet's configurations as `init` has made them, `joined.json` and `standalone.json`: one
/// of them is the kubelet's `--config`. The folder has nothing that is secret.
pub const KUBELET_CONFIGURATIONS: &str = "/run/osbuild/kubelet/config";

/// Manifests of static pods on DATA, where kubeadm writes those of a control plane.
pub const DATA_MANIFESTS: &str = "/etc/kubernetes/manifests";
/// The kubelet's `staticPodPath`, to which `init` copies [`POD_MANIFESTS`] and [`DATA_MANIFESTS`].
pub const STATIC_PODS: &str = "/run/osbuild/kubelet/pods";

/// The socket through which a pod sets the host name and name servers.
pub const NET_SOCKET: &str = "/run/osbuild/net/socket";
/// The socket through which the pod that has placed a node document has the kubelet restarted.
pub const BOOTSTRAP_SOCKET: &str = "/run/osbuild/bootstrap/socket";
/// The socket through which an administrator's pod requests the status and restarts.
pub const ADMIN_SOCKET: &str = "/run/osbuild/admin/socket";
/// The socket through which the updater's pod writes the other slot.
pub const UPDATE_SOCKET: &str = "/run/osbuild/update/socket";
/// The socket through which the pod that sets the clock learns when the node last ran, and reports
/// its adjustments.
pub const TIME_SOCKET: &str = "/run/osbuild/time/socket";
/// The socket through which the pod that configures the host changes its settings.
pub const HOST_SOCKET: &str = "/run/osbuild/host/socket";
/// The socket on which the pod `osd` serves the node's resources.
pub const OSD_SOCKET: &str = "/run/osbuild/osd/socket";
/// The folder of the socket on which the pod `osd` awaits the program of a debug container.
pub const DEBUG: &str = "/run/osbuild/debug";
/// The root of the node with all mounts below it, read-only, while there is a debug container that
/// may see them.
pub const DEBUG_ROOT: &str = "/run/osbuild/root";
/// The name of the file in [`STATIC_PODS`] with the pod of a debug container, which `init` alone
/// writes.
pub const DEBUG_MANIFEST: &str = "osbuild-debug.yaml";
/// The address of the system bus (`/var/run` is a link to `/run`), where the kubelet looks for
/// logind.
pub const SYSTEM_BUS: &str = "/run/dbus/system_bus_socket";
/// containerd's gRPC socket.
pub const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
/// containerd's socket for plugins of NRI, which are pods.
pub const NRI_SOCKET: &str = "/run/nri/nri.sock";
/// containerd's folder of image blobs, each named with its SHA-256 in hexadecimal.
pub const CONTAINERD_BLOBS: &str =
    "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256";
/// The target of the link `/etc/resolv.conf`. `init` writes it, from the `net` socket.
pub const RESOLV_CONF: &str = "/run/osbuild/resolv.conf";
/// The target of the link `/etc/hosts`. `init` writes it when a name of the node changes.
pub const HOSTS: &str = "/run/osbuild/hosts";
/// The time servers, one address or name per line, for the `time` pod. `init` replaces the file
/// with rename(2): first it has those of the image ([`crate::cmdline::TIME_SERVERS`]), then those
/// from the `net` socket. Its folder exists before the kubelet starts. It is not the folder of the
/// socket, because a read-only mount does not prevent a pod from connecting.
pub const NTP_SERVERS: &str = "/run/osbuild/ntp/servers";
/// The file with the proxy that settings ask for, as variables of an environment, which the pod
/// `updater` reads. It is missing if there is none; its folder is there.
pub const PROXY_ENVIRONMENT: &str = "/run/osbuild/proxy/environment";
/// The file with the authorities that settings ask for, in PEM, which daemons and pods trust beside
/// those in `/etc/ssl/certs`. It is missing if there are none; its folder is there.
pub const TRUSTED_ROOTS: &str = "/run/osbuild/trusted-roots/roots.crt";
/// The folder of the mirrors of registries that settings ask for, in which containerd looks before
/// `/etc/containerd/certs.d`.
pub const REGISTRIES: &str = "/run/osbuild/registries";
/// The folder in which `init` and the pod `control-plane` exchange the following files.
pub const CONTROL_PLANE: &str = "/run/osbuild/control-plane";
/// The configuration of the control plane that settings ask for; missing if none does.
pub const CONTROL_PLANE_CONFIGURATION: &str = "/run/osbuild/control-plane/configuration.yaml";
/// The same as the pod has made the control plane with it.
pub const CONTROL_PLANE_MADE: &str = "/run/osbuild/control-plane/made.yaml";
/// Why the pod has not made the control plane with the configuration.
pub const CONTROL_PLANE_ERROR: &str = "/run/osbuild/control-plane/error";
/// The folder of the programs that give the kubelet the credentials of registries. A recipe
/// declares it, and a pod writes them.
pub const CREDENTIAL_PROVIDERS: &str = "/opt/credential-providers/bin";
/// The folder of the seccomp profiles that settings ask for, each `NAME.json`.
pub const SECCOMP_PROFILES: &str = "/run/osbuild/seccomp";
/// The link to it in the kubelet's folder of profiles: a pod names one `osbuild/NAME.json`.
pub const SECCOMP_LINK: &str = "/var/lib/kubelet/seccomp/osbuild";
/// The folder of `init.log`, `containerd.log` and `kubelet.log`.
pub const LOGS: &str = "/var/log";

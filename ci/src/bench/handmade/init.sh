#!/busybox sh
# The minimum that containerd and the kubelet need: no disk, no network, no supervision.
B=/busybox
# runc cannot pivot away from the initramfs itself, so this moves the root once and restarts the
# script there.
if [ ! -e /newroot ]; then
    $B mkdir /newroot
    $B mount --bind / /newroot
    cd /newroot
    $B mount --move . /
    exec $B chroot . /init
fi
cd /
$B mount -t proc proc /proc
$B mount -t sysfs sysfs /sys
$B mount -t devtmpfs devtmpfs /dev
exec >/dev/console 2>&1
$B mount --make-rshared /
$B mkdir -p /dev/pts /dev/shm /var/log/pods
$B mount -t devpts devpts /dev/pts
$B mount -t tmpfs tmpfs /dev/shm
$B mount -t tmpfs tmpfs /run
$B mount -t tmpfs tmpfs /tmp
$B mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +cpu +memory +pids +cpuset +io >/sys/fs/cgroup/cgroup.subtree_control
$B mkdir -p /run/osbuild /run/containerd
: >/run/osbuild/resolv.conf
$B grep '^[a-z]' /usr/share/osbuild/sysctl.conf | $B tr -d ' ' | while read -r setting; do $B sysctl -w "$setting"; done >/dev/null 2>&1
$B ifconfig lo up
/bin/containerd --config /usr/share/osbuild/containerd.toml >/containerd.log 2>&1 &
until [ -S /run/containerd/containerd.sock ]; do $B usleep 20000; done
/bin/kubelet --config=/usr/share/osbuild/kubelet.yaml --hostname-override=node >/kubelet.log 2>&1 &
/bin/init images
until $B cat /var/log/pods/*/*/*.log 2>/dev/null | $B grep -q .; do $B usleep 50000; done
echo "handmade: a pod has written a line"
$B poweroff -f

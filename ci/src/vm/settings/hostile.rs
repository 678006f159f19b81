//! Requests that a hostile `osd` sends to `init`.

use super::node::Node;
use crate::check::Outcome;
use osbuild::error::Result;
use osbuild_protocol::{Refusal, RefusalCode};

/// Lines for the socket `host`, each with the kind of its refusal.
const LINES: [(&str, RefusalCode); 124] = [
    ("apply kernel-parameter kernel.core_pattern |/tmp/x", RefusalCode::NotAllowed),
    ("apply kernel-parameter kernel.modprobe /tmp/x", RefusalCode::NotAllowed),
    ("apply kernel-parameter kernel.panic 0", RefusalCode::NotAllowed),
    ("apply kernel-parameter net.ipv4.ip_forward 0", RefusalCode::NotAllowed),
    ("apply kernel-parameter vm.overcommit_memory 2", RefusalCode::NotAllowed),
    ("apply kernel-parameter ../../etc/passwd 1", RefusalCode::Malformed),
    ("apply kernel-parameter vm.nr_hugepages 100000000", RefusalCode::Malformed),
    ("apply host-name ../etc", RefusalCode::Malformed),
    ("apply name-servers 10.0.2.3;reboot", RefusalCode::Malformed),
    ("apply time-servers $(reboot)", RefusalCode::Malformed),
    ("apply cluster-join server=https://a ca=MIIB", RefusalCode::NotAllowed),
    ("apply cluster-join /tmp/kubeconfig", RefusalCode::Malformed),
    ("apply cluster-join server=http://a ca=MIIB", RefusalCode::Malformed),
    ("apply cluster-join server=https://a/?b ca=MIIB", RefusalCode::Malformed),
    ("apply cluster-join server=https://a ca=/tmp/ca.crt", RefusalCode::Malformed),
    ("apply cluster-join server=https://a ca=MIIB token=a\"b", RefusalCode::Malformed),
    ("apply cluster-join server=https://a ca=MIIB exec=/tmp/x", RefusalCode::Malformed),
    (
        "apply control-plane apiVersion:%20kubeadm.k8s.io/v1%0akind:%20ClusterConfiguration%0a",
        RefusalCode::NotAllowed,
    ),
    ("apply control-plane kind:%20Pod%0aapiVersion:%20v1%0a", RefusalCode::Malformed),
    ("apply control-plane /tmp/kubeadm.yaml", RefusalCode::Malformed),
    ("apply credential-provider ../../tmp/x cache=1h api=v1 images=a", RefusalCode::Malformed),
    ("apply credential-provider . cache=1h api=v1 images=a", RefusalCode::Malformed),
    ("apply credential-provider a cache=1h api=v1 images=a path=/tmp/x", RefusalCode::Malformed),
    ("apply credential-provider a cache=1h api=v1 images=a\",\"b", RefusalCode::Malformed),
    ("apply credential-provider a cache=1h api=exec images=a", RefusalCode::Malformed),
    (
        "apply credential-provider a cache=1h api=v1 images=a env=LD_PRELOAD=/a",
        RefusalCode::Malformed,
    ),
    ("apply kernel-module ../../tmp/x built-in", RefusalCode::Malformed),
    ("apply kernel-module kvm loaded", RefusalCode::Malformed),
    ("apply kernel-module kvm built-in nested=1", RefusalCode::Malformed),
    ("apply motd %1b[2J", RefusalCode::Malformed),
    ("apply motd a%0db", RefusalCode::Malformed),
    ("apply motd %c2%9b31m", RefusalCode::Malformed),
    ("apply motd a b", RefusalCode::Malformed),
    ("apply etc-file /etc/passwd root", RefusalCode::Malformed),
    ("apply mount /dev/vda /", RefusalCode::Malformed),
    ("apply mount /run/osbuild tmpfs tmpfs", RefusalCode::NotAllowed),
    ("apply mount /run/mnt/../osbuild tmpfs tmpfs", RefusalCode::Malformed),
    ("apply mount /run/mnt/a bind /etc/kubernetes", RefusalCode::NotAllowed),
    ("apply mount /run/mnt/a tmpfs tmpfs suid,dev", RefusalCode::Malformed),
    ("apply registry-mirror ../../../etc mirror=https://a", RefusalCode::Malformed),
    ("apply registry-mirror docker.io mirror=http://a", RefusalCode::Malformed),
    ("apply registry-mirror docker.io mirror=https://a\"]", RefusalCode::Malformed),
    ("apply registry-mirror docker.io mirror=https://a ca=/etc/ca.crt", RefusalCode::Malformed),
    ("apply registry-credential ../../etc token=a", RefusalCode::Malformed),
    ("apply registry-credential a.example token=a\"", RefusalCode::Malformed),
    ("apply registry-credential a.example token=a plain-http", RefusalCode::Malformed),
    ("apply kubelet-config readOnlyPort 10255", RefusalCode::Malformed),
    ("apply kubelet-config authorization.mode AlwaysAllow", RefusalCode::Malformed),
    ("apply kubelet-config staticPodPath /tmp", RefusalCode::Malformed),
    ("apply kubelet-config maxPods 42,\"readOnlyPort\":1", RefusalCode::Malformed),
    ("apply node-label node-role.kubernetes.io/control-plane -", RefusalCode::Malformed),
    ("apply node-label rack 7,node-role.kubernetes.io/master=", RefusalCode::Malformed),
    ("apply node-taint a:NoSchedule b:NoExecute", RefusalCode::Malformed),
    ("apply proxy http=http://u:p@a:1", RefusalCode::Malformed),
    ("apply proxy http=socks5://a:1", RefusalCode::Malformed),
    ("apply proxy http=http://a", RefusalCode::Malformed),
    ("apply proxy https=http://a:65536", RefusalCode::Malformed),
    ("apply proxy http=http://a:1/LD_PRELOAD=/tmp/x", RefusalCode::Malformed),
    ("apply proxy http=http://a:1 no-proxy=*", RefusalCode::Malformed),
    ("apply proxy http=http://a:1 LD_PRELOAD=/tmp/x", RefusalCode::Malformed),
    ("apply trusted-root ../../etc/ssl MIIB", RefusalCode::Malformed),
    ("apply trusted-root a /etc/ca.crt", RefusalCode::Malformed),
    ("apply trusted-root a MIIB,MIIB,MIIB,MIIB,MIIB", RefusalCode::Malformed),
    ("apply trusted-root a MIIB\\n-----END", RefusalCode::Malformed),
    ("apply link wg0 made wireguard private-key=AAAA", RefusalCode::Malformed),
    ("apply link cilium_wg0 made wireguard", RefusalCode::Malformed),
    ("apply routing-rule ipv4 0 table=100", RefusalCode::Malformed),
    ("apply routing-rule ipv4 2000 table=255", RefusalCode::Malformed),
    ("apply routing-rule ipv4 2000 table=100 iif=../a", RefusalCode::Malformed),
    ("apply nat ../a masquerade link=eth0 sources=10.8.0.0/24", RefusalCode::Malformed),
    ("apply nat a masquerade link=eth0;flush sources=10.8.0.0/24", RefusalCode::Malformed),
    ("apply nat a destination protocol=tcp port=0 to=10.8.0.5", RefusalCode::Malformed),
    ("apply nat a destination protocol=tcp port=50000 to=10.8.0.5", RefusalCode::Malformed),
    ("apply nat a destination protocol=tcp port=10250 to=10.8.0.5", RefusalCode::Malformed),
    ("apply firewall-rule ../a drop", RefusalCode::Malformed),
    ("apply firewall-rule a drop links=lo", RefusalCode::Malformed),
    ("apply firewall-rule a accept ports=22", RefusalCode::Malformed),
    ("apply firewall-rule a accept protocol=tcp ports=22;flush", RefusalCode::Malformed),
    ("apply static-pod a host-pid container=a image=b", RefusalCode::NotAllowed),
    ("apply static-pod a container=a image=b privileged", RefusalCode::NotAllowed),
    (
        "apply static-pod a init-container=i image=b privileged container=a image=b",
        RefusalCode::NotAllowed,
    ),
    ("apply static-pod a container=a image=b capability=SYS_ADMIN", RefusalCode::NotAllowed),
    ("apply static-pod a volume=a:host:/data container=a image=b", RefusalCode::NotAllowed),
    (
        "apply static-pod a volume=a:host:/run/osbuild/admin container=a image=b",
        RefusalCode::NotAllowed,
    ),
    ("apply static-pod dhcp container=a image=b", RefusalCode::NotAllowed),
    ("apply static-pod osd container=a image=b", RefusalCode::NotAllowed),
    ("apply static-pod debug-07070707 container=a image=b", RefusalCode::Malformed),
    ("apply static-pod ../a container=a image=b", RefusalCode::Malformed),
    ("apply static-pod a namespace=kube-system container=a image=b", RefusalCode::Malformed),
    ("apply static-pod a host-ipc container=a image=b", RefusalCode::Malformed),
    ("apply static-pod a priority=2000001000 container=a image=b", RefusalCode::Malformed),
    ("apply static-pod a service-account=admin container=a image=b", RefusalCode::Malformed),
    ("apply static-pod a container=a image=b\",\"privileged\":true", RefusalCode::Malformed),
    ("apply static-pod a container=a image=b allow-privilege-escalation", RefusalCode::Malformed),
    ("apply static-pod a container=a image=b seccomp=Unconfined", RefusalCode::Malformed),
    ("apply static-pod a container=a image=b host-port=22", RefusalCode::Malformed),
    ("apply static-pod a container=a image=b device=/dev/vda", RefusalCode::Malformed),
    ("apply static-pod a volume=a:host:/srv/../etc container=a image=b", RefusalCode::Malformed),
    ("apply static-pod a volume=a:disk:9999Gi container=a image=b", RefusalCode::Malformed),
    ("apply seccomp-profile ../../pki/a default=ALLOW", RefusalCode::Malformed),
    ("apply seccomp-profile a default=NOTIFY", RefusalCode::Malformed),
    ("apply seccomp-profile a default=ALLOW listener=/run/a", RefusalCode::Malformed),
    ("apply seccomp-profile a default=ALLOW calls=LOG:read\"],\"a", RefusalCode::Malformed),
    ("apply seccomp-profile a default=ERRNO/4096", RefusalCode::Malformed),
    ("apply system-image localhost/pause:1 kept", RefusalCode::Malformed),
    ("apply system-image ../../tmp/x:1 kept", RefusalCode::Malformed),
    ("apply system-image a.example/b:1", RefusalCode::Malformed),
    ("apply system-image a.example/b:1 kept --all", RefusalCode::Malformed),
    ("apply swap size=0", RefusalCode::Malformed),
    ("apply swap size=201%", RefusalCode::Malformed),
    ("apply swap size=1Ti", RefusalCode::Malformed),
    ("apply swap size=64Mi device=/dev/vda", RefusalCode::Malformed),
    ("apply volume ../etc serial=a", RefusalCode::Malformed),
    ("apply volume a device=vda", RefusalCode::Malformed),
    ("apply volume a serial=", RefusalCode::Malformed),
    ("apply volume a serial=a force", RefusalCode::Malformed),
    ("apply volume a serial=%00", RefusalCode::Malformed),
    ("apply volume a serial=a wwid=b", RefusalCode::Malformed),
    ("apply volume a folder=/etc", RefusalCode::Malformed),
    ("try 4294967295", RefusalCode::Malformed),
    ("confirm", RefusalCode::NoTry),
    ("hostname stolen", RefusalCode::UnknownVerb),
    ("power-off", RefusalCode::UnknownVerb),
    ("slot", RefusalCode::UnknownVerb),
];

/// How the lines begin that change by themselves: with the last handshake of WireGuard, and the use
/// of swap.
const CHANGING: [&str; 2] = ["wireguard ", "current api swap "];

/// `init` refuses each, and nothing has changed.
pub fn is_refused(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let before = observed(node)?;
    for (line, code) in LINES {
        let answer = node.ask_init(line)?;
        let refusal = Refusal::decode(&answer).map(|refusal| refusal.code);
        outcome.check(&format!("init refuses `{line}`"), refusal == Some(code), || answer);
    }
    let after = observed(node)?;
    let changed = after.iter().filter(|line| !before.contains(line));
    let changed: Vec<_> =
        changed.chain(before.iter().filter(|line| !after.contains(line))).collect();
    let is_same = changed.is_empty();
    outcome.check("refused requests change nothing", is_same, || format!("{changed:#?}"));
    Ok(())
}

/// The lines that `init` observes, without [`CHANGING`] ones.
fn observed(node: &Node) -> Result<Vec<String>> {
    let text = node.ask_init("observe")?;
    let lasts = |line: &&str| !CHANGING.iter().any(|start| line.starts_with(start));
    Ok(text.lines().filter(lasts).map(str::to_owned).collect())
}

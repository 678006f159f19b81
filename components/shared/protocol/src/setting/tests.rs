use super::*;
use proptest::prelude::*;

#[test]
fn every_setting_is_one_line() {
    for line in [
        "host-name edge-7.example.org",
        "name-servers 10.0.2.3 fec0::3",
        "search-domains example.org _tcp.example.org",
        "time-servers 10.0.2.4 time.example:123",
        "motd Rack%207%0a100%25%20ours",
        "cluster-join server=https://a:6443 ca=MIIB token=abcdef.0123456789abcdef dns=10.0.0.1",
        "credential-provider ecr cache=12h api=v1 images=*.a,b:5000/c arg=get%20it env=A=b",
        "kernel-module dm_crypt built-in",
        "system-image 10.0.2.2:5000/tools/net:1 kept",
        "kernel-parameter net.ipv4.tcp_rmem 4096 8192 16384",
        "address eth0 192.0.2.7 24",
        "address eth0 2001:db8::7 64",
        "route 0.0.0.0/0 512 via 192.0.2.1 on eth0",
        "route 2001:db8:1::/48 1 via fe80::1 on eth0",
        "route 198.51.100.0/24 4294967295 on eth0.7",
        "link eth0 mtu 1400",
        "link eth0 dhcp off",
        "link eth0 state down",
        "firewall-rule rest drop",
        "nat lan masquerade link=eth0 sources=10.0.0.0/24,fd00::/64",
        "nat web destination link=eth0 protocol=tcp address=192.0.2.7 port=80 to=10.0.0.5 \
         to-port=8080",
        "firewall-rule api accept priority=7 protocol=tcp ports=50000 sources=::/0 links=eth*",
        "kubelet-config maxPods 50",
        "kubelet-config evictionHard.memory.available 10%",
        "node-label example.org/rack 7",
        "node-label topology.kubernetes.io/zone -",
        "node-taint dedicated:NoSchedule database",
        "node-taint example.org/a:PreferNoSchedule -",
        "mount /tmp tmpfs tmpfs",
        "mount /run/mnt/a tmpfs scratch ro,exec,size=4097",
        "mount /run/mnt/b bind /srv exec",
        "registry-credential docker.io user=a password=YQ==",
        "registry-credential localhost:5000 token=a plain-http",
        "registry-mirror docker.io mirror=https://a:5000 pull=https://[::1]/b ca=MIIB,MIIC",
        "registry-mirror localhost:5000 server=https://c",
        "proxy http=http://proxy.example:3128 https=https://[::1]:443 no-proxy=a,10.0.0.0/8",
        "seccomp-profile audit default=LOG",
        "seccomp-profile a default=ALLOW architectures=X86_64 calls=ERRNO/1:mount,umount2",
        "static-pod web container=a image=b",
        "static-pod web host-network volume=c:memory:1Mi container=a image=b mount=c:ro:/c",
        "control-plane apiVersion:%20kubeadm.k8s.io/v1beta4%0akind:%20ClusterConfiguration%0a",
        "swap size=512Mi",
        "swap size=50% memory-limit=256Mi pods",
        "trusted-root corporate MIIB,MIIC",
        "volume db serial=vol0123456789abcdef0",
        "volume logs-2 wwid=t10.ATA%20%20QEMU",
    ] {
        let setting = Setting::parse(line).unwrap();
        assert_eq!(setting.line(), line);
        let name = setting.name();
        assert!(line.starts_with(&format!("{name} ")));
        assert_eq!(SettingName::parse(&name.to_string()), Ok(name));
    }
}

#[test]
fn a_setting_without_a_valid_value_is_refused() {
    for line in [
        "",
        "host-name",
        "host-name a b",
        "name-servers",
        "name-servers ns.example.org",
        "name-servers 10.0.2.1 10.0.2.2 10.0.2.3 10.0.2.4",
        "search-domains a;b",
        "search-domains a b c d e f g",
        "time-servers a/b",
        "cluster-join",
        "control-plane",
        "control-plane node",
        "control-plane kind:%20ClusterConfiguration%0a",
        "cluster-join server=https://a",
        "cluster-join /etc/kubernetes/kubelet.conf",
        "credential-provider",
        "credential-provider ecr",
        "credential-provider ../a cache=12h api=v1 images=a",
        "kernel-module kvm",
        "kernel-module kvm loaded",
        "system-image docker.io/library/busybox:1",
        "system-image busybox kept",
        "kernel-module ../kvm built-in",
        "kernel-parameter vm.swappiness",
        "kernel-parameter ../x 1",
        "colour red",
        "motd",
        "motd a b",
        "motd %1b[2J",
        "address eth0 192.0.2.7",
        "address eth0 192.0.2.7 33",
        "address eth0 192.0.2.7 24 25",
        "address lo 192.0.2.7 24",
        "address eth0 127.0.0.1 8",
        "route default 512 via 192.0.2.1 on eth0",
        "route 0.0.0.0/0 0 via 192.0.2.1 on eth0",
        "route 0.0.0.0/0 4294967296 via 192.0.2.1 on eth0",
        "route 0.0.0.0/0 512 via 2001:db8::1 on eth0",
        "route 0.0.0.0/0 512 via 224.0.0.1 on eth0",
        "route 0.0.0.0/0 512 via 192.0.2.1",
        "link eth0 mtu 575",
        "link eth0 mtu 65536",
        "link eth0 dhcp",
        "link eth0 state off",
        "link eth0 speed 10",
        "mount /run/mnt/a",
        "mount /run/mnt/a tmpfs",
        "mount /run/mnt/a tmpfs tmpfs ro exec",
        "mount /run/mnt/a tmpfs tmpfs suid",
        "mount /run/mnt/a tmpfs tmpfs dev",
        "mount /run/mnt/../a tmpfs tmpfs",
        "mount run/mnt/a tmpfs tmpfs",
        "mount /run/mnt/a proc proc",
        "mount /run/mnt/a bind /srv size=1m",
        "registry-credential docker.io",
        "registry-credential docker.io/library token=a",
        "registry-credential docker.io token=a plain-http",
        "registry-mirror docker.io",
        "registry-mirror _default mirror=https://a",
        "registry-mirror ../a mirror=https://a",
        "registry-mirror docker.io mirror=http://a",
        "registry-mirror docker.io mirror=https://u:p@a",
        "registry-mirror docker.io mirror=https://a push=https://b",
        "registry-mirror docker.io mirror=https://a ca=/etc/ca.crt",
    ] {
        assert!(Setting::parse(line).is_err(), "{line}");
    }
}

#[test]
fn a_name_of_no_setting_is_refused() {
    for line in [
        "",
        "host-name a",
        "kernel-module",
        "kernel-module kvm built-in",
        "kernel-parameter",
        "kernel-parameter a.b 1",
        "colour",
        "motd a",
        "address eth0",
        "link eth0",
        "link eth0 mtu 1400",
        "route 0.0.0.0/0",
        "nat",
        "nat lan masquerade",
        "firewall-rule",
        "firewall-rule api accept",
        "mount",
        "mount /",
        "mount /run/mnt/a tmpfs",
        "registry-credential",
        "registry-credential docker.io token=a",
        "registry-mirror",
        "registry-mirror /",
        "registry-mirror docker.io server=https://c",
    ] {
        assert!(SettingName::parse(line).is_err(), "{line}");
    }
}

#[test]
fn a_secret_is_in_the_line_alone() {
    let line = "registry-credential a user=b password=aHVudGVyMg==";
    let setting = Setting::parse(line).unwrap();
    assert_eq!(setting.line(), line);
    assert_eq!(setting.to_string(), "registry-credential a user=b password=(hidden)");
    assert_eq!(setting.shown(), "user=b password=(hidden)");
    assert!(!format!("{setting:?}").contains("unter2"));
    for line in ["registry-tokens hunter2", "registry-credential a hunter2"] {
        assert!(!Setting::parse(line).unwrap_err().reason.contains("hunter2"), "{line}");
    }
}

#[test]
fn a_setting_of_proxies_and_authorities_without_a_valid_value_is_refused() {
    for line in [
        "proxy",
        "proxy no-proxy=a",
        "proxy http=http://u:p@a:1",
        "proxy http=socks5://a:1",
        "proxy http=http://a:1 no-proxy=*",
        "trusted-root corporate",
        "trusted-root corporate /etc/ca.crt",
        "trusted-root ../a MIIB",
    ] {
        assert!(Setting::parse(line).is_err(), "{line}");
    }
    for line in ["proxy http=http://a:1", "trusted-root", "trusted-root a MIIB"] {
        assert!(SettingName::parse(line).is_err(), "{line}");
    }
}

#[test]
fn swap_without_a_size_or_with_a_name_is_refused() {
    for line in ["swap", "swap pods", "swap size=0", "swap a size=1Mi", "swap size=/dev/vda"] {
        assert!(Setting::parse(line).is_err(), "{line}");
    }
    for line in ["swap size=1Mi", "swap a"] {
        assert!(SettingName::parse(line).is_err(), "{line}");
    }
}

#[test]
fn a_volume_without_one_disk_is_refused() {
    for line in [
        "volume db",
        "volume db /dev/sdb",
        "volume db device=sdb",
        "volume db serial=a wwid=b",
        "volume ../db serial=a",
    ] {
        assert!(Setting::parse(line).is_err(), "{line}");
    }
    for line in ["volume", "volume ..", "volume db serial=a"] {
        assert!(SettingName::parse(line).is_err(), "{line}");
    }
}

#[test]
fn a_setting_of_the_kubelet_without_a_valid_value_is_refused() {
    for line in [
        "kubelet-config maxPods",
        "kubelet-config maxPods 50 60",
        "kubelet-config evictionHard 10%",
        "kubelet-config readOnlyPort 10255",
        "node-label rack",
        "node-label rack a b",
        "node-label kubernetes.io/a b",
        "node-taint a",
        "node-taint a:NoSchedule",
        "node-taint a:noschedule -",
    ] {
        assert!(Setting::parse(line).is_err(), "{line}");
    }
    for line in [
        "kubelet-config",
        "kubelet-config readOnlyPort",
        "node-label",
        "node-label rack 7",
        "node-taint a",
    ] {
        assert!(SettingName::parse(line).is_err(), "{line}");
    }
}

proptest! {
    #[test]
    fn what_is_read_from_any_line_is_written_and_read_again(line in
        "(host-name|name-servers|search-domains|time-servers|motd|kernel-parameter|\\PC{0,6}) \
         ([ -~]{0,12}|[0-9a-f.: \\[\\]]{0,24}|vm\\.swappiness [0-9 ]{0,9})|\
         address eth0 [0-9a-f.:]{3,9} [0-9]{0,3}|\
         link [a-z0-9.]{0,16} (mtu|dhcp|state) [a-z0-9]{0,5}|\
         link [a-z]{0,4} made (vlan|bridge|bond)\
         ( (id|parent|protocol|ports|stp|mode|miimon|primary|xmit-hash-policy|lacp-rate)\
         =([0-9]{0,4}|eth0|a,b|on|fast|layer2\\+3|802\\.(1Q|1ad|3ad)|active-backup)){0,4}|\
         route ([0-9.]{7}|[0-9a-f:]{0,9})/[0-9]{0,3} [0-9]{0,3} (table [0-9]{1,3} )?\
         (via [0-9a-f.:]{3,9} )?on eth0|\
         routing-rule ipv[46] 2[0-9]{3} table=[0-9]{1,3}( (from|to|iif|oif|fwmark)\
         =([0-9a-f.:]{3,9}/[0-9]{1,3}|lo|eth0|0x[0-9a-f]{0,3}(/[0-9]{1,3})?)){0,3}|\
         nat [a-z]{1,3} (masquerade|source|destination)\
         ( (link|sources|protocol|address|port|to|to-port)\
         =([0-9]{0,5}|tcp|udp|[0-9.]{7}(/8)?|[0-9a-f:]{3,9}|eth[0*])){0,5}|\
         firewall-rule [a-z-]{0,3} (accept|drop)\
         ( (priority|protocol|ports|sources|links)\
         =([0-9,-]{0,9}|tcp|icmp(v6)?|[0-9a-f.:]{3,9}/[0-9]{1,3}|[a-z*,]{0,5})){0,4}|\
         kernel-module [a-z_./-]{0,3} (built-in|[a-z]{0,3})|\
         system-image [a-z.:]{1,4}/[a-z./]{1,3}:[a-z]{0,2} (kept|[a-z]{0,3})|\
         kubelet-config (maxPods|evictionHard\\.(memory|nodefs)\\.available) [0-9%Mi]{0,4}|\
         node-label [a-z./]{0,6} [a-z.-]{0,3}|\
         node-taint [a-z./]{0,4}:(NoSchedule|NoExecute|[a-z]{0,2}) [a-z.-]{0,3}|\
         mount (/[a-z.]{0,3}){0,3} (tmpfs|bind) [/a-z]{0,4}\
         ( (ro|exec|size=[0-9]{0,3}[kmg]|,){0,4})?|\
         registry-mirror [a-z.:0-9_/]{0,6}( (mirror|pull|server)=https://[a-z0-9.:/\\[\\]]{0,6}\
         | ca=(MI[A-D]{2}|,){0,3}){0,3}|\
         proxy( https?=https?://[a-z0-9.:\\[\\]@]{0,6}| no-proxy=[a-z0-9.:/,]{0,9}){0,3}|\
         static-pod [a-z./-]{0,3}( (host-(pid|network|ipc)|grace=[0-9]{0,3}))?( (init-)?\
         container=[a-z-]{1,2} image=[a-z:]{1,3}( (arg=[ -~]{0,3}|user=[0-9]{1,2}|privileged))?\
         ){0,2}|\
         trusted-root [a-z./-]{0,3} (MI[A-D]{2}|,){0,3}|\
         volume [a-z./-]{0,3} (serial|wwid)=[ -~]{0,6}"
    ) {
        if let Ok(setting) = Setting::parse(&line) {
            prop_assert_eq!(Setting::parse(&setting.to_string()), Ok(setting));
        }
    }
}

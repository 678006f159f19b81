use super::*;
use proptest::prelude::*;

const WHOLE: &str = include_str!("../example.toml");

#[test]
fn every_key_of_the_example_is_read() {
    let document = Document::parse(WHOLE).unwrap();
    assert!(document.api.clone().unwrap().clients.as_str().contains("BEGIN CERTIFICATE"));
    let cluster = document.cluster.clone().unwrap();
    assert_eq!(cluster.server().as_str(), "https://api.example.org:6443");
    assert!(cluster.authority().to_pem().contains("BEGIN CERTIFICATE"));
    assert_eq!(cluster.token().unwrap().reveal(), "abcdef.0123456789abcdef");
    assert_eq!(cluster.dns(), ["10.96.0.10".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(cluster.domain().as_str(), "cluster.local");
    let kubelet = document.kubelet;
    assert_eq!(kubelet.node_ip.unwrap().to_string(), "192.0.2.7,2001:db8::7");
    assert_eq!(kubelet.labels.iter().count(), 2);
    assert_eq!(kubelet.taints[0].0.to_string(), "dedicated=database:NoSchedule");
    assert_eq!(kubelet.cloud_provider, Some(CloudProvider::External));
    assert_eq!(kubelet.provider_id.as_deref(), Some("example://zone-a/7"));
    assert_eq!(
        kubelet.credential_providers.unwrap().folder.as_str(),
        "/opt/credential-providers/bin"
    );
}

/// The settings of the example.
const SETTINGS: &[&str] = &[
    "host-name edge-7.example.org",
    "name-servers 192.0.2.53 2001:db8::53",
    "search-domains example.org",
    "time-servers time.example 192.0.2.4:123",
    "motd Rack%207%2c%20unit%2012%0aAsk%20ops@example.org",
    "cluster-join server=https://api.example.org:6443 \
                 ca=MIIBPzCB5aADAgECAhRSDBbwpVU5aIbDth+ScQpRXOdtLjAKBggqhkjOPQQDAjAV\
                 MRMwEQYDVQQDDApFeGFtcGxlIENBMB4XDTI2MTEyNzA3MTgyMVoXDTM2MTEyNDA3\
                 MTgyMVowFTETMBEGA1UEAwwKRXhhbXBsZSBDQTBZMBMGByqGSM49AgEGCCqGSM49\
                 AwEHA0IABNx44feKM85B79t58GY0dzILYuEMeyut7YHWYvA/kKs7jg4GAr8rMCGh\
                 aV5V+USWVQCQyF5B8HuQK7HD4qU39NajEzARMA8GA1UdEwEB/wQFMAMBAf8wCgYI\
                 KoZIzj0EAwIDSQAwRgIhAO1aaZMsID35mjkAN+kOOakPhiHR94RE1CMSf92+sAxu\
                 AiEAtF4beZBZoraCQQg4LL/egh5kP9mN6tme3+fpObjz+rI= \
                 token=(hidden) dns=10.96.0.10",
    "control-plane apiVersion:%20kubeadm.k8s.io/v1beta4%0akind:%20ClusterConfiguration%0a",
    "kernel-module dm_crypt built-in",
    "kernel-parameter net.ipv4.tcp_rmem 4096 131072 16777216",
    "kernel-parameter vm.swappiness 10",
    "link eth0 mtu 1400",
    "link eth0 dhcp off",
    "link eth5 state down",
    "link storage made vlan id=5 parent=eth0",
    "link br0 made bridge ports=eth1,eth2 stp=on",
    "link bond0 made bond mode=802.3ad ports=eth3,eth4 lacp-rate=fast \
                 xmit-hash-policy=layer3+4",
    "link wg0 made wireguard private-key=(hidden) listen-port=51820 fwmark=0x200 \
                 peers=lhDEwrWVBtIhCuAXH12bvf7hxyC7MyJEwCQ+K0n/shY=,preshared-key=(hidden),\
                 endpoint=198.51.100.9:51820,keepalive=25,allowed=10.7.0.0/24,\
                 allowed=2001:db8:7::/64",
    "address eth0 192.0.2.7 24",
    "address eth0 2001:db8::7 64",
    "route 0.0.0.0/0 512 via 192.0.2.1 on eth0",
    "route 198.51.100.0/24 100 on eth0",
    "route 0.0.0.0/0 512 table 100 via 198.51.100.1 on storage",
    "routing-rule ipv4 2000 table=100 from=198.51.100.7/32",
    "routing-rule ipv6 2000 table=100 iif=storage fwmark=0x100/0xff00",
    "firewall-rule api accept protocol=tcp ports=10250,50000 \
                 sources=192.0.2.0/24,2001:db8::/32",
    "firewall-rule pods accept priority=500 links=cni0",
    "firewall-rule rest drop",
    "nat lan masquerade link=eth0 sources=10.8.0.0/24,fd00:8::/64",
    "nat camera destination link=eth0 protocol=tcp port=8080 to=10.8.0.5 to-port=80",
    "mount /run/mnt/scratch tmpfs scratch size=256m",
    "volume db serial=vol0123456789abcdef0",
    "volume models folder",
    "swap size=50% memory-limit=25% pods",
    "proxy http=http://web-proxy.example.org:3128 \
                 https=http://web-proxy.example.org:3128 no-proxy=.example.org,198.51.100.0/24",
    "trusted-root corporate \
                 MIIBdjCCAR2gAwIBAgIBADAKBggqhkjOPQQDAjAjMSEwHwYDVQQDDBhrM3Mtc2Vy",
    "registry-mirror docker.io mirror=https://mirror.example.org:5000 \
                 pull=https://public.example.com",
    "registry-credential mirror.example.org:5000 user=node-7 password=(hidden)",
    "seccomp-profile no-mounts default=ALLOW calls=ERRNO/1:mount,umount2",
    "credential-provider ecr-credential-provider cache=12h api=v1 \
                 images=*.dkr.ecr.*.amazonaws.com arg=get-credentials env=AWS_PROFILE=pulls",
    "system-image docker.io/library/nginx:1.29 kept",
    "static-pod web volume=cache:memory:16Mi volume=run:memory:1Mi container=web \
                 image=docker.io/library/nginx:1.29 arg=nginx arg=-g arg=daemon%20off; \
                 env=TZ=UTC limit-memory=64Mi port=80/TCP mount=cache:rw:/var/cache/nginx \
                 mount=run:rw:/run capability=CHOWN capability=NET_BIND_SERVICE \
                 capability=SETGID capability=SETUID liveness=0:30:0:0:http:80:/",
    "kubelet-config evictionHard.memory.available 200Mi",
    "kubelet-config maxPods 50",
    "kubelet-config serializeImagePulls true",
    "node-label example.org/rack 7",
    "node-label topology.kubernetes.io/zone zone-a",
    "node-taint dedicated:NoSchedule database",
];

#[test]
fn every_setting_of_the_example_is_read() {
    let document = Document::parse(WHOLE).unwrap();
    let settings: Vec<String> = document.settings().iter().map(Setting::to_string).collect();
    assert_eq!(settings, SETTINGS);
}

#[test]
fn an_empty_document_changes_nothing() {
    assert_eq!(Document::parse(""), Ok(Document::default()));
}

#[test]
fn a_document_that_closes_the_node_api_to_everybody_has_a_warning() {
    let rest = "[[firewall-rules]]\nname = \"rest\"\naction = \"drop\"\n";
    let warnings = |text: &str| Document::parse(text).unwrap().warnings();
    let expected =
        "the firewall rule `rest` closes port 50000, the node API, to everybody on the network";
    assert_eq!(warnings(rest), [expected]);
    assert_eq!(warnings(""), [""; 0]);
}

#[test]
fn a_control_plane_that_its_kubelet_does_not_join_has_a_warning() {
    let expected =
        "with `[cluster]`, the kubelet joins that cluster and not the one of `[control-plane]`";
    assert_eq!(Document::parse(WHOLE).unwrap().warnings(), [expected]);
}

#[test]
fn a_refusal_names_the_line_and_the_known_keys() {
    for (text, line, reason) in [
        (
            "[kubelet]\nlabel = {}\n",
            2,
            "unknown field `label`, expected one of `node-ip`, `labels`, `taints`, \
                 `cloud-provider`, `provider-id`, `credential-providers`, `config`",
        ),
        ("[cluster]\n", 1, "missing field `server`"),
        ("\n[kublet]\n", 2, "unknown field `kublet`, expected one of `hostname`"),
        ("[kubelet]\nnode-ip = [\"10.0.0\"]\n", 2, "`10.0.0` is not an IP address"),
        ("[kubelet]\n\ntaints = [\"a\"]\n", 3, "`a` is not a taint"),
        ("[kubelet]\ncloud-provider = \"aws\"\n", 2, "unknown variant `aws`"),
        ("[kubelet\n", 1, ""),
        ("hostname = \"a b\"\n", 1, "`a b` is not a host name"),
        ("time-servers = []\n", 1, "there are 1 to 8 time servers"),
        ("\n[resolver]\nnameserver = [\"a\"]\n", 3, "`a` is not an IP address"),
        ("[kernel-parameters]\n\"../x\" = 1\n", 2, "is not the name of a kernel parameter"),
        ("[kernel-parameters]\n\"vm.swappiness\" = 1.5\n", 2, "a text or an integer"),
        ("[[links]]\nlink = \"lo\"\nmtu = 1400\n", 1, "`lo` is not the name of a link"),
        ("[[links]]\nlink = \"eth0\"\nmtu = 100\n", 1, "an MTU is 576 to 65535 bytes"),
        (
            "[[addresses]]\nlink = \"eth0\"\naddress = \"192.0.2.0/24\"\n",
            1,
            "a machine cannot have the address `192.0.2.0/24`",
        ),
        (
            "addresses = [{ link = \"eth0\", address = \"192.0.2.7/24\" }, \
                 { link = \"eth0\", address = \"192.0.2.7/16\" }]\n",
            1,
            "`address eth0 192.0.2.7` is set twice",
        ),
        (
            "[[routes]]\ndestination = \"::/0\"\nlink = \"eth0\"\ngateway = \"192.0.2.1\"\n",
            1,
            "`192.0.2.1` cannot be the gateway to `::/0`",
        ),
        (
            "[[mounts]]\ntarget = \"/run/mnt/a\"\ntype = \"tmpfs\"\nsource = \"a\"\n\
                 options = [\"suid\"]\n",
            1,
            "a mount cannot have the option `suid`",
        ),
        (
            "mounts = [{ target = \"/run/mnt/a\", type = \"tmpfs\", source = \"a\" }, \
                 { target = \"/run/mnt/a/b\", type = \"tmpfs\", source = \"a\" }]\n",
            1,
            "`/run/mnt/a/b` overlaps with the mount at `/run/mnt/a`",
        ),
        ("[[registry-mirrors]]\nregistry = \"a\"\n", 1, "neither a mirror nor a server"),
        (
            "[[registry-mirrors]]\nregistry = \"a\"\nserver = \"http://b\"\n",
            1,
            "`http://b` is not the URL of a mirror",
        ),
        (
            "registry-mirrors = [{ registry = \"a\", server = \"https://b\" }, \
                 { registry = \"a\", server = \"https://c\" }]\n",
            1,
            "the registry `a` is there twice",
        ),
        ("[[routes]]\nto = \"::/0\"\n", 2, "unknown field `to`"),
    ] {
        let refusal = Document::parse(text).unwrap_err();
        assert_eq!(refusal.line, line, "{text}: {refusal}");
        assert!(refusal.reason.contains(reason), "{text}: {refusal}");
        assert!(!refusal.reason.contains('\n'), "{refusal}");
    }
}

#[test]
fn a_message_modules_and_images_that_no_node_can_have_are_refused_at_their_lines() {
    for (text, line, reason) in [
        ("\n[motd]\ntext = \"\"\"\na\n\\u001b[2J\"\"\"\n", 3, "line 2 of the message"),
        ("[motd]\n", 1, "missing field `text`"),
        ("[[kernel-modules]]\nname = \"a.ko\"\n", 1, "`a.ko` is not the name of a kernel"),
        ("[[system-images]]\nimage = \"busybox\"\n", 1, "`busybox` lacks its registry"),
        (
            "system-images = [{ image = \"a.b/c:1\" }, { image = \"a.b/c:1\" }]\n",
            1,
            "the image `a.b/c:1` is there twice",
        ),
        (
            "kernel-modules = [{ name = \"a-b\" }, { name = \"a_b\" }]\n",
            1,
            "the kernel module `a_b` is there twice",
        ),
    ] {
        let refusal = Document::parse(text).unwrap_err();
        assert_eq!(refusal.line, line, "{text}: {refusal}");
        assert!(refusal.reason.contains(reason), "{text}: {refusal}");
    }
}

#[test]
fn a_proxy_that_no_node_can_have_is_refused_at_its_line() {
    for (text, reason) in [
        ("no-proxy = [\"a\"]\n", "there is a proxy for `http`, for `https`"),
        ("http = \"http://u:p@a:1\"\n", "cannot have a user and a password"),
        ("https = \"a:1\"\n", "`a:1` is not the URL of a proxy"),
    ] {
        let refusal = Document::parse(&format!("\n[proxy]\n{text}")).unwrap_err();
        assert_eq!(refusal.line, 2, "{text}: {refusal}");
        assert!(refusal.reason.contains(reason), "{text}: {refusal}");
    }
}

#[test]
fn credentials_that_no_node_can_have_are_refused_without_showing_them() {
    for (text, reason) in [
        ("username = \"a\"\n", "or `token` alone"),
        ("password = \"hunter2\"\n", "or `token` alone"),
        ("username = \"a\"\npassword = \"hunter2\"\ntoken = \"b\"\n", "or `token` alone"),
        ("token = \"hunter2 \"\n", "a token for `a` has"),
        ("username = \"a:b\"\npassword = \"hunter2\"\n", "a user of `a` has a name"),
        ("username = \"a\"\npassword = [\"hunter2\"]\n", "a secret is a text"),
        ("username = \"a\"\npassword = 72\n", "a secret is a text"),
        ("token = \"hunter2\"\nplain-http = true\n", "is not on the loopback"),
        ("username = \"a\"\npasword = \"hunter2\"\n", "unknown field `pasword`"),
        (
            "token = \"b\"\n[[registry-credentials]]\nregistry = \"a\"\ntoken = \"hunter2\"\n",
            "the credentials of `a` are there twice",
        ),
    ] {
        let text = format!("[[registry-credentials]]\nregistry = \"a\"\n{text}");
        let refusal = Document::parse(&text).unwrap_err();
        assert!(refusal.reason.contains(reason), "{text}: {refusal}");
        let mistakes: Vec<_> = Document::mistakes(&text);
        assert!(!mistakes.is_empty(), "{text}");
        let shown = format!("{refusal} {mistakes:?}");
        assert!(!shown.contains("unter2") && !shown.contains("72"), "{shown}");
    }
    let text = "registry-credentials = [{ registry = \"a\", token = \"hunter2\" }]";
    let document = Document::parse(text).unwrap();
    assert!(!format!("{document:?}").contains("hunter2"));
}

#[test]
fn links_that_cannot_be_made_are_refused() {
    for (text, line, reason) in [
        (
            "[[links]]\nlink = \"eth0\"\n",
            1,
            "`eth0` has none of `mtu`, `dhcp`, `state`, `vlan`, `bridge`, `bond` and `wireguard`",
        ),
        (
            "links = [{ link = \"a\", vlan = { id = 5, parent = \"b\" } }, \
                 { link = \"b\", vlan = { id = 5, parent = \"a\" } }]\n",
            1,
            "`a` and `b` cannot carry each other",
        ),
        (
            "[[links]]\nlink = \"a\"\nvlan = { id = 5, parent = \"b\" }\nbridge = {}\n",
            1,
            "`a` cannot be both a vlan and a bridge",
        ),
        (
            "links = [{ link = \"a\", bridge = { ports = [\"eth1\"] } }, \
                 { link = \"b\", bridge = { ports = [\"eth1\"] } }]\n",
            1,
            "`eth1` cannot be a port of both `a` and `b`",
        ),
        (
            "links = [{ link = \"a\", \
                 bond = { mode = \"active-backup\", lacp-rate = \"fast\" } }]\n",
            1,
            "a bond of the mode `active-backup` has no LACP rate",
        ),
        ("[[links]]\nlink = \"a\"\nvlan = { id = 5 }\n", 3, "missing field `parent`"),
        ("[[links]]\nlink = \"a\"\nstate = \"off\"\n", 1, "the state of a link is `up` or `down`"),
    ] {
        let refusal = Document::parse(text).unwrap_err();
        assert_eq!(refusal.line, line, "{text}: {refusal}");
        assert!(refusal.reason.contains(reason), "{text}: {refusal}");
    }
}

#[test]
fn a_firewall_that_contradicts_itself_is_refused() {
    for (text, reason) in [
        ("name = \"a\"\naction = \"deny\"\n", "is `accept` or `drop`"),
        ("name = \"a\"\naction = \"drop\"\nports = [80]\n", "ports need a protocol"),
        ("name = \"a\"\naction = \"drop\"\nports = [true]\n", "a number or `FIRST-LAST`"),
        ("name = \"a\"\naction = \"drop\"\npriority = 0\n", "is 1 to 65535"),
        ("name = \"a\"\naction = \"drop\"\nsources = [\"10.0.0.1/8\"]\n", "`10.0.0.0/8`?"),
        (
            "name = \"a\"\naction = \"drop\"\n[[firewall-rules]]\nname = \"b\"\n\
                 action = \"accept\"\n",
            "`a` and `b` are both about all other packets",
        ),
        (
            "name = \"a\"\naction = \"drop\"\n[[firewall-rules]]\nname = \"a\"\n\
                 action = \"accept\"\n",
            "`firewall-rule a` is set twice",
        ),
    ] {
        let refusal = Document::parse(&format!("[[firewall-rules]]\n{text}")).unwrap_err();
        assert!(refusal.reason.contains(reason), "{text}: {refusal}");
    }
}

#[test]
fn a_nat_rule_that_leads_nowhere_or_to_two_places_is_refused() {
    let web = "name = \"a\"\naction = \"destination\"\nprotocol = \"tcp\"\nport = 80\n\
               to = \"10.8.0.5\"\n";
    assert!(Document::parse(&format!("[[nat]]\n{web}")).is_ok());
    let other = web.replace("\"a\"", "\"b\"");
    for (text, reason) in [
        (web.replace("80", "0"), "`port` of `destination` is 1 to 65535"),
        (web.replace("80", "50000"), "port 50000 is that of the node API"),
        (web.replace("80", "10250"), "port 10250 is that of the kubelet"),
        (format!("{web}to-port = 0\n"), "`to-port` of a NAT rule is 1 to 65535"),
        (format!("{web}address = \"fd00::1\"\n"), "IPv4 and IPv6"),
        (format!("{web}[[nat]]\n{other}"), "`a` and `b` both forward the port 80 of `tcp`"),
        (format!("{web}[[nat]]\n{web}"), "`nat a` is set twice"),
    ] {
        let refusal = Document::parse(&format!("[[nat]]\n{text}")).unwrap_err();
        assert!(refusal.reason.contains(reason), "{text}: {refusal}");
    }
}

#[test]
fn a_routing_rule_of_another_program_is_refused() {
    let rule = "[[routing-rules]]\nfamily = \"ipv4\"\npriority = 2000\ntable = 100\n";
    assert!(Document::parse(rule).is_ok());
    for (from, to, reason) in [
        ("priority = 2000", "priority = 99", "is 2000 to 32765"),
        ("table = 100", "table = 255", "the node's own addresses"),
        ("\"ipv4\"", "\"ip\"", "is `ipv4` or `ipv6`"),
        ("family = \"ipv4\"\n", "", "is missing: `ipv4` or `ipv6`"),
        ("table", "to = \"::/0\"\ntable", "no packet of `ipv4` has an address of `::/0`"),
        ("table", "fwmark = \"a\"\ntable", "`a` is not a mark of packets"),
        ("table", "mark = \"1\"\ntable", "unknown field `mark`"),
        ("[[routing", &format!("{rule}[[routing"), "`routing-rule ipv4 2000` is set twice"),
    ] {
        let refusal = Document::parse(&rule.replacen(from, to, 1)).unwrap_err();
        assert!(refusal.reason.contains(reason), "{to}: {refusal}");
    }
}

#[test]
fn a_tunnel_that_cannot_be_is_refused_without_its_keys() {
    let key = "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=";
    let peer = "lhDEwrWVBtIhCuAXH12bvf7hxyC7MyJEwCQ+K0n/shY=";
    let text = format!(
        "[[links]]\nlink = \"wg0\"\n[links.wireguard]\nprivate-key = \"{key}\"\n\
             [[links.wireguard.peers]]\npublic-key = \"{peer}\"\n"
    );
    assert!(Document::parse(&text).is_ok());
    let short = &key[..30];
    for (from, to, reason) in [
        (key, short, "the private key of a WireGuard link is 32 bytes in base64"),
        (peer, "a", "`a` is not a public key"),
        ("public-key", "key", "unknown field `key`"),
        ("private-key", "key", "unknown field `key`"),
        ("public-key", "endpoint = \"vpn.example:1\"\npublic-key", "not the endpoint"),
        ("public-key", "allowed-ips = [\"10.0.0.1/8\"]\npublic-key", "`10.0.0.0/8`?"),
        ("public-key", &format!("preshared-key = \"{short}\"\npublic-key"), "preshared key"),
        ("[links.w", "dhcp = true\n[links.w", "a link of WireGuard, which has no DHCP"),
        ("[links.w", "bridge = {}\n[links.w", "cannot be both a bridge and a wireguard"),
    ] {
        let refusal = Document::parse(&text.replacen(from, to, 1)).unwrap_err();
        assert!(refusal.reason.contains(reason), "{to}: {refusal}");
        assert!(!refusal.reason.contains(short), "{refusal}");
    }
}

#[test]
fn volumes_have_each_name_and_each_disk_once() {
    let entry =
        |name: &str, disk: &str| format!("[[volumes]]\nname = \"{name}\"\ndisk = {{ {disk} }}\n");
    for (text, reason) in [
        (entry("a", "serial = \"x\"") + &entry("a", "serial = \"y\""), "the volume `a` is there"),
        (entry("a", "serial = \"x\"") + &entry("b", "serial = \"x\""), "the disk with the serial"),
        (entry("A", "serial = \"x\""), "`A` is not the name of a volume"),
        (entry("a", ""), "a disk is named by its `serial` or by its `wwid`"),
        (entry("a", "serial = \"x\", wwid = \"y\""), "a disk is named by its"),
        (entry("a", "serial = \" x\""), "the identifier of a disk has"),
        (entry("a", "device = \"sdb\""), "unknown field `device`"),
        ("[[volumes]]\nname = \"a\"\n".to_owned(), "a volume has either a `disk` or a `folder`"),
        (entry("a", "serial = \"x\"") + "folder = true\n", "a volume has either a `disk` or"),
    ] {
        let refusal = Document::parse(&text).unwrap_err();
        assert!(refusal.reason.contains(reason), "{text}: {refusal}");
    }
    let folders = ["c", "d"].map(|name| format!("[[volumes]]\nname = \"{name}\"\nfolder = true\n"));
    let all = entry("a", "serial = \"x\"") + &entry("b", "wwid = \"x\"") + &folders.concat();
    assert_eq!(Document::parse(&all).unwrap().volumes.len(), 4);
}

#[test]
fn authorities_have_each_name_once() {
    let entry = |name: &str, base64: &str| {
        format!(
            "[[trusted-roots]]\nname = \"{name}\"\ncertificates = \"\"\"\n\
                 -----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n\"\"\"\n"
        )
    };
    for (text, reason) in [
        (entry("a", "MIIB") + &entry("a", "MIIC"), "the authorities `a` are there twice"),
        (entry("A", "MIIB"), "`A` is not the name of authorities"),
        (entry("a", "AAAA"), "a certificate is not base64 of DER"),
        ("[[trusted-roots]]\nname = \"a\"\n".to_owned(), "missing field `certificates`"),
    ] {
        let refusal = Document::parse(&text).unwrap_err();
        assert!(refusal.reason.contains(reason), "{text}: {refusal}");
    }
    assert!(Document::parse(&(entry("a", "MIIB") + &entry("b", "MIIC"))).is_ok());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_at_a_line_of_it(text in "\\PC*|(?s).{0,200}") {
        if let Err(refusal) = Document::parse(&text) {
            prop_assert!((1..=text.matches('\n').count() + 1).contains(&refusal.line));
        }
    }
}

#[test]
fn a_list_with_more_entries_than_init_holds_is_refused() {
    let many = |count: usize, entry: &dyn Fn(usize) -> String| -> String {
        (0..count).map(entry).collect()
    };
    let rule = |n| {
        let port = 100 + n;
        let rule = format!("name = \"r{n}\"\naction = \"drop\"\nprotocol = \"tcp\"\n");
        format!("[[firewall-rules]]\n{rule}ports = [{port}]\n")
    };
    let volume = |n| format!("[[volumes]]\nname = \"v{n}\"\nfolder = true\n");
    let parameter = |n| format!("\"net.a{n}.b\" = 1\n");
    let label = |n| format!("\"example.org/l{n}\" = \"a\"\n");
    let taint = |n| format!("\"k{n}:NoSchedule\", ");
    let parameters = |count| format!("[kernel-parameters]\n{}", many(count, &parameter));
    let labels = |count| format!("[kubelet.labels]\n{}", many(count, &label));
    let taints = |count| format!("[kubelet]\ntaints = [{}]\n", many(count, &taint));
    let is_bounded = |text: &dyn Fn(usize) -> String, max: usize, reason: &str| {
        assert!(Document::parse(&text(max)).is_ok(), "{:?}", Document::parse(&text(max)));
        assert_eq!(Document::parse(&text(max + 1)).unwrap_err().reason, reason);
    };
    is_bounded(&|count| many(count, &rule), 32, "there are at most 32 of these");
    is_bounded(&|count| many(count, &volume), 8, "there are at most 8 volumes");
    is_bounded(&parameters, 64, "there are at most 64 kernel parameters");
    is_bounded(&labels, 32, "there are at most 32 labels");
    is_bounded(&taints, 16, "there are at most 16 taints");
}

//! The node document: its schema and its messages.

use crate::expect;
use crate::schemas::valid_by;
use osbuild::error::{Error, Kind};
use osbuild::plan::node_document_problems;
use osbuild_document::{Document, SCHEMA};
use serde_json::Value;

const EXAMPLE: &str = include_str!("../../../components/shared/document/example.toml");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// Asserts that the schema and the node agree about these documents.
#[track_caller]
fn all_are(expected: bool, texts: &[&str]) {
    let pairs: Vec<(Value, &str)> = texts.iter().map(|text| (schema(), *text)).collect();
    for (text, valid) in texts.iter().zip(valid_by(&pairs)) {
        assert_eq!(Document::parse(text).is_ok(), expected, "the node: {text}");
        assert_eq!(valid, expected, "the schema: {text}");
    }
}

#[test]
fn the_schema_accepts_what_a_node_accepts() {
    all_are(
        true,
        &[
            "",
            EXAMPLE,
            "hostname = \"Edge-7\"\n",
            "[kernel-parameters]\n\"net.ipv4.conf.eth0-1.forwarding\" = 1\n",
            "[kubelet]\ntaints = [\"a:NoSchedule\", \"a.b/c=:NoExecute\"]\nlabels = { a = \"\" }\n",
            "[cluster]\nserver = \"https://[fd00::1]:6443\"\ncertificate-authority = \
             \"-----BEGIN CERTIFICATE-----\\nMIIB\\n-----END CERTIFICATE-----\"\n",
        ],
    );
}

#[test]
fn the_schema_refuses_what_a_node_refuses() {
    let changes = [
        ("hostname = \"edge-7.example.org\"", "hostname = \"edge_7\""),
        ("hostname = ", "hostnam = "),
        ("time-servers = [\"time.example\", \"192.0.2.4:123\"]", "time-servers = []"),
        ("Rack 7, unit 12", "Rack 7\\u001b[2J"),
        ("Rack 7, unit 12", "für"),
        (
            "Rack 7, unit 12",
            "0123456789012345678901234567890123456789012345678901234567890123456789",
        ),
        ("Rack 7, unit 12", "\\n\\n1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n10"),
        ("nameserver = [", "nameserver = [\"dns.example\", "),
        ("search = [\"example.org\"]", "search = \"example.org\""),
        ("\"vm.swappiness\" = 10", "\"vm/swappiness\" = 10"),
        ("\"vm.swappiness\" = 10", "\"vm.swappiness\" = 1.5"),
        ("name = \"dm-crypt\"", "name = \"dm-crypt.ko\""),
        ("clients = ", "client = "),
        ("server = \"https://", "server = \"http://"),
        ("-----END CERTIFICATE", "-----END CERT"),
        ("token = \"abcdef.", "token = \"ABCDEF."),
        ("dns = [\"10.96.0.10\"]", "dns = \"10.96.0.10\""),
        ("domain = \"cluster.local\"", "domain = \"cluster.local.\""),
        ("node-ip = [\"192.0.2.7\", \"2001:db8::7\"]", "node-ip = []"),
        (":NoSchedule\"", ":NoScheduling\""),
        ("mtu = 1400", "mtu = 100"),
        ("mtu = 1400\ndhcp = false\n", ""),
        ("dhcp = false", "dhcp = \"off\""),
        ("id = 5", "id = 4095"),
        ("ports = [\"eth1\", \"eth2\"]", "ports = [\"eth1\", \"eth1\"]"),
        ("mode = \"802.3ad\"", "mode = \"lacp\""),
        ("mode = \"802.3ad\"\n", ""),
        ("miimon = 100", "miimon = 10001"),
        ("lacp-rate = \"fast\"", "lacp-rate = 1"),
        ("xmit-hash-policy", "hash-policy"),
        ("stp = true", "stp = \"on\""),
        ("bridge = {", "vlan = { id = 6, parent = \"eth0\" }\nbridge = {"),
        ("parent = \"eth0\"", "ports = [\"eth0\"]"),
        ("parent = \"eth0\"", "parent = \"eth0\", protocol = \"802.1X\""),
        ("address = \"192.0.2.7/24\"", "address = \"192.0.2.7\""),
        ("destination = \"198.51.100.0/24\"", "destination = \"all\""),
        ("metric = 100", "metrics = 100"),
        ("target = \"/run/mnt/scratch\"", "target = \"/run/../etc\""),
        ("type = \"tmpfs\"", "type = \"proc\""),
        ("type = \"tmpfs\"", "type = \"bind\""),
        ("source = \"scratch\"", "source = \"/dev/sda\""),
        ("size=256m", "suid"),
        ("http = \"http://web-proxy", "http = \"socks5://web-proxy"),
        ("https = \"http://web-proxy", "https = \"http://u:p@web-proxy"),
        ("no-proxy = [\".example.org\"", "no-proxy = [\"*\""),
        ("name = \"corporate\"", "name = \"../corporate\""),
        ("registry = \"docker.io\"", "registry = \"_default\""),
        ("url = \"https://mirror", "url = \"http://mirror"),
        ("[\"pull\"]", "[\"push\"]"),
        ("maxPods = 50", "maxPods = 1"),
        ("maxPods = 50", "readOnlyPort = 50"),
        ("serializeImagePulls = true", "serializeImagePulls = 1"),
        ("{ \"memory.available\" = \"200Mi\" }", "\"200Mi\""),
        ("\"memory.available\" = \"200Mi\"", "\"cpu\" = \"200Mi\""),
        ("\"memory.available\" = \"200Mi\"", "\"memory.available\" = \"200%\""),
        ("cloud-provider = \"external\"", "cloud-provider = \"aws\""),
        ("\"example.org/rack\" = \"7\"", "\"example.org/rack/\" = \"7\""),
        ("\"example.org/rack\" = \"7\"", "\"example.org/rack\" = 7"),
        ("folder = \"/opt", "folder = \"opt"),
        ("folder = ", "folders = "),
    ];
    no_change_is_accepted(&changes);
}

#[test]
fn the_schema_refuses_the_volumes_that_a_node_refuses() {
    no_change_is_accepted(&[
        ("name = \"db\"", "name = \"../db\""),
        ("{ serial = \"vol0123456789abcdef0\" }", "{}"),
        ("{ serial = \"vol", "{ device = \"vol"),
        ("{ serial = \"vol", "{ wwid = \"a\", serial = \"vol"),
        ("{ serial = \"vol", "{ serial = \" vol"),
        ("folder = true\n", ""),
        ("folder = true\n", "folder = false\n"),
        ("folder = true\n", "folder = true\ndisk = { wwid = \"a\" }\n"),
    ]);
}

#[test]
fn the_schema_refuses_the_swap_that_a_node_refuses() {
    no_change_is_accepted(&[
        ("size = \"50%\"", "size = \"0%\""),
        ("size = \"50%\"", "size = \"201%\""),
        ("size = \"50%\"", "size = \"half\""),
        ("size = \"50%\"", "size = 512"),
        ("size = \"50%\"\n", ""),
        ("memory-limit = \"25%\"", "limit = \"25%\""),
        ("pods = true", "pods = \"LimitedSwap\""),
    ]);
}

#[test]
fn the_schema_refuses_the_control_plane_that_a_node_refuses() {
    no_change_is_accepted(&[
        ("kind: ClusterConfiguration", "kind: JoinConfiguration"),
        ("kind: ClusterConfiguration", " kind: ClusterConfiguration"),
        ("kind: ClusterConfiguration", "kind: ClusterConfigurations"),
        ("[control-plane]\n", "[control-plane]\nfile = \"/etc/kubernetes/kubeadm.yaml\"\n"),
    ]);
}

#[test]
fn the_schema_refuses_the_firewall_rules_that_a_node_refuses() {
    no_change_is_accepted(&[
        ("action = \"accept\"", "action = \"allow\""),
        ("protocol = \"tcp\"", "protocol = \"all\""),
        ("protocol = \"tcp\"\n", ""),
        ("ports = [10250, 50000]", "ports = [0]"),
        ("ports = [10250, 50000]", "ports = [\"80:90\"]"),
        ("sources = [\"192.0.2.0/24\"", "sources = [\"192.0.2.1\""),
        ("links = [\"cni0\"]", "links = [\"*\"]"),
        ("priority = 500", "priority = 65536"),
        ("name = \"rest\"", "name = \"The rest\""),
    ]);
}

#[test]
fn the_schema_refuses_the_nat_rules_that_a_node_refuses() {
    no_change_is_accepted(&[
        ("action = \"masquerade\"", "action = \"translate\""),
        ("action = \"masquerade\"", "action = \"source\""),
        ("action = \"masquerade\"", "action = \"destination\""),
        ("action = \"masquerade\"\nlink = \"eth0\"\n", "action = \"masquerade\"\n"),
        ("action = \"masquerade\"", "action = \"masquerade\"\nport = 80"),
        ("action = \"masquerade\"", "action = \"masquerade\"\nto = \"192.0.2.7\""),
        ("port = 8080", "port = 0"),
        ("port = 8080\n", ""),
        ("to = \"10.8.0.5\"\n", ""),
        ("to = \"10.8.0.5\"", "to = \"10.8.0.5:80\""),
        ("to-port = 80", "to-port = 0"),
    ]);
}

#[test]
fn the_schema_refuses_the_credentials_that_a_node_refuses() {
    let password = "password = \"correct horse battery staple\"";
    no_change_is_accepted(&[
        ("username = \"node-7\"", "username = \"node:7\""),
        ("username = \"node-7\"\n", ""),
        ("username = \"node-7\"", "token = \"a\""),
        (password, "password = 7"),
        (password, "password = \"\""),
        (password, "passwords = \"a\""),
        (&format!("username = \"node-7\"\n{password}"), "token = \"a b\""),
    ]);
}

#[test]
fn the_schema_refuses_the_static_pods_that_a_node_refuses() {
    no_change_is_accepted(&[
        ("name = \"web\"", "name = \"Web\""),
        ("name = \"web\"", "name = \"debug-web\""),
        ("name = \"web\"", "name = \"web\"\nnamespace = \"kube-system\""),
        ("name = \"web\"", "name = \"web\"\nhost-ipc = true"),
        ("empty-dir = { medium", "secret = { medium"),
        ("medium = \"Memory\"", "medium = \"memory\""),
        ("size-limit = \"16Mi\"", "size-limit = \"16mb\""),
        ("image = \"docker.io/library/nginx:1.29\"\n", ""),
        ("image = \"docker.io/library/nginx:1.29\"", "image = \"a b\""),
        ("{ name = \"TZ\"", "{ name = \"7TZ\""),
        ("limits = { memory", "limits = { pids"),
        ("memory = \"64Mi\"", "memory = 64"),
        ("container-port = 80", "host-port = 80"),
        ("mount-path = \"/run\"", "mount-path = \"run\""),
        ("mount-path = \"/run\"", "mount-path = \"/a:b\""),
        ("\"CHOWN\"", "\"CAP_CHOWN\""),
        ("\"CHOWN\"", "\"ALL\""),
        ("http-get = { port = 80 }, ", ""),
        ("http-get = { port = 80 }", "http-get = { port = 0 }"),
        ("period-seconds = 30", "period-seconds = 3601"),
    ]);
}

/// Asserts that the schema and the node refuse the example with each of these changes: a part, and
/// the text in its place.
#[track_caller]
fn no_change_is_accepted(changes: &[(&str, &str)]) {
    let texts: Vec<String> = changes
        .iter()
        .map(|(before, after)| {
            assert!(EXAMPLE.contains(before), "{before}");
            EXAMPLE.replacen(before, after, 1)
        })
        .collect();
    all_are(false, &texts.iter().map(String::as_str).collect::<Vec<_>>());
}

/// The keys that the reader knows in the section `path`, from its message about another one.
fn known_keys(path: &[&str]) -> Vec<String> {
    let mut document: toml::Table = EXAMPLE.parse().unwrap();
    let mut section = &mut document;
    for name in path {
        section = section[*name].as_table_mut().unwrap();
    }
    section.insert("no-key-has-this-name".to_owned(), toml::Value::Boolean(true));
    let refusal = Document::parse(&document.to_string()).unwrap_err();
    let (_, known) = refusal.reason.split_once("expected ").expect("an unknown key is refused");
    let mut known: Vec<String> = known.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    known.sort();
    known
}

#[test]
fn the_schema_has_the_keys_of_every_section() {
    fn compare(path: &mut Vec<String>, schema: &Value, compared: &mut usize) {
        let Some(properties) = schema["properties"].as_object() else { return };
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let mut keys: Vec<&String> = properties.keys().collect();
        keys.sort();
        assert!(known_keys(&names).iter().eq(keys), "the keys of [{}]", names.join("."));
        assert_eq!(schema["additionalProperties"], Value::Bool(false), "[{}]", names.join("."));
        *compared += 1;
        for (key, below) in properties {
            assert!(below["description"].is_string(), "{key} has no description");
            path.push(key.clone());
            compare(path, below, compared);
            path.pop();
        }
    }
    let mut compared = 0;
    compare(&mut Vec::new(), &schema(), &mut compared);
    assert!(compared >= 6, "{compared}");
}

#[test]
fn all_mistakes_of_a_document_are_shown_with_carets() {
    let text = "hostname = \"edge 7\"\n\n[kublet]\nlabels = {}\n\n[cluster]\nserver = \
                \"http://a\"\ncertificate = \"ca.crt\"\n\n[kubelet]\ncloud-provider = \"extern\"\n\
                taints = [\"a=b:NoSchedule\", \"a=b\"]\n";
    let problems = node_document_problems("node.toml", text);
    expect("node-document.txt", &Error::many(Kind::Usage, problems).to_string());
    assert_eq!(node_document_problems("node.toml", EXAMPLE), []);
}

#[test]
fn the_schema_refuses_the_routing_rules_that_a_node_refuses() {
    no_change_is_accepted(&[
        ("priority = 2000\nfrom", "priority = 99\nfrom"),
        ("priority = 2000\niif", "priority = 32766\niif"),
        ("priority = 2000\niif", "iif"),
        ("table = 100\n\n[[routing", "table = 255\n\n[[routing"),
        ("fwmark = \"0x100/0xff00\"\ntable = 100", "fwmark = \"0x100/0xff00\""),
        ("family = \"ipv6\"", "family = \"inet6\""),
        ("family = \"ipv6\"\n", ""),
        ("from = \"198.51.100.7/32\"", "from = \"198.51.100.7\""),
        ("iif = \"storage\"", "iif = \"*\""),
        ("fwmark = \"0x100/0xff00\"", "fwmark = 256"),
        ("fwmark = \"0x100/0xff00\"", "fwmark = \"0x100/\""),
    ]);
}

#[test]
fn the_schema_refuses_the_tunnels_that_a_node_refuses() {
    no_change_is_accepted(&[
        ("private-key = \"+C5u", "private-key = \"C5u"),
        ("listen-port = 51820", "listen-port = 65536"),
        ("fwmark = \"0x200\"", "fwmark = 512"),
        ("fwmark = \"0x200\"", "fwmark = \"0x200/0xff00\""),
        ("public-key = \"lhDE", "public-key = \"lhD"),
        ("preshared-key = \"fLmJ9", "psk = \"fLmJ9"),
        ("preshared-key = \"fLmJ9", "preshared-key = \"fLmJ"),
        ("endpoint = \"198.51.100.9:51820\"", "endpoint = \"vpn.example:51820\""),
        ("endpoint = \"198.51.100.9:51820\"", "endpoint = \"198.51.100.9\""),
        ("allowed-ips = [\"10.7.0.0/24\"", "allowed-ips = [\"10.7.0.0\""),
        ("persistent-keepalive = 25", "persistent-keepalive = 65536"),
        ("[links.wireguard]", "vlan = { id = 5, parent = \"eth0\" }\n\n[links.wireguard]"),
    ]);
}

//! The settings of the host as `init` reports them: the requested and the current values.

use osbuild_ranks::Source;

use super::{
    ClusterState, PodState, Setting, SettingName, StartSettings, TryState, WireGuardState, words,
};

/// The word for no source.
const NONE: &str = "none";

/// The settings of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Whether changes are tried.
    pub tried: TryState,
    /// Whether the node has started with the newest ones.
    pub start: StartSettings,
    /// Those of which a node has one each, and all others that a source has set.
    pub settings: Vec<Observed>,
    /// The states of the static pods that settings ask for, as far as they are known.
    pub pods: Vec<PodState>,
    /// The states of the links of WireGuard that the node makes, as far as they are known.
    pub wireguard: Vec<WireGuardState>,
    /// The node's own knowledge of itself in its cluster; none if it joins none.
    pub cluster: Option<ClusterState>,
}

/// A setting as `init` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The setting.
    pub name: SettingName,
    /// The setting with the value that requests over the socket `host` have given it.
    pub wanted: Option<Setting>,
    /// The source of the value that shall be in effect; none if no source has one.
    pub source: Option<Source>,
    /// The value that the host has: words with one space between, without secrets, or nothing.
    pub current: String,
    /// Why the host does not have the value that shall be in effect, if that is known. Empty if it
    /// has it, or if a refused request had this answer.
    pub error: String,
}

impl Observed {
    /// Whether the value that requests have given is the one that shall be in effect.
    pub fn is_requested(&self) -> bool {
        self.source == Some(Source::Api)
    }
}

/// The lines of a reply, each with its end.
pub(crate) fn encode(host: &HostSettings) -> String {
    let HostSettings { tried, start, settings, pods, wireguard, cluster } = host;
    let lines = settings.iter().map(|Observed { name, wanted, source, current, error }| {
        let wanted =
            wanted.iter().map(|wanted| format!("wanted {}\n", wanted.line())).collect::<String>();
        let source = source.map_or(NONE, Source::name);
        let current = format!("current {source} {name} {}", words(current));
        let error = match error.as_str() {
            "" => String::new(),
            error => format!("error {}\n", words(error)),
        };
        format!("{wanted}{error}{}\n", current.trim_end())
    });
    let lines: String = lines.collect();
    let pods: String = pods.iter().map(|pod| format!("pod {}\n", pod.encode())).collect();
    let links: String = wireguard.iter().map(|link| format!("wireguard {link}\n")).collect();
    let cluster = cluster.as_ref().map(|state| format!("cluster {}\n", state.encode()));
    let cluster = cluster.unwrap_or_default();
    format!("try {}\nstart {}\n{lines}{pods}{links}{cluster}", tried.encode(), start.word())
}

/// Reads the lines of a reply. Settings that this release does not know are left out.
pub(crate) fn decode(lines: &[String]) -> Result<HostSettings, String> {
    let mut host = HostSettings::default();
    let (mut wanted, mut error) = (None::<Setting>, String::new());
    for line in lines {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        match key {
            "try" => host.tried = TryState::decode(value)?,
            "start" => host.start = StartSettings::decode(value)?,
            "wanted" => wanted = Setting::parse(value).ok(),
            "error" => error = value.to_owned(),
            "pod" => host.pods.extend(PodState::decode(value)),
            "cluster" => host.cluster = ClusterState::decode(value),
            "wireguard" => host.wireguard.extend(WireGuardState::parse(value)),
            "current" => {
                let (source, rest) = value.split_once(' ').ok_or("a setting has no name")?;
                let error = std::mem::take(&mut error);
                let Ok((name, current)) = SettingName::split(rest) else { continue };
                let (source, current) = (Source::from_name(source), current.to_owned());
                let wanted = wanted.take().filter(|wanted| wanted.name() == name);
                host.settings.push(Observed { name, wanted, source, current, error });
            }
            _ => {}
        }
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::MAX_REASON;
    use crate::setting::{
        ControlPlane, MAX_CREDENTIALS, MAX_LABELS, MAX_MODULES, MAX_MOTD_COLUMNS, MAX_MOTD_LINES,
        MAX_MOUNTS, MAX_NETWORK_SETTINGS, MAX_PARAMETERS, MAX_PROFILES, MAX_PROVIDERS,
        MAX_REGISTRIES, MAX_ROOTS, MAX_STATIC_PODS, MAX_SYSTEM_IMAGES, MAX_TAINTS, MAX_VOLUMES,
        PodName, PublicKey,
    };

    fn all() -> HostSettings {
        let observed = |source, wanted: &str, name: &str, current: &str| Observed {
            name: SettingName::parse(name).unwrap(),
            wanted: Setting::parse(wanted).ok(),
            source,
            current: current.to_owned(),
            error: String::new(),
        };
        let gateway = "route 0.0.0.0/0 512";
        let reserved = "kernel-parameter net.ipv4.ip_local_reserved_ports";
        let settings = vec![
            observed(Some(Source::Api), "host-name edge-7", "host-name", "edge-7"),
            observed(Some(Source::Dhcp), "", "name-servers", "10.0.2.3 fec0::3"),
            observed(None, "", "search-domains", ""),
            observed(Some(Source::Image), "", "time-servers", "time.example"),
            observed(Some(Source::Api), &format!("{reserved} 8080"), reserved, ""),
            observed(
                None,
                "kernel-parameter kernel.panic 0",
                "kernel-parameter kernel.panic",
                "10",
            ),
            Observed {
                error: "the network is unreachable".to_owned(),
                ..observed(
                    Some(Source::Api),
                    &format!("{gateway} via 192.0.2.1 on eth0"),
                    gateway,
                    "",
                )
            },
        ];
        let pods = [
            "web running=1 restarts=0 reason= message=",
            "a running=0 restarts=1 reason=A message=b",
        ];
        let pods = pods.iter().filter_map(|line| PodState::decode(line)).collect();
        let (tried, start) = (TryState::Running(59), StartSettings::GoneBack);
        let key = format!("{}=", "A".repeat(43));
        let state = format!("wg0 public-key={key} listen-port=51820 peers={key},handshake=9");
        let wireguard = vec![WireGuardState::parse(&state).unwrap()];
        let cluster = ClusterState::decode("1790000000 ready");
        HostSettings { tried, start, settings, pods, wireguard, cluster }
    }

    #[test]
    fn a_reply_is_read_as_it_was_written() {
        let lines: Vec<String> = encode(&all()).lines().map(str::to_owned).collect();
        assert_eq!(decode(&lines), Ok(all()));
        let newer = ["wanted colour red", "current api colour red", "colour red"];
        let lines = newer.map(str::to_owned).into_iter().chain(lines).collect::<Vec<_>>();
        assert_eq!(decode(&lines), Ok(all()));
        assert!(decode(&["current".to_owned()]).is_err());
    }

    /// A link of WireGuard with as many peers as there may be.
    fn longest_tunnel() -> String {
        let key = |number: u8| PublicKey::new([number; 32]).to_string();
        let mut line = format!("link {} made wireguard private-key={}", "a".repeat(15), key(99));
        let peers = (1..=32).map(|number| format!("{},preshared-key={}", key(number), key(99)));
        for (at, peer) in peers.enumerate() {
            if line.len() + peer.len() > 3584 {
                break;
            }
            line += if at == 0 { " peers=" } else { ";" };
            line += &peer;
        }
        line
    }

    /// The longest lines of settings: how many of each there are at most, and whether they have an
    /// error.
    fn longest_lines() -> Vec<(String, usize, bool)> {
        let parameter = format!("kernel-parameter a.{} {}", "b".repeat(94), "1".repeat(256));
        let domain = vec!["a".repeat(63); 3].join(".") + "." + &"b".repeat(61);
        let domains = format!("search-domains {}", vec![domain; 6].join(" "));
        let servers = format!("time-servers {}", vec!["a".repeat(63); 8].join(" "));
        let host = "2001:db8:1111:2222:3333:4444:5555:6666";
        let made = longest_tunnel();
        let line = format!("{}a", "%20".repeat(MAX_MOTD_COLUMNS - 1));
        let motd = format!("motd {}", vec![line; MAX_MOTD_LINES].join("%0a"));
        let route =
            format!("route {host}/128 {0} table {0} via {host} on {1}", u32::MAX, "a".repeat(15));
        let routing = format!(
            "routing-rule ipv6 20000 table={} from={host}/128 to={host}/128 iif={1} oif={1} \
             fwmark=0xfffffff0/0xfffffff0",
            u32::MAX,
            "a".repeat(15)
        );
        let list =
            |entry: &dyn Fn(u32) -> String| (10..42).map(entry).collect::<Vec<_>>().join(",");
        let rule = format!(
            "firewall-rule {} accept priority=10000 protocol=icmpv6 sources={} links={}",
            "a".repeat(63),
            list(&|number| format!("{}{number}/128", &host[..host.len() - 2])),
            list(&|number| format!("{}{number}*", "a".repeat(13))),
        );
        let path = format!("/{}", "a".repeat(127));
        let mount = format!("mount {path} bind {path} ro,exec");
        let field = "kubelet-config evictionSoftGracePeriod.memory.available 24h".to_owned();
        let mirrors = format!("registry-mirror a server=https://a ca=MI{}", "A".repeat(3558));
        let key = format!("{}/{}", vec!["a".repeat(60); 4].join("."), "a".repeat(63));
        let label = format!("node-label {key} {}", "a".repeat(63));
        let taint = format!("node-taint {key}:PreferNoSchedule {}", "a".repeat(63));
        let proxy =
            format!("proxy http=http://a:1 no-proxy={}", vec!["a".repeat(60); 32].join(","));
        vec![
            // Those that are held, and those that a smaller list refuses.
            (parameter, 2 * MAX_PARAMETERS, false),
            (route, 4 * MAX_NETWORK_SETTINGS, true),
            (made, MAX_NETWORK_SETTINGS, true),
            (rule, MAX_NETWORK_SETTINGS, true),
            (routing, MAX_NETWORK_SETTINGS, true),
            (mount, MAX_MOUNTS, true),
            (format!("kernel-module {} built-in", "a".repeat(55)), MAX_MODULES, true),
            // More than there are.
            (field, 64, true),
            (label, MAX_LABELS, true),
            (taint, MAX_TAINTS, true),
            (mirrors, MAX_REGISTRIES, true),
            (domains, 1, false),
            (servers, 1, false),
            (motd, 1, false),
            (proxy, 1, true),
            ("swap size=100% memory-limit=100% pods".to_owned(), 1, true),
        ]
    }

    /// The same of registries, pods and the cluster.
    fn longest_lines_of_cluster() -> Vec<(String, usize, bool)> {
        let join = format!("cluster-join server=https://a ca=MI{}", "A".repeat(12262));
        let plane = "control-plane apiVersion:%20kubeadm.k8s.io/v1beta4%0akind:\
                     %20ClusterConfiguration%0aa";
        let plane = format!("{plane}{}%0a", "a".repeat((12 << 10) - 68 - 12));
        let login = format!("registry-credential a token={}", "a".repeat(3578));
        let roots = format!("trusted-root {} MI{}", "a".repeat(63), "A".repeat(3582));
        let pod = format!(
            "static-pod {} container=a image=b arg={} arg={}",
            "a".repeat(63),
            "a".repeat(3072),
            "a".repeat(480)
        );
        let calls = vec!["a".repeat(31); 383].join(",");
        let profile = format!("seccomp-profile {} default=ALLOW calls=LOG:{calls}", "a".repeat(63));
        let provider = format!(
            "credential-provider {} cache=1h api=v1 images=a arg={}",
            "a".repeat(63),
            "a".repeat(3553)
        );
        let volume = format!("volume {} wwid={}", "a".repeat(16), ["a"; 64].join("%25"));
        let image = format!("system-image a.a/{}:{} kept", "a".repeat(251), "a".repeat(128));
        vec![
            (login, MAX_CREDENTIALS, true),
            (roots, MAX_ROOTS, true),
            (pod, MAX_STATIC_PODS, true),
            (profile, MAX_PROFILES, true),
            (provider, MAX_PROVIDERS, true),
            (volume, MAX_VOLUMES, true),
            (image, MAX_SYSTEM_IMAGES, true),
            (join, 1, true),
            (plane, 1, true),
        ]
    }

    /// The longest value on the host of a setting.
    fn current(wanted: &Setting) -> String {
        match wanted {
            Setting::ControlPlane(_) => ControlPlane::MADE.to_owned(),
            _ => wanted.shown(),
        }
    }

    #[test]
    fn the_longest_reply_fits_the_client() {
        let observed = |(line, count, fails): (String, usize, bool)| {
            let wanted = Setting::parse(&line).unwrap();
            let (name, current) = (wanted.name(), current(&wanted));
            let (wanted, source) = (Some(wanted), Some(Source::Document));
            let error = "a".repeat(if fails { MAX_REASON } else { 0 });
            vec![Observed { name, wanted, source, current, error }; count]
        };
        let name = PodName::parse(&"a".repeat(63)).unwrap();
        let (reason, message) = ("a".repeat(MAX_REASON), "\u{10348}".repeat(MAX_REASON));
        let state = PodState::new(name, false, u32::MAX, &reason, &message);
        let lines = longest_lines().into_iter().chain(longest_lines_of_cluster());
        let all: Vec<Observed> = lines.flat_map(observed).collect();
        let pods = vec![state; MAX_STATIC_PODS];
        // A state has no more than the setting of its link, but for the endpoint of each peer.
        let peers = vec!["B".repeat(110); 32].join(";");
        let tunnels = (0..MAX_NETWORK_SETTINGS).map(|_| format!("wireguard a {peers}\n").len());
        let tunnels: usize = tunnels.sum();
        let all = HostSettings { settings: all, pods, ..HostSettings::default() };
        let length = encode(&all).len() + tunnels;
        assert!(length < crate::client::MAX_REPLY, "{length}");
    }
}

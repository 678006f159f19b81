//! The kubelet's configuration, in the two forms that `init kubelet-config` writes: for a node
//! without a cluster, and for one that joins. Both begin with the recipe's, and the drop-ins on
//! DATA override both. In a cluster the API server authorizes every request to the node: a
//! certificate of the cluster's CA alone permits nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use osbuild_failure::{Explain, Outcome};
use osbuild_folder::small_file::{first_line, read};
use osbuild_protocol::KubeletKey;
use serde_json::{Map, Value, json};

use super::shutdown_grace;
use crate::daemons::kubelet_policies::{self, Policy};

/// The kubelet's own default (`pkg/kubelet/apis/config/v1beta1/defaults.go`).
const DEFAULT_MAX_PODS: u64 = 110;

/// Memory in MiB that init, containerd and the kubelet need, and what each pod adds for its shim
/// and in the daemons. Measured: 140, and 7 to 8 (decision 22).
const SYSTEM_MIB: u64 = 200;
const POD_MIB: u64 = 9;
/// The same for processes and threads.
const SYSTEM_PIDS: u64 = 500;
const POD_PIDS: u64 = 20;

/// Settings that weaken the kubelet's server, each with its consequence.
const WEAKENING: [Weakening; 4] = [
    Weakening {
        pointer: "/authorization/mode",
        value: Weak::Text("AlwaysAllow"),
        means: "anyone with a certificate of the client CA may run commands in every pod of the \
                node",
        joined: true,
    },
    Weakening {
        pointer: "/authentication/webhook/enabled",
        value: Weak::Flag(false),
        means: "tokens of the cluster are not accepted",
        joined: true,
    },
    Weakening {
        pointer: "/authentication/anonymous/enabled",
        value: Weak::Flag(true),
        means: "requests need no authentication",
        joined: false,
    },
    Weakening {
        pointer: "/readOnlyPort",
        value: Weak::Port,
        means: "anyone can read what runs on the node",
        joined: false,
    },
];

struct Weakening {
    /// The setting, as a JSON pointer (RFC 6901).
    pointer: &'static str,
    value: Weak,
    means: &'static str,
    /// Whether it weakens only a node in a cluster: without one it is the default, and harmless as
    /// there are no certificates.
    joined: bool,
}

enum Weak {
    Text(&'static str),
    Flag(bool),
    /// Any port at all.
    Port,
}

impl Weak {
    fn is(&self, value: &Value) -> bool {
        match self {
            Self::Text(text) => value == text,
            Self::Flag(flag) => value == flag,
            Self::Port => value.as_u64().is_some_and(|port| port > 0),
        }
    }
}

/// The kubelet's configuration and its drop-ins.
pub struct Settings {
    base: Value,
    /// The drop-ins on DATA, with their names, in the order in which the kubelet reads them.
    drop_ins: Vec<(String, Value)>,
}

impl Settings {
    /// Reads the base, and every `*.conf` in the folder of drop-ins and below. A malformed drop-in
    /// is reported; the kubelet does not start with it.
    pub fn read(base: &Path, drop_ins: &Path) -> Outcome<Self> {
        let text = fs::read_to_string(base).explain(format_args!("read {}", base.display()))?;
        let base = parse(&text).explain(format_args!("read {}", base.display()))?;
        let mut files = Vec::new();
        walk(drop_ins, &mut files);
        let drop_ins = files.iter().filter_map(|file| {
            let name = file.file_name()?.to_string_lossy().into_owned();
            let value = read(file).and_then(|text| {
                parse(&text.unwrap_or_default()).explain(format_args!("read {}", file.display()))
            });
            value.map_err(|failure| println!("{failure}")).ok().map(|value| (name, value))
        });
        Ok(Settings { base, drop_ins: drop_ins.collect() })
    }

    /// Sets what the node document or settings ask for, which the drop-ins override.
    pub fn set(&mut self, patch: &Value) {
        merge(&mut self.base, patch);
    }

    /// Which of the fields a drop-in overrides, each with the name of the last one that does.
    pub fn overridden<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a KubeletKey>,
    ) -> Vec<(KubeletKey, String)> {
        let name = |key: &KubeletKey| {
            let (field, inner) = key.parts();
            let has = |value: &Value| {
                let value = value.get(field);
                inner.map_or(value, |inner| value.and_then(|value| value.get(inner))).is_some()
            };
            self.drop_ins.iter().rev().find(|(_, value)| has(value)).map(|(name, _)| name.clone())
        };
        keys.into_iter().filter_map(|key| Some((key.clone(), name(key)?))).collect()
    }

    /// The configuration of a node without a cluster, on a machine with this memory.
    pub fn standalone(&self, memory_mib: u64) -> Value {
        let more = json!({
            "authentication": { "webhook": { "enabled": false } },
            "authorization": { "mode": "AlwaysAllow" },
            // No request is authorized to read them.
            "enableSystemLogHandler": false,
        });
        self.with(memory_mib, more)
    }

    /// The configuration of a node that joins a cluster, whose CA is in the file `client_ca`.
    pub fn joined(&self, memory_mib: u64, client_ca: Option<&str>) -> Value {
        let mut more = json!({
            "authentication": { "webhook": { "enabled": true } },
            "authorization": { "mode": "Webhook" },
        });
        if let Some(file) = client_ca {
            more["authentication"]["x509"] = json!({ "clientCAFile": file });
        }
        self.with(memory_mib, more)
    }

    /// The settings that the drop-ins weaken, as warnings.
    pub fn weakened(&self, joins: bool) -> Vec<String> {
        let last = |pointer| {
            self.drop_ins
                .iter()
                .rev()
                .find_map(|(name, value)| Some((name, value.pointer(pointer)?)))
        };
        let weak = WEAKENING.iter().filter(|one| joins || !one.joined).filter_map(|one| {
            let (name, value) = last(one.pointer).filter(|(_, value)| one.value.is(value))?;
            let key = one.pointer.trim_start_matches('/').replace('/', ".");
            Some(format!("warning: `{name}` sets `{key}` to `{}`: {}", plain(value), one.means))
        });
        weak.collect()
    }

    /// How long the kubelet's pods may take to end before a shutdown. The kubelet runs with the
    /// drop-ins or without them, so it is the longer time of both.
    pub fn shutdown_grace(&self) -> Duration {
        let mut whole = self.base.clone();
        self.drop_ins.iter().for_each(|(_, patch)| merge(&mut whole, patch));
        shutdown_grace::of(&self.base).max(shutdown_grace::of(&whole))
    }

    /// The kubelet's policies for processors and memory, without the drop-ins or with them.
    pub fn policies(&self, drop_ins: bool) -> Vec<String> {
        let mut whole = self.base.clone();
        if drop_ins {
            self.drop_ins.iter().for_each(|(_, patch)| merge(&mut whole, patch));
        }
        let value = |policy: &Policy| {
            let text = whole.get(policy.setting).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).unwrap_or(policy.default).to_owned()
        };
        kubelet_policies::ALL.iter().map(value).collect()
    }

    fn with(&self, memory_mib: u64, more: Value) -> Value {
        let mut whole = self.base.clone();
        merge(&mut whole, &json!({ "systemReserved": reserved(self.max_pods(), memory_mib) }));
        // The recipe's own reservation takes precedence.
        merge(&mut whole, &self.base);
        merge(&mut whole, &more);
        whole
    }

    /// How many pods the kubelet will run.
    fn max_pods(&self) -> u64 {
        let all = self.drop_ins.iter().rev().map(|(_, value)| value).chain([&self.base]);
        all.filter_map(|value| value.get("maxPods")?.as_u64()).next().unwrap_or(DEFAULT_MAX_PODS)
    }
}

/// The reservation for the node's own programs: a quarter of the memory at most.
fn reserved(max_pods: u64, memory_mib: u64) -> Value {
    let memory = SYSTEM_MIB
        .saturating_add(POD_MIB.saturating_mul(max_pods))
        .min((memory_mib / 4).max(SYSTEM_MIB));
    let pids = SYSTEM_PIDS.saturating_add(POD_PIDS.saturating_mul(max_pods));
    json!({ "memory": format!("{memory}Mi"), "pid": pids.to_string() })
}

/// Reads YAML, which includes JSON. An empty file is an empty configuration.
fn parse(text: &str) -> Outcome<Value> {
    let value: Value =
        serde_saphyr::from_str(text).map_err(|error| first_line(&error.to_string()))?;
    Ok(if value.is_object() { value } else { Value::Object(Map::new()) })
}

/// Merges a patch as the kubelet merges each drop-in (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Every drop-in, in the order of `filepath.WalkDir`. A folder that cannot be read has none.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), files);
        } else if entry.path().extension().is_some_and(|end| end == "conf") {
            files.push(entry.path());
        }
    }
}

/// A value without the quotes of a text.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemons::kubelet_config::DEFAULT_SHUTDOWN_GRACE;

    const SHIPPED: &str = include_str!("../../../kubelet/kubelet.yaml");
    /// The memory of a machine with 2 GiB, and of a large one.
    const SMALL: u64 = 1960;
    const LARGE: u64 = 64 << 10;

    fn settings(drop_ins: &[(&str, &str)]) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("kubelet.yaml");
        fs::write(&base, SHIPPED).unwrap();
        let conf = folder.path().join("kubelet.conf.d");
        for (name, text) in drop_ins {
            let file = conf.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        Settings::read(&base, &conf).unwrap()
    }

    #[test]
    fn a_node_that_joins_has_its_cluster_authorize_requests() {
        let joined = settings(&[]).joined(LARGE, Some("/etc/kubernetes/pki/ca.crt"));
        assert_eq!(joined["authorization"]["mode"], "Webhook");
        assert_eq!(joined["authentication"]["webhook"]["enabled"], true);
        assert_eq!(joined["authentication"]["anonymous"]["enabled"], false);
        assert_eq!(joined["authentication"]["x509"]["clientCAFile"], "/etc/kubernetes/pki/ca.crt");
        // Everything else is the recipe's.
        assert_eq!(
            (&joined["kind"], &joined["cgroupDriver"]),
            (&json!("KubeletConfiguration"), &json!("cgroupfs"))
        );
        assert!(settings(&[]).joined(LARGE, None)["authentication"].get("x509").is_none());
    }

    #[test]
    fn a_node_without_a_cluster_authorizes_itself_and_shows_no_logs() {
        let alone = settings(&[]).standalone(LARGE);
        assert_eq!(alone["authorization"]["mode"], "AlwaysAllow");
        assert_eq!(alone["authentication"]["webhook"]["enabled"], false);
        assert_eq!(alone["enableSystemLogHandler"], false);
    }

    #[test]
    fn a_drop_in_that_weakens_a_joined_node_is_named() {
        let found = settings(&[
            ("10-open.conf", "authorization: { mode: AlwaysAllow }\nreadOnlyPort: 10255\n"),
            ("20-more.conf", "{\"authentication\": {\"anonymous\": {\"enabled\": true}}}"),
        ]);
        let warnings = found.weakened(true);
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(
            warnings[0].starts_with(
                "warning: `10-open.conf` sets `authorization.mode` to `AlwaysAllow`: "
            ),
            "{}",
            warnings[0]
        );
        assert!(
            warnings[1].starts_with(
                "warning: `20-more.conf` sets `authentication.anonymous.enabled` to `true`: "
            ),
            "{}",
            warnings[1]
        );
        assert!(
            warnings[2].starts_with("warning: `10-open.conf` sets `readOnlyPort` to `10255`: "),
            "{}",
            warnings[2]
        );
        assert_eq!(found.weakened(false).len(), 2);
    }

    #[test]
    fn a_later_drop_in_that_restores_a_setting_ends_the_warning() {
        let found = settings(&[
            ("10-open.conf", "authorization: { mode: AlwaysAllow }\n"),
            ("deeper/20.conf", "authorization: { mode: Webhook }\n"),
            ("no-drop-in.yaml", "readOnlyPort: 10255\n"),
        ]);
        assert_eq!(found.weakened(true), [""; 0]);
    }

    #[test]
    fn fields_override_the_recipe_and_drop_ins_override_fields() {
        let mut found = settings(&[
            ("10.conf", "maxPods: 20\nevictionHard: { pid.available: 5% }\n"),
            ("20.conf", "maxPods: 30\n"),
        ]);
        found.set(&json!({
            "evictionHard": { "memory.available": "1Gi" },
            "systemReserved": { "memory": "2Gi" },
        }));
        let joined = found.joined(LARGE, None);
        assert_eq!(joined["evictionHard"]["memory.available"], "1Gi");
        assert_eq!(joined["evictionHard"]["nodefs.available"], "10%", "the recipe's stays");
        assert_eq!(joined["systemReserved"]["memory"], "2Gi");
        assert_eq!(joined["systemReserved"]["pid"], "1100", "for the pods of the drop-in");
        let key = |text| KubeletKey::parse(text).unwrap();
        let keys =
            ["maxPods", "evictionHard.pid.available", "evictionHard.memory.available"].map(key);
        let name = |name: &str| name.to_owned();
        let [max_pods, pid, _] = keys.clone();
        assert_eq!(found.overridden(&keys), [(max_pods, name("20.conf")), (pid, name("10.conf"))]);
    }

    #[test]
    fn a_drop_in_gives_pods_more_time_before_a_shutdown() {
        assert_eq!(settings(&[]).shutdown_grace(), DEFAULT_SHUTDOWN_GRACE);
        let more = settings(&[("a.conf", "shutdownGracePeriod: 5m\n")]);
        assert_eq!(more.shutdown_grace(), Duration::from_secs(300));
        let none = settings(&[("a.conf", "shutdownGracePeriod: 0s\n")]);
        assert_eq!(none.shutdown_grace(), DEFAULT_SHUTDOWN_GRACE, "without drop-ins it is this");
    }

    #[test]
    fn ordinary_pods_have_kubernetes_default_grace_before_a_shutdown() {
        let shipped = parse(SHIPPED).unwrap();
        let critical = json!({ "shutdownGracePeriod": shipped["shutdownGracePeriodCriticalPods"] });
        let ordinary = shutdown_grace::of(&shipped).checked_sub(shutdown_grace::of(&critical));
        assert!(ordinary.unwrap() >= Duration::from_secs(30));
    }

    #[test]
    fn drop_ins_set_the_policies_for_processors_and_memory() {
        let found = settings(&[
            ("10.conf", "cpuManagerPolicy: static\nmemoryManagerPolicy: Static\n"),
            ("20.conf", "memoryManagerPolicy: null\n"),
        ]);
        assert_eq!(found.policies(true), ["static", "None"]);
        assert_eq!(found.policies(false), ["none", "None"]);
    }

    #[test]
    fn the_reservation_follows_the_pods_and_the_machine() {
        let memory = |drop_ins: &[(&str, &str)], mib| {
            settings(drop_ins).joined(mib, None)["systemReserved"]["memory"].clone()
        };
        let (few, usual) = (memory(&[("a.conf", "maxPods: 20\n")], LARGE), memory(&[], LARGE));
        assert_eq!(few, format!("{}Mi", SYSTEM_MIB + 20 * POD_MIB));
        assert_eq!(usual, format!("{}Mi", SYSTEM_MIB + 110 * POD_MIB));
        assert_eq!(memory(&[], SMALL), format!("{}Mi", SMALL / 4));
        assert_eq!(memory(&[], 100), format!("{SYSTEM_MIB}Mi"));
        assert_eq!(settings(&[]).standalone(LARGE)["systemReserved"]["pid"], "2700");
        // The recipe's CPU stays.
        assert_eq!(settings(&[]).standalone(LARGE)["systemReserved"]["cpu"], "50m");
    }

    #[test]
    fn a_malformed_drop_in_does_not_hide_the_others() {
        let found =
            settings(&[("10.conf", "{"), ("20.conf", "readOnlyPort: 1\n"), ("30.conf", "")]);
        assert_eq!(found.weakened(true).len(), 1);
    }
}

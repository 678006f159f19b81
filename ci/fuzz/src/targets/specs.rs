//! Specs of settings and of grants that clients send to `osd`, as messages and as YAML.

use osbuild_resources::Spec;
use pod_osd::client_type::ClientType;
use pod_osd::settings::{SettingType, TYPES};

use crate::target::{Memory, Outcome, Target};

/// See the module. The same bytes are read as a message and as YAML of each type.
pub const TARGET: Target =
    Target { name: "specs", seeds, run, memory: Memory { base: 1 << 20, per_byte: 64 } };

fn run(input: &[u8]) -> Outcome {
    let message = Spec { proto: input.to_vec(), yaml: String::new() };
    let yaml = std::str::from_utf8(input).unwrap_or_default().to_owned();
    let yaml = Spec { proto: Vec::new(), yaml };
    let mut outcome = Outcome::Refused;
    for SettingType { read, write, covers, .. } in &TYPES {
        for settings in [&message, &yaml].into_iter().filter_map(|spec| read(spec).ok()) {
            assert!(!settings.is_empty() && settings.iter().all(|one| covers(&one.name())));
            assert_eq!(read(&write(&settings)), Ok(settings));
            outcome = Outcome::Accepted;
        }
    }
    for spec in [&message, &yaml] {
        if let Ok(checked) = ClientType::Grant.check("plugin", spec) {
            let again = ClientType::Grant.check("plugin", &checked.spec);
            assert_eq!(again.map(|again| again.spec), Ok(checked.spec));
            outcome = Outcome::Accepted;
        }
    }
    outcome
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "key: net.ipv4.tcp_rmem\nvalue: 4096 131072 6291456\n",
        "hostname: edge-7.example.org\n",
        "{nameserver: [10.0.2.3, 'fec0::3'], search: local}\n",
        "server:\n- time.example:123\n- '[2001:db8::7]'\n",
    ];
    let mut seeds: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).into();
    for text in texts {
        let spec = Spec { proto: Vec::new(), yaml: text.to_owned() };
        let read = TYPES.iter().find_map(|one| Some((one.write)(&(one.read)(&spec).ok()?)));
        seeds.extend(read.map(|both| both.proto));
    }
    let grant = "inputs:\n- {namespace: system, type: Hostnames.osbuild, id: a, kind: weak}\n\
                 outputs:\n- type: As.example\n  singular: A1\n  kind: shared\n  \
                 columns: [{name: B, jsonPath: b}]\n";
    let spec = Spec { proto: Vec::new(), yaml: grant.to_owned() };
    let checked = ClientType::Grant.check("plugin", &spec).map(|checked| checked.spec.proto);
    seeds.extend(checked);
    seeds.push(grant.as_bytes().to_vec());
    seeds
}

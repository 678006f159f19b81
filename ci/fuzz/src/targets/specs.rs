//! Specs of settings, of grants and of who may call that clients send to `osd`, as messages and as
//! YAML.

use osbuild_cosi::DESCRIPTORS;
use osbuild_protocol::REDACTED;
use osbuild_resources::Spec;
use pod_osd::client_type::ClientType;
use pod_osd::documents;
use pod_osd::settings::{SettingType, TYPES};

use crate::target::{Memory, Outcome, Target};

/// The types that are no settings of the host, in the order of their seeds, and an identifier that
/// all of them accept.
const OTHERS: [ClientType; 4] =
    [ClientType::Grant, ClientType::Revocation, ClientType::Role, ClientType::TokenIssuer];
const ID: &str = "plugin";

/// See the module. The same bytes are read as a message and as YAML of each type.
pub const TARGET: Target =
    Target { name: "specs", seeds, run, memory: Memory { base: 1 << 20, per_byte: 64 } };

fn run(input: &[u8]) -> Outcome {
    let message = Spec { proto: input.to_vec(), ..Spec::default() };
    let yaml = std::str::from_utf8(input).unwrap_or_default().to_owned();
    let yaml = Spec { yaml, ..Spec::default() };
    let mut outcome = Outcome::Refused;
    for SettingType { read, write, covers, .. } in &TYPES {
        for settings in [&message, &yaml].into_iter().filter_map(|spec| read(spec).ok()) {
            assert!(!settings.is_empty() && settings.iter().all(|one| covers(&one.name())));
            let written = write(&settings);
            assert_eq!(read(&written), Ok(settings));
            assert!(written.secrets.is_empty() || written.yaml.contains(REDACTED));
            outcome = Outcome::Accepted;
        }
    }
    for one in OTHERS {
        for checked in [&message, &yaml].into_iter().filter_map(|spec| one.check(ID, spec).ok()) {
            let again = one.check(ID, &checked.spec);
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
        "text: |\n  Rack 7\n   100 %\n",
        "server: https://a:6443\ntoken: abcdef.0123456789abcdef\ndns: [10.96.0.10]\n\
         certificateAuthority: |\n\
         \x20 -----BEGIN CERTIFICATE-----\n\
         \x20 MIIBPzCB5aADAgECAhRSDBbwpVU5aIbDth+ScQpRXOdtLjAKBggqhkjOPQQDAjAV\n\
         \x20 MRMwEQYDVQQDDApFeGFtcGxlIENBMB4XDTI2MTEyNzA3MTgyMVoXDTM2MTEyNDA3\n\
         \x20 MTgyMVowFTETMBEGA1UEAwwKRXhhbXBsZSBDQTBZMBMGByqGSM49AgEGCCqGSM49\n\
         \x20 AwEHA0IABNx44feKM85B79t58GY0dzILYuEMeyut7YHWYvA/kKs7jg4GAr8rMCGh\n\
         \x20 aV5V+USWVQCQyF5B8HuQK7HD4qU39NajEzARMA8GA1UdEwEB/wQFMAMBAf8wCgYI\n\
         \x20 KoZIzj0EAwIDSQAwRgIhAO1aaZMsID35mjkAN+kOOakPhiHR94RE1CMSf92+sAxu\n\
         \x20 AiEAtF4beZBZoraCQQg4LL/egh5kP9mN6tme3+fpObjz+rI=\n\
         \x20 -----END CERTIFICATE-----\n",
        "name: a\nmatchImages: ['*.b']\ndefaultCacheDuration: 1h\n\
         apiVersion: credentialprovider.kubelet.k8s.io/v1\nenv: [{name: C, value: d}]\n",
        "name: dm-crypt\n",
        "configuration: |\n  apiVersion: kubeadm.k8s.io/v1beta4\n  kind: ClusterConfiguration\n",
        "{size: 50%, memoryLimit: 256Mi, pods: true}\n",
        "name: a\ndefaultAction: SCMP_ACT_LOG\nsyscalls:\n\
         - names: [read]\n  action: SCMP_ACT_TRAP\n",
        "{nameserver: [10.0.2.3, 'fec0::3'], search: local}\n",
        "server:\n- time.example:123\n- '[2001:db8::7]'\n",
        "registry: a.example:5000\nusername: b\npassword: correct horse\n",
        "{registry: localhost, token: mF_9.B5f-4.1JqM, plainHttp: true}\n",
        "{priority: 2000, from: 10.0.0.0/8, iif: eth0, table: 7, fwmark: 0x1/0xff}\n",
        "link: wg0\nwireguard:\n  privateKey: +C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=\n  \
         listenPort: 9\n  peers:\n  - publicKey: I2VYQH8unqEV3+Q4DFptm46PcT4LJqU+7euvnbk9pl4=\n    \
         presharedKey: fLmJ9BhXlT775w7OqmDU8dZ59elGcl03roySZp5gvs4=\n    \
         endpoint: '[::1]:9'\n    allowedIps: ['::/0']\n    persistentKeepalive: 25\n",
        "name: db\ndisk: {serial: vol0123456789abcdef0}\n",
        "name: web\nhostPID: true\nvolumes:\n- {name: c, emptyDir: {sizeLimit: 1Mi}}\n\
         - {name: d, hostPath: {path: /d}}\ncontainers:\n- name: web\n  image: a/b:1\n  \
         args: [a b]\n  env: [{name: A, value: b}]\n  resources: {limits: {cpu: 1}}\n  \
         ports: [{containerPort: 80}]\n  volumeMounts: [{name: c, mountPath: /c}]\n  \
         securityContext: {runAsUser: 7, capabilities: {add: [CHOWN]}}\n  \
         readinessProbe: {exec: {command: [/b]}, periodSeconds: 9}\n",
    ];
    let mut seeds: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).into();
    for text in texts {
        let spec = Spec { yaml: text.to_owned(), ..Spec::default() };
        let read = TYPES.iter().find_map(|one| Some((one.write)(&(one.read)(&spec).ok()?)));
        seeds.extend(read.map(|both| both.proto));
    }
    let others = [
        "inputs:\n- {namespace: system, type: Hostnames.osbuild, id: a, kind: weak}\n\
                 outputs:\n- type: As.example\n  singular: A1\n  kind: shared\n  \
                 columns: [{name: B, jsonPath: b}]\n",
        "user: bob\nissuedBefore: 2026-11-26\n",
        "resources:\n- verbs: [get, update]\n  types: ['*']\n  namespaces: [system]\ncalls:\n\
         - osbuild.v1.Node/Reboot\n",
        "issuer: https://example.org\npublicKeys: |\n  -----BEGIN PUBLIC KEY-----\n  \
         MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE033p5AHd2TzJjewlQg/R+c4Zpaf/\n  \
         tQT8pFlgkVnMAaYleTyZo3iTmIvJ0gw+2zvKf4uKwImnG8LrsDoGil4qmw==\n  \
         -----END PUBLIC KEY-----\nbindings:\n- {namespace: a, serviceAccount: b, role: reader}\n",
    ];
    for (one, text) in OTHERS.into_iter().zip(others) {
        let spec = Spec { yaml: text.to_owned(), ..Spec::default() };
        seeds.extend(one.check(ID, &spec).map(|checked| checked.spec.proto));
        seeds.push(text.as_bytes().to_vec());
    }
    seeds.extend(examples().into_iter().flat_map(|spec| [spec.proto, spec.yaml.into_bytes()]));
    seeds
}

/// The specs of the examples in the comments of the `.proto` files.
fn examples() -> Vec<Spec> {
    let files = String::from_utf8_lossy(DESCRIPTORS);
    let texts = files.split("```yaml").skip(1).filter_map(|rest| rest.split("```").next());
    let read = |text: &str| documents::read(&text.replace("\n ", "\n"), |_| None);
    texts.filter_map(|text| read(text).ok()).flatten().map(|draft| draft.spec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with a secret is none: the written ones hide it.
    #[test]
    fn every_type_accepts_a_seed() {
        let seeds = seeds();
        for SettingType { names, read, .. } in &TYPES {
            let accepts = |seed: &Vec<u8>| {
                let yaml = String::from_utf8_lossy(seed).into_owned();
                let message = Spec { proto: seed.clone(), ..Spec::default() };
                read(&message).is_ok_and(|settings| !settings.is_empty())
                    || read(&Spec { yaml, ..Spec::default() }).is_ok()
            };
            assert!(seeds.iter().any(accepts), "{}", names.singular);
        }
    }
}

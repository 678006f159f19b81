//! YAML documents that a client of `osd` applies.

use osbuild_resources::{Key, Spec};
use pod_osd::documents::{Draft, read};

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target =
    Target { name: "documents", seeds, run, memory: Memory { base: 8 << 20, per_byte: 256 } };

/// Accepted documents name each resource once, and are read again from those that have its specs.
fn run(input: &[u8]) -> Outcome {
    let Ok(text) = std::str::from_utf8(input) else { return Outcome::Refused };
    let Ok(drafts) = read(text, |_| None) else { return Outcome::Refused };
    let specs = |key: &Key| -> Option<Spec> {
        drafts.iter().find(|draft| draft.key == *key).map(|draft| draft.spec.clone())
    };
    let written: Vec<String> = drafts.iter().map(document).collect();
    assert_eq!(read(&written.join("---\n"), specs).as_ref(), Ok(&drafts));
    Outcome::Accepted
}

/// The draft as a document. JSON is YAML, too.
fn document(draft: &Draft) -> String {
    let Draft { key, labels, annotations, spec } = draft;
    let json = |value: serde_json::Value| value.to_string();
    let (type_name, id) = (json(key.kind().type_name().into()), json(key.id().into()));
    let mut text = format!("type: {type_name}\nid: {id}\n");
    for (name, pairs) in [("labels", labels), ("annotations", annotations)] {
        if let Some(pairs) = pairs {
            let pairs = serde_json::to_string(pairs).expect("texts are JSON");
            text += &format!("{name}: {pairs}\n");
        }
    }
    text += "spec:\n";
    for line in spec.yaml.lines() {
        let space = if line.is_empty() { "" } else { "  " };
        text += &format!("{space}{line}\n");
    }
    text
}

fn seeds() -> Vec<Vec<u8>> {
    let head = "api: cosi.dev\nversion: '1'\nnamespace: system\n";
    let of_the_engine = format!(
        "{head}type: KernelParameter\nid: forward\nspec:\n  key: net.ipv4.ip_forward\n  \
         value: '0'\n---\n{head}type: Resolver\nid: local\nspec:\n  search: local\n"
    );
    let texts = [
        &of_the_engine,
        "type: hostnames\nid: a\nlabels: {rack: '7'}\nannotations: {by: me}\n\
         spec: {hostname: edge-7}\n---\n---\ntype: Motds.osbuild\nid: a\n\
         spec: {text: \"Rack 7\\n\\n unit 12\\n\"}\n...\n",
        "{type: RegistryCredential, id: a, spec: {registry: a.example:5000, username: b, \
         password: 'correct horse'}}",
        "{type: PluginGrant, id: a, spec: {outputs: [{type: As.example, singular: A1, \
         kind: shared, columns: [{name: B, jsonPath: b}]}]}}",
        "{type: Role, id: a, spec: {resources: [{verbs: [get], types: ['*'], \
         namespaces: [system]}]}}",
        "type: TimeServer\nid: a\nspec: &a\n  server: &b [time.example, '[2001:db8::7]:123']\n\
         labels: {a: b}\n---\ntype: Hostname\nid: &c edge\nspec: {hostname: *c}\n",
        "{type: Hostname, id: a, spec: {hostname: b}}\n---\n\
         {type: Hostname, id: a, spec: {hostname: c}}\n",
        "{type: Partition, id: a, spec: {}}",
    ];
    let mut seeds: Vec<Vec<u8>> = texts.map(|text: &str| text.as_bytes().to_vec()).into();
    seeds.push(format!("{{type: Motd, id: a, spec: {}}}", aliases()).into_bytes());
    seeds
}

/// Ten megabytes in a few lines.
pub fn aliases() -> String {
    let ten = |alias: &str| [alias; 10].join(",");
    let [a, b, c, d] = ["*a", "*b", "*c", "*d"].map(ten);
    format!("[&a {},&b [{a}],&c [{b}],&d [{c}],{d}]", "x".repeat(1000))
}

//! Volumes that the tools of clouds have made, with documents that OpenSSL has signed.

use crate::support::{Boot, FIRST, Machine, OWN, SECOND};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const UUID: &str = "4c4c4544-0051-3610-8052-b4c04f4e3332";
const OTHER_UUID: &str = "11111111-0051-3610-8052-b4c04f4e3332";
const DOCUMENT_TYPE: &str = "text/x-osbuild-node";

/// Runs a tool with input, and returns its output.
fn tool(command: &mut Command, input: &[u8]) -> Vec<u8> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn openssl(words: &[&str], input: &[u8]) -> Vec<u8> {
    tool(Command::new("openssl").args(words), input)
}

/// A key, and a root of trust of TUF that names it.
struct Signer {
    folder: tempfile::TempDir,
    is_p256: bool,
}

impl Signer {
    fn new(is_p256: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key").display().to_string();
        let kind: &[&str] = match is_p256 {
            true => &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
            false => &["-algorithm", "ed25519"],
        };
        openssl(&[&["genpkey", "-out", &key], kind].concat(), b"");
        Signer { folder, is_p256 }
    }

    fn key(&self) -> String {
        self.folder.path().join("key").display().to_string()
    }

    fn root(&self) -> String {
        let key = self.key();
        let (scheme, public) = match self.is_p256 {
            true => {
                let pem = openssl(&["pkey", "-in", &key, "-pubout"], b"");
                ("ecdsa-sha2-nistp256", String::from_utf8(pem).unwrap())
            }
            false => {
                let der = openssl(&["pkey", "-in", &key, "-pubout", "-outform", "DER"], b"");
                let hex = der[der.len() - 32..].iter().map(|byte| format!("{byte:02x}"));
                ("ed25519", hex.collect())
            }
        };
        let (known, other) =
            (serde_json::json!({ "scheme": scheme, "keyval": { "public": public } }), "ff");
        serde_json::json!({ "signed": {
            "keys": { "a": known, "b": { "scheme": "ed25519", "keyval": { "public": other } } },
            "roles": { "targets": { "keyids": ["b", "a", "c"] } },
        } })
        .to_string()
    }

    fn sign(&self, kind: &str, text: &str) -> String {
        let message = format!("DSSEv1 {} {kind} {} {text}", kind.len(), text.len());
        let file = self.folder.path().join("message");
        fs::write(&file, message).unwrap();
        let (key, file) = (self.key(), file.display().to_string());
        let words = ["pkeyutl", "-sign", "-rawin", "-inkey", &key, "-in", &file];
        let digest: &[&str] = if self.is_p256 { &["-digest", "sha256"] } else { &[] };
        let signature = openssl(&[&words[..], digest].concat(), b"");
        serde_json::json!({
            "payloadType": kind,
            "payload": STANDARD.encode(text),
            "signatures": [{ "keyid": "", "sig": STANDARD.encode(signature) }],
        })
        .to_string()
    }
}

/// Writes files below a folder.
fn files(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, bytes) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    folder
}

/// Makes an ISO image with these files.
fn iso(image: &Path, label: &str, content: &[(&str, &[u8])]) {
    let folder = files(content);
    let mut command = Command::new("genisoimage");
    command.args(["-quiet", "-J", "-r", "-V", label, "-o"]).arg(image).arg(folder.path());
    tool(&mut command, b"");
}

/// The image that Ubuntu's own tool makes.
fn cloud_localds(image: &Path, user_data: &str, meta_data: &str, options: &[&str]) {
    let folder = files(&[("user", user_data.as_bytes()), ("meta", meta_data.as_bytes())]);
    let mut command = Command::new("cloud-localds");
    command.args(options).arg(image);
    tool(command.arg(folder.path().join("user")).arg(folder.path().join("meta")), b"");
}

impl Machine {
    fn device(&self, name: &str) -> PathBuf {
        self.path("devices").join(name)
    }

    fn accepts_unsigned(&self) {
        fs::write(self.path("volumes/unsigned"), "").unwrap();
    }

    fn trusts(&self, signer: &Signer) {
        fs::write(self.path("volumes/root.json"), signer.root()).unwrap();
    }

    fn boot_with_volumes(&self) -> Boot {
        self.boot_with(&["--volumes", self.path("volumes").to_str().unwrap()])
    }
}

#[test]
fn unsigned_documents_count_if_the_recipe_says_so() {
    let config_drive: [(&str, &[u8]); 2] = [
        ("openstack/latest/user_data", FIRST.as_bytes()),
        ("openstack/latest/meta_data.json", b"{\"uuid\": \"i-1\", \"name\": \"a\"}"),
    ];
    let makers: [&dyn Fn(&Path); 3] = [
        &|image| cloud_localds(image, FIRST, "instance-id: i-1\n", &[]),
        &|image| cloud_localds(image, FIRST, "instance-id: i-1\n", &["-f", "vfat"]),
        &|image| iso(image, "config-2", &config_drive),
    ];
    for make in makers {
        let machine = Machine::new();
        machine.accepts_unsigned();
        make(&machine.device("vdb"));
        let boot = machine.boot_with_volumes();
        boot.says("in this order: volumes (NoCloud, config drive)");
        boot.says("the volume vdb has a node document, which counts unsigned, as the recipe says");
        boot.says("the node uses it");
        assert_eq!(machine.document().as_deref(), Some(FIRST));
        drop(boot);
        let record = fs::read_to_string(machine.path("osbuild/.bootstrap")).unwrap();
        assert!(record.starts_with("i-1\n"), "{record}");
        cloud_localds(&machine.device("vdb"), SECOND, "instance-id: i-1\n", &[]);
        machine.boot_with_volumes().says("the instance `i-1` had another document at first");
        cloud_localds(&machine.device("vdb"), SECOND, "instance-id: i-2\n", &[]);
        machine.boot_with_volumes().says("the node uses it");
        assert_eq!(machine.document().as_deref(), Some(SECOND));
    }
}

#[test]
fn a_document_that_openssl_has_signed_counts() {
    for is_p256 in [false, true] {
        let (machine, signer) = (Machine::new(), Signer::new(is_p256));
        machine.trusts(&signer);
        let signed = signer.sign(DOCUMENT_TYPE, FIRST);
        cloud_localds(&machine.device("sr0"), &signed, "instance-id: i-1\n", &[]);
        let boot = machine.boot_with_volumes();
        boot.says("the volume sr0 has a node document that the release key has signed");
        boot.says("the node uses it");
        assert_eq!(machine.document().as_deref(), Some(FIRST));
    }
}

#[test]
fn a_document_that_nobody_trusted_has_signed_is_refused_with_volume_and_file() {
    let (signer, thief) = (Signer::new(false), Signer::new(false));
    let good = signer.sign(DOCUMENT_TYPE, FIRST);
    let other_text = good.replace(&STANDARD.encode(FIRST), &STANDARD.encode(SECOND));
    let cases = [
        (FIRST.to_owned(), "it is not signed: see `osbuild node sign`"),
        (thief.sign(DOCUMENT_TYPE, FIRST), "it is not signed by the release key of this image"),
        (other_text, "it is not signed by the release key of this image"),
        (signer.sign("application/vnd.in-toto+json", FIRST), "not a node document"),
        (signer.sign(DOCUMENT_TYPE, "hostnam = \"a\"\n"), "line 1: unknown field `hostnam`"),
        ("{\"payloadType\": 1}".to_owned(), "it is not a DSSE envelope"),
    ];
    for (text, reason) in cases {
        let machine = Machine::new();
        machine.trusts(&signer);
        cloud_localds(&machine.device("vdb"), &text, "instance-id: i-1\n", &[]);
        let boot = machine.boot_with_volumes();
        boot.says_all(&["refused: the volume vdb: user-data: ", reason]);
        assert_eq!(machine.document(), None, "{reason}");
    }
}

#[test]
fn a_document_for_a_machine_counts_on_no_other() {
    let (machine, signer) = (Machine::new(), Signer::new(false));
    machine.trusts(&signer);
    let signed = |machine: &str, text: &str| {
        signer.sign(&format!("{DOCUMENT_TYPE}; machine={machine}"), text)
    };
    let image = machine.device("vdb");
    cloud_localds(&image, &signed(UUID, FIRST), "instance-id: i-1\n", &[]);
    machine.boot_with_volumes().says_all(&[UUID, "the firmware of this one has no identifier"]);
    fs::write(machine.path("dmi/product_uuid"), format!("{}\n", OTHER_UUID.to_uppercase()))
        .unwrap();
    machine.boot_with_volumes().says_all(&["it is for the machine", UUID, OTHER_UUID]);
    assert_eq!(machine.document(), None);
    fs::write(machine.path("dmi/product_uuid"), UUID).unwrap();
    machine.boot_with_volumes().says("the node uses it");
    assert_eq!(machine.document().as_deref(), Some(FIRST));
}

#[test]
fn an_old_signed_document_replaces_none_that_was_placed() {
    let (machine, signer) = (Machine::new(), Signer::new(false));
    machine.trusts(&signer);
    fs::write(machine.path("dmi/product_uuid"), UUID).unwrap();
    let image = machine.device("vdb");
    let place = |kind: &str, text: &str, instance: &str| {
        let meta_data = format!("instance-id: {instance}\n");
        cloud_localds(&image, &signer.sign(kind, text), &meta_data, &[]);
        machine.boot_with_volumes()
    };
    place(DOCUMENT_TYPE, FIRST, "i-1").says("the node uses it");
    place(DOCUMENT_TYPE, SECOND, "i-2").says("had another document at first");
    // The document for this machine is newer than one for any machine, and ends its time.
    place(&format!("{DOCUMENT_TYPE}; machine={UUID}"), SECOND, "i-3").says("the node uses it");
    place(DOCUMENT_TYPE, FIRST, "i-4").says("had another document at first");
    assert_eq!(machine.document().as_deref(), Some(SECOND));
}

#[test]
fn a_document_that_was_signed_to_replace_others_replaces_the_owners_once() {
    let (machine, signer) = (Machine::new(), Signer::new(false));
    machine.trusts(&signer);
    fs::write(machine.path("dmi/product_uuid"), UUID).unwrap();
    let image = machine.device("vdb");
    let place = |time: u64, text: &str| {
        let kind = format!("{DOCUMENT_TYPE}; machine={UUID}; replaces={time}");
        cloud_localds(&image, &signer.sign(&kind, text), "instance-id: i-1\n", &[]);
        machine.boot_with_volumes()
    };
    let document = machine.path("osbuild/node.toml");
    fs::write(&document, OWN).unwrap();
    place(7, FIRST).says("the node uses it");
    assert_eq!(machine.document().as_deref(), Some(FIRST));
    place(6, SECOND).says("had another document at first");
    fs::write(&document, OWN).unwrap();
    place(7, FIRST).says("the node's owner has written it");
    assert_eq!(machine.document().as_deref(), Some(OWN));
    place(8, SECOND).says("the node uses it");
    assert_eq!(machine.document().as_deref(), Some(SECOND));
}

#[test]
fn volumes_with_different_documents_are_refused_and_a_bad_one_beside_a_good_one_is_named() {
    let machine = Machine::new();
    machine.accepts_unsigned();
    cloud_localds(&machine.device("vdb"), FIRST, "instance-id: i-1\n", &[]);
    cloud_localds(&machine.device("vdc"), SECOND, "instance-id: i-1\n", &[]);
    let boot = machine.boot_with_volumes();
    boot.says("refused: the volumes vdb and vdc have different documents: take one out");
    assert_eq!(machine.document(), None);
    cloud_localds(&machine.device("vdc"), "hostnam = 1\n", "instance-id: i-1\n", &[]);
    let boot = machine.boot_with_volumes();
    boot.says("not used: the volume vdc: user-data: line 1: unknown field `hostnam`");
    boot.says("the node uses it");
    assert_eq!(machine.document().as_deref(), Some(FIRST));
}

#[test]
fn a_damaged_volume_is_named_and_one_without_user_data_is_passed_over() {
    let machine = Machine::new();
    machine.accepts_unsigned();
    let image = machine.device("vdb");
    let large = vec![b'#'; (128 << 10) + 1];
    iso(&image, "cidata", &[("user-data", &large)]);
    machine.boot_with_volumes().says("refused: the volume vdb: user-data: `user-data` has 131073");
    cloud_localds(&image, FIRST, "instance-id: i-1\n", &[]);
    let bytes = fs::read(&image).unwrap();
    let at = bytes.windows(FIRST.len()).position(|window| window == FIRST.as_bytes()).unwrap();
    fs::write(&image, &bytes[..at]).unwrap();
    let boot = machine.boot_with_volumes();
    boot.says("refused: the volume vdb: user-data: the volume ends within a file");
    iso(&image, "cidata", &[("user-data", b"\n"), ("meta-data", b"instance-id: i-1\n")]);
    let boot = machine.boot_with_volumes();
    boot.says("the volume vdb has no user data");
    boot.says("no source has a document");
    assert_eq!(machine.document(), None);
}

#[test]
fn a_machine_without_volumes_has_no_document_after_a_while() {
    let machine = Machine::new();
    machine.accepts_unsigned();
    machine.boot_with_volumes().says("no source has a document");
    let asked = machine.requests.try_iter().filter(|request| request == "volume").count();
    assert!(asked > 5, "a volume may appear late: {asked} requests");
}

#[test]
fn a_volume_comes_before_a_metadata_service() {
    let machine = Machine::new();
    machine.accepts_unsigned();
    cloud_localds(&machine.device("vdb"), FIRST, "instance-id: i-1\n", &[]);
    fs::write(machine.path("user-data"), SECOND).unwrap();
    let _service = machine.service(0);
    let (volumes, url) = (machine.path("volumes"), format!("http://127.0.0.1:{}", machine.port));
    let boot = machine.boot_with(&["--imds", &url, "--volumes", volumes.to_str().unwrap()]);
    boot.says("in this order: volumes (NoCloud, config drive), EC2");
    boot.says("the node uses it");
    assert_eq!(machine.document().as_deref(), Some(FIRST));
}

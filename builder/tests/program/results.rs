//! Results that one machine exports and another imports.

use crate::builds::done;
use crate::registry::{Registry, USER};
use crate::releases::workshop;
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::{dependencies, open, open_with, products};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild::engine::store::Store;
use osbuild::ship::results::Folder;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A machine that has exported its results to a folder, and the folder.
fn exported() -> (Scratch, String) {
    let scratch = workshop();
    let folder = scratch.path("results").display().to_string();
    let ran = scratch.osbuild(&["results", "export", RECIPE, "--to", &folder, "--key", "mine"]);
    done(&ran);
    assert_eq!(ran.stdout, format!("{folder}\n"));
    (scratch, folder)
}

/// Another machine with an empty store, and the root of trust of `from`'s keys.
fn reader(from: &Scratch) -> (Scratch, String) {
    (open(), from.project().join("keys/mine/root.json").display().to_string())
}

/// Builds, and returns the names of the steps that ran.
fn steps_that_ran(scratch: &Scratch) -> Vec<String> {
    let ran = scratch.osbuild(&["build", RECIPE]);
    done(&ran);
    // Steps in this process, whose products are large and quick to make, are in no store.
    let own = ["uki ", "image ", "initramfs ", "signature ", "note: ", "keys "];
    let is_own = |line: &&str| own.iter().any(|start| line.starts_with(start));
    ran.stderr.lines().filter(|line| !is_own(line)).map(str::to_owned).collect()
}

#[test]
fn imported_results_give_the_same_image_without_a_step() {
    let (writer, folder) = exported();
    done(&writer.osbuild(&["build", RECIPE, "--unsigned"]));
    let (reader, root) = reader(&writer);

    let ran = reader.osbuild(&["results", "import", &folder, "--root", &root, "--json"]);
    done(&ran);
    let imported: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(imported["results"].as_u64().unwrap() > 10, "{imported}");
    assert_eq!(steps_that_ran(&reader), [""; 0]);
    done(&reader.osbuild(&["build", RECIPE, "--unsigned"]));
    assert_eq!(products(&reader), products(&writer));

    let again = reader.osbuild(&["results", "import", &folder, "--root", &root, "--json"]);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&again["results"], &again["known"]), (&json!(0), &imported["results"]));
    assert_eq!(again["bytes"], 0);
}

#[test]
fn imported_results_need_neither_sources_nor_a_network() {
    let (writer, folder) = exported();
    done(&writer.osbuild(&["build", RECIPE, "--unsigned"]));
    let (reader, root) = reader(&writer);
    reader.fill_store(|_| false);
    done(&reader.osbuild(&["results", "import", &folder, "--root", &root]));
    done(&reader.osbuild(&["build", RECIPE, "--unsigned", "--offline"]));
    assert_eq!(reader.stored_sources(), [""; 0]);
    assert_eq!(products(&reader), products(&writer));
}

#[test]
fn files_that_no_build_needs_may_be_gone_before_an_export() {
    let (writer, folder) = exported();
    done(&writer.osbuild(&["build", RECIPE, "--unsigned"]));
    let store = Store::open(writer.path("cache/osbuild")).unwrap();
    assert!(store.contains(&dependencies()));
    store.remove(&dependencies()).unwrap();
    done(&writer.osbuild(&["results", "export", RECIPE, "--to", &folder, "--key", "mine"]));
    assert!(!store.contains(&dependencies()));

    let (reader, root) = reader(&writer);
    reader.fill_store(|_| false);
    let import = ["results", "import", &folder, "--root", &root, "--json"];
    done(&reader.osbuild(&import));
    done(&reader.osbuild(&["build", RECIPE, "--unsigned", "--offline"]));
    assert_eq!(products(&reader), products(&writer));
    let again: Value = serde_json::from_str(&reader.osbuild(&import).stdout).unwrap();
    assert_eq!((&again["results"], &again["bytes"]), (&json!(0), &json!(0)), "{again}");
}

/// A function of the compilers with which each machine makes another kernel.
const OTHER_KERNELS: &str = "kernel() { cat /proc/sys/kernel/random/uuid >release; \
                             cp /usr/lib/image.efi kernel; }\n";

/// Two machines that make different kernels, and the folder with the results of the first one.
fn with_other_kernels() -> (Scratch, Scratch, String) {
    let (writer, reader) = (open_with(OTHER_KERNELS), open_with(OTHER_KERNELS));
    let folder = writer.path("results").display().to_string();
    done(&writer.osbuild(&["keys", "new", "mine", "--as-of", "2026-01-01"]));
    done(&writer.osbuild(&["results", "export", RECIPE, "--to", &folder, "--key", "mine"]));
    (writer, reader, folder)
}

#[test]
fn an_import_leaves_the_results_of_this_machine_in_place() {
    let (writer, reader, folder) = with_other_kernels();
    let build = || {
        let ran = reader.osbuild(&["build", RECIPE, "--unsigned", "--json"]);
        done(&ran);
        let json: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(json["steps"]["kernel arm64"], "here", "{}", json["steps"]);
        products(&reader)
    };
    let before = build();
    let root = writer.project().join("keys/mine/root.json").display().to_string();
    done(&reader.osbuild(&["results", "import", &folder, "--root", &root]));
    assert_eq!(build(), before);
}

#[test]
fn a_rebuild_accepts_good_imported_results_and_refuses_others() {
    let rebuild = ["build", RECIPE, "--unsigned", "--rebuild"];
    let (writer, folder) = exported();
    let (good, root) = reader(&writer);
    done(&good.osbuild(&["results", "import", &folder, "--root", &root]));
    let ran = good.osbuild(&rebuild);
    done(&ran);
    assert!(ran.stderr.contains("kernel arm64 "), "{}", ran.stderr);

    let (writer, other, folder) = with_other_kernels();
    let root = writer.project().join("keys/mine/root.json").display().to_string();
    done(&other.osbuild(&["results", "import", &folder, "--root", &root]));
    done(&other.osbuild(&["build", RECIPE, "--unsigned"]));
    let ran = other.osbuild(&rebuild);
    let problem = "error: `kernel arm64` gave other bytes than the last time";
    assert!(ran.code == Some(4) && ran.stderr.contains(problem), "{}", ran.stderr);
}

#[test]
fn a_release_does_not_count_imported_results() {
    let (writer, folder) = exported();
    let (reader, root) = reader(&writer);
    done(&reader.osbuild(&["results", "import", &folder, "--root", &root]));
    done(&reader.osbuild(&["keys", "new", "mine", "--as-of", "2026-01-01"]));
    let release = ["release", RECIPE, "--key", "mine", "--as-of", "2026-11-21"];
    let ran = reader.osbuild(&[&release[..], &["--remote-trusted"]].concat());
    done(&ran);
    assert!(!ran.stderr.contains("kernel arm64 "), "{}", ran.stderr);
    let made = |wanted: &dyn Fn(&str) -> bool| {
        let statement = crate::provenance::provenance(&reader);
        let steps = statement["predicate"]["runDetails"]["byproducts"].as_array().unwrap().clone();
        steps.iter().all(|step| wanted(step["annotations"]["made"].as_str().unwrap()))
    };
    assert!(made(&|origin| origin.starts_with("results@sha256:")));

    reader.edit("recipes/small.toml", "inherit", "version = \"1.35.8-2\"\ninherit");
    let ran = reader.osbuild(&release);
    done(&ran);
    assert!(ran.stderr.contains("kernel arm64 "), "{}", ran.stderr);
}

#[test]
fn a_folder_that_the_key_has_not_signed_or_that_is_damaged_is_refused() {
    let (writer, folder) = exported();
    let (reader, root) = reader(&writer);
    done(&reader.osbuild(&["keys", "new", "other", "--as-of", "2026-01-01"]));
    let refused = |flags: &[&str], code: i32, problem: &str| {
        let ran = reader.osbuild(&[&["results", "import"], flags].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(problem), "{problem}: {}", ran.stderr);
    };
    refused(&[&folder, "--key", "other"], 4, "it is not signed by the release key");
    refused(&["nothing", "--root", &root], 2, "`nothing` has no exported results");
    refused(&[&folder], 2, "required arguments were not provided");
    refused(&["oci://", "--root", &root], 2, "names no artifact in a registry");
    refused(&["oci://127.0.0.1:1/a:b", "--root", &root], 1, "cannot reach the registry");
    let offline = ["oci://127.0.0.1:1/a:b", "--root", &root, "--offline"];
    refused(&offline, 2, "`--offline` forbids asking the registry");

    let blobs = Path::new(&folder).join("blobs/sha256");
    let largest = fs::read_dir(&blobs).unwrap().map(|entry| entry.unwrap().path());
    let largest = largest.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    bytes[100] ^= 1;
    fs::write(&largest, bytes).unwrap();
    refused(&[&folder, "--root", &root], 4, "has other bytes in place of the blob");
    fs::remove_file(&largest).unwrap();
    refused(&[&folder, "--root", &root], 4, "lacks the blob");
    done(&reader.osbuild(&["build", RECIPE]));
}

#[test]
fn a_folder_with_other_files_is_not_overwritten() {
    let (writer, _) = exported();
    let taken = writer.path("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("letter"), "dear").unwrap();
    let to = taken.display().to_string();
    let ran = writer.osbuild(&["results", "export", RECIPE, "--to", &to, "--key", "mine"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 1);
}

#[test]
fn a_folder_with_other_images_keeps_them() {
    let (writer, folder) = exported();
    let index = Path::new(&folder).join("index.json");
    let blob = Path::new(&folder).join("blobs/sha256").join("0".repeat(64));
    fs::write(&blob, "a layer").unwrap();
    let own: Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    let digest = format!("sha256:{}", "0".repeat(64));
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let other = json!({ "mediaType": media_type, "digest": digest, "size": 7 });
    for manifests in [json!([other]), json!([own["manifests"][0], other]), Value::Null] {
        let text = json!({ "schemaVersion": 2, "manifests": manifests }).to_string();
        fs::write(&index, &text).unwrap();
        let ran = writer.osbuild(&["results", "export", RECIPE, "--to", &folder, "--key", "mine"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert_eq!(fs::read(&blob).unwrap(), b"a layer");
        assert_eq!(fs::read_to_string(&index).unwrap(), text);
    }
}

#[test]
fn an_interrupted_first_export_is_completed() {
    let writer = workshop();
    let folder = Folder::at(&writer.path("results"));
    folder.open().unwrap();
    let blob = folder.file(&folder.put(b"the file of a step").unwrap());
    let to = writer.path("results").display().to_string();
    done(&writer.osbuild(&["results", "export", RECIPE, "--to", &to, "--key", "mine"]));
    assert!(folder.manifest().is_ok() && !blob.exists());
}

#[test]
fn skopeo_reads_the_folder_and_a_second_export_leaves_nothing_of_the_first() {
    let (writer, folder) = exported();
    let manifest = || {
        let output =
            Command::new("skopeo").args(["inspect", "--raw", &format!("oci:{folder}")]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let first = manifest();
    assert_eq!(first["artifactType"], "application/vnd.osbuild.results.v1");
    writer.edit("recipes/small.toml", "inherit", "version = \"1.35.8-2\"\ninherit");
    let ran = writer.osbuild(&["results", "export", RECIPE, "--to", &folder, "--key", "mine"]);
    done(&ran);
    let second = manifest();
    let files = fs::read_dir(Path::new(&folder).join("blobs/sha256")).unwrap().count();
    let named = second["layers"].as_array().unwrap().len() + 2;
    assert_eq!(files, named, "each layer, the configuration and the manifest");
}

/// Imports from a registry, and checks that the build runs no step.
#[track_caller]
fn import(reader: &Scratch, name: &str, root: &str) {
    done(&reader.osbuild(&["results", "import", name, "--root", root]));
    assert_eq!(steps_that_ran(reader), [""; 0]);
}

#[test]
fn a_registry_carries_results_to_another_machine() {
    let registry = Registry::start();
    let writer = workshop();
    let (reader, root) = reader(&writer);
    let name = registry.name("team/results:small");
    let export = |writer: &Scratch| -> Ran {
        writer.osbuild(&["results", "export", RECIPE, "--to", &name, "--key", "mine"])
    };
    let missing = reader.osbuild(&["results", "import", &name, "--root", &root]);
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    let ran = export(&writer);
    done(&ran);
    assert_eq!(ran.stdout, format!("{name}\n"));
    import(&reader, &name, &root);
    done(&export(&writer));

    registry.damage();
    let other = open();
    let ran = other.osbuild(&["results", "import", &name, "--root", &root]);
    assert_ne!(ran.code, Some(0), "{}", ran.stderr);
    done(&other.osbuild(&["build", RECIPE]));
}

#[test]
fn a_registry_with_a_private_authority_is_reached_with_the_authoritys_certificate() {
    let (registry, authority) = Registry::start_with_tls();
    let writer = workshop();
    let (reader, root) = reader(&writer);
    let name = registry.name("team/results:small");
    let place = |machine: &Scratch, certificate: &str| {
        let folder = format!("home/.config/containers/certs.d/{}", registry.address);
        let folder = machine.path(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("ca.crt"), certificate).unwrap();
    };
    let export = ["results", "export", RECIPE, "--to", &name, "--key", "mine"];
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    place(&writer, &other.cert.pem());
    let ran = writer.osbuild(&export);
    assert!(ran.code == Some(1) && ran.stderr.contains("cannot reach"), "{}", ran.stderr);
    place(&writer, &authority);
    done(&writer.osbuild(&export));
    place(&reader, &authority);
    import(&reader, &name, &root);
}

#[test]
fn a_registry_is_asked_also_if_docker_keeps_no_password_for_it() {
    let registry = Registry::start();
    let mut reader = workshop();
    let tools = reader.path("tools");
    let program = tools.join("docker-credential-keychain");
    fs::create_dir(&tools).unwrap();
    let answer = |script: &str| {
        // It reads the registry's name, as the real ones do.
        fs::write(&program, format!("#!/bin/sh\ncat >&2\n{script}\nexit 1\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    reader.set("PATH", format!("{}:{}", tools.display(), std::env::var("PATH").unwrap()));
    let folder = reader.path("home/.docker");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.json"), "{\"credsStore\": \"keychain\"}").unwrap();
    let import = || {
        let name = registry.name("team/results:absent");
        reader.osbuild(&["results", "import", &name, "--key", "mine"])
    };
    answer("echo credentials not found in native keychain");
    let ran = import();
    assert!(ran.code == Some(2) && ran.stderr.contains("the registry has no"), "{}", ran.stderr);
    answer("echo correct horse; echo the keychain is locked >&2");
    let ran = import();
    assert!(ran.code == Some(2) && ran.stderr.contains("is locked"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("horse"), "{}", ran.stderr);
}

#[test]
fn ctrl_c_ends_the_wait_for_a_silent_registry() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let scratch = workshop();
    let name = format!("oci://{}/team/results:small", silent.local_addr().unwrap());
    let words = ["results", "import", &name, "--key", "mine"];
    let child = scratch.command(&[], &words).stderr(Stdio::piped()).spawn().unwrap();
    let _connection = silent.accept().unwrap();
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let began = Instant::now();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    assert!(began.elapsed() < Duration::from_secs(10), "it waited for the registry");
}

#[test]
fn a_registry_on_the_loopback_is_not_reached_over_a_proxy() {
    let registry = Registry::start();
    let mut reader = workshop();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    reader.set("HTTP_PROXY", format!("http://{}", proxy.local_addr().unwrap()));
    let name = registry.name("team/results:absent");
    let ran = reader.osbuild(&["results", "import", &name, "--key", "mine"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("the registry has no"), "{}", ran.stderr);
    proxy.set_nonblocking(true).unwrap();
    assert!(proxy.accept().is_err(), "the proxy got a request");
}

#[test]
fn a_registry_gets_the_password_of_dockers_file() {
    let registry = Registry::start_with_user();
    let writer = workshop();
    let (reader, root) = reader(&writer);
    let name = registry.name("team/results:small");
    let export = ["results", "export", RECIPE, "--to", &name, "--key", "mine"];
    let ran = writer.osbuild(&export);
    assert!(ran.code == Some(1) && ran.stderr.contains("docker login"), "{}", ran.stderr);
    let (user, password) = USER;
    let auth = STANDARD.encode(format!("{user}:{password}"));
    let config = json!({ "auths": { registry.address.to_string(): { "auth": auth } } });
    for machine in [&writer, &reader] {
        let folder = machine.path("home/.docker");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.json"), config.to_string()).unwrap();
    }
    let ran = writer.osbuild(&export);
    done(&ran);
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(password));
    import(&reader, &name, &root);
}

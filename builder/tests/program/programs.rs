//! A recipe of programs for the build machine.

use crate::builds::done;
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::open_with;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const COMPONENT: &str = "\
about = \"Keeps everything\"

[go]
module = \"example.org/store/v3\"

[go.programs]
store = \".\"
store-reader = \"./reader\"
";

const LAB: &str = "\
[programs]
store = { component = \"store\", version = \"3.6.1\" }
store-reader = { component = \"store\", version = \"3.6.1\" }

[toolchains]
go = \"1.26.8\"

[sandbox]
packages = [\"bash\"]
";

/// Changes `e_machine` in the ELF header of the program, which is for the node's arm64, to amd64.
const FOR_THIS_MACHINE: &str = "program() { sound \"$1\"; printf '\\076' | dd of=\"$1\" bs=1 \
                                seek=18 conv=notrunc 2>/dev/null; }\n";

fn lab(fault: &str) -> Scratch {
    let scratch = open_with(fault);
    let folder = scratch.project().join("components/lab/store");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("component.toml"), COMPONENT).unwrap();
    scratch.add_programs("lab", LAB);
    scratch
}

#[track_caller]
fn refused(ran: &Ran, code: i32, words: &str) {
    assert_eq!(ran.code, Some(code), "{}", ran.stderr);
    assert!(ran.stderr.contains(words), "{}", ran.stderr);
}

#[test]
fn programs_for_this_machine_are_built_into_out() {
    let scratch = lab(FOR_THIS_MACHINE);
    let folder = scratch.project().join("out/lab/bin");
    let ran = scratch.osbuild(&["build", "lab"]);
    done(&ran);
    assert_eq!(ran.stdout, format!("{}\n", folder.display()));
    for name in ["store", "store-reader"] {
        assert_eq!(fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777, 0o755);
    }
    let steps = ran.stderr.lines().filter(|line| line.starts_with("store amd64 ")).count();
    assert_eq!(steps, 1, "both come from one compilation: {}", ran.stderr);
}

#[test]
fn a_changed_or_removed_program_is_restored_without_compiling() {
    let scratch = lab(FOR_THIS_MACHINE);
    done(&scratch.osbuild(&["build", "lab"]));
    let path = |name: &str| scratch.project().join("out/lab/bin").join(name);
    let before = fs::read(path("store")).unwrap();
    fs::write(path("store"), "something else").unwrap();
    fs::remove_file(path("store-reader")).unwrap();
    let ran = scratch.osbuild(&["build", "lab", "--json"]);
    done(&ran);
    assert!(!ran.stderr.contains("store amd64"), "{}", ran.stderr);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["programs"], serde_json::json!([path("store"), path("store-reader")]));
    assert!(fs::read(path("store")).unwrap() == before && path("store-reader").is_file());
}

#[test]
fn a_component_also_makes_test_programs() {
    let scratch = lab(FOR_THIS_MACHINE);
    let component = "components/lab/store/component.toml";
    let text = format!("{COMPONENT}\n[go.tests]\nstore-tests = \"./reader\"\n");
    fs::write(scratch.project().join(component), text).unwrap();
    let more = "store-tests = { component = \"store\", version = \"3.6.1\" }\n";
    scratch.add_programs("lab", &LAB.replacen("[programs]\n", &format!("[programs]\n{more}"), 1));
    done(&scratch.osbuild(&["build", "lab"]));
    for name in ["store", "store-tests"] {
        assert!(scratch.project().join("out/lab/bin").join(name).is_file(), "{name}");
    }
    scratch.edit(component, "store-tests = \"./reader\"", "store-tests = \".\"");
    let stale = "recipes/lab.lock";
    let ran = scratch.osbuild(&["build", "lab"]);
    refused(&ran, 3, stale);
}

#[test]
fn a_program_for_another_machine_is_refused() {
    refused(&lab("").osbuild(&["build", "lab"]), 1, "`store`");
}

#[test]
fn programs_are_exported_planned_and_locked_like_a_node() {
    let scratch = lab(FOR_THIS_MACHINE);
    let folder = scratch.path("exported").display().to_string();
    done(&scratch.osbuild(&["sources", "export", "lab", &folder]));
    fs::remove_dir_all(scratch.path("cache")).unwrap();
    done(&scratch.osbuild(&["build", "lab", "--sources", &folder]));
    let plan = scratch.osbuild(&["plan", "lab"]);
    assert!(
        plan.stdout.contains("store-reader = { component = \"store\", version = \"3.6.1\""),
        "{}",
        plan.stdout
    );
    let before = scratch.read("recipes/lab.lock");
    done(&scratch.osbuild(&["lock", "lab", "--offline"]));
    assert_eq!(scratch.read("recipes/lab.lock"), before);
    scratch.edit("recipes/lab.toml", "3.6.1", "3.6.2");
    refused(
        &scratch.osbuild(&["build", "lab"]),
        3,
        "store: `v3.6.2` is required, `v3.6.1` is locked",
    );
}

#[test]
fn a_program_can_come_from_a_component_of_the_lab_or_of_a_node() {
    let scratch = lab("");
    let programs = |component: &str| {
        scratch.edit("recipes/lab.toml", "[programs]\n", &format!("[programs]\n{component}"))
    };
    programs("runc = { component = \"runc\", version = \"1.4.3\" }\n");
    done(&scratch.osbuild(&["check", "lab"]));
    programs("mount = { component = \"mount\", version = \"1.0.0\" }\n");
    refused(&scratch.osbuild(&["check", "lab"]), 2, "component `mount` cannot be used here");
    programs("nothing = { component = \"nothing\", version = \"1.0.0\" }\n");
    refused(
        &scratch.osbuild(&["check", "lab"]),
        2,
        "there is no `components/lab/nothing/component.toml`",
    );
}

#[test]
fn flags_for_nodes_are_refused_for_programs() {
    let scratch = lab("");
    for verb in ["run", "release", "skew", "flash"] {
        refused(
            &scratch.osbuild(&[verb, "lab"]),
            2,
            "recipe `lab` makes programs for this machine, not a node",
        );
    }
    refused(
        &scratch.osbuild(&["build", "lab", "--format", "qcow2"]),
        2,
        "`--format` is for images",
    );
    refused(&scratch.osbuild(&["build", "lab", "--unsigned"]), 2, "`--unsigned` is for images");
    scratch.edit("recipes/lab.toml", "[programs]\n", "board = \"bench\"\n\n[programs]\n");
    refused(
        &scratch.osbuild(&["check"]),
        2,
        "recipes/lab.toml:1: a recipe with `[programs]` has no `board`",
    );
    done(&scratch.osbuild(&["plan", RECIPE]));
}

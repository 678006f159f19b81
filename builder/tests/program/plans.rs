//! `osbuild plan`

use super::builds::done;
use super::scratch::{RECIPE, Scratch};
use super::workshop::open;
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::process::Command;

/// An exception from the kubelet's peg, which has the only date in a recipe.
const EXCEPTION: &str = "\n[kubernetes.exception]\nreason = \"a test\"\nuntil = 2027-01-31\n";

#[test]
fn a_plan_as_json_has_the_origin_of_each_value() {
    let scratch = Scratch::new();
    let output = scratch.osbuild(&["plan", RECIPE, "--json"]).stdout;
    let plan: Value = serde_json::from_str(&output).unwrap();
    let origins = plan["origins"].as_object().unwrap();
    let mut seen = 0;
    for section in ["board", "kernel.options"] {
        let values = section.split('.').fold(&plan, |value, key| &value[key]).as_object().unwrap();
        for name in values
            .iter()
            .filter(|(name, value)| *name != "name" && !value.is_object())
            .map(|(name, _)| name)
        {
            let origin = origins[&format!("{section}.{name}")].as_str().unwrap();
            let (file, line) = origin.split_once(':').unwrap();
            let line = scratch
                .read(file)
                .lines()
                .nth(line.parse::<usize>().unwrap() - 1)
                .unwrap()
                .to_owned();
            assert!(line.contains(name.as_str()), "{section}.{name}: {origin}: {line}");
            seen += 1;
        }
    }
    assert!(seen > 5, "{output}");
}

#[test]
fn a_date_is_a_date_in_json() {
    let scratch = Scratch::new();
    let recipe = format!("recipes/{RECIPE}.toml");
    let text = scratch.read(&recipe) + EXCEPTION;
    std::fs::write(scratch.project().join(recipe), text).unwrap();
    let plan: Value =
        serde_json::from_str(&scratch.osbuild(&["plan", RECIPE, "--json"]).stdout).unwrap();
    assert_eq!(plan["kubernetes"]["exception"]["until"], "2027-01-31");
}

#[test]
fn the_skew_table_has_the_last_day_of_support_and_a_separate_reason() {
    let scratch = Scratch::new();
    let released = "released = 2025-04-23, end-of-life = ";
    let table = "components/kubelet/releases.toml";
    scratch.edit(table, &format!("{released}2999"), &format!("{released}2020"));
    let output = scratch.osbuild(&["skew", RECIPE]).stdout;
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines.contains(&"1.35         joins  until 2999-02-28"), "{output}");
    let ended = "1.33         no     support ended 2020-06-28  a kubelet must not be newer";
    assert!(lines.iter().any(|line| line.starts_with(ended)), "{output}");
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let scratch = Scratch::new();
    let mut plan = scratch.command(&[], &["plan", RECIPE]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ran = plan
        .stdout(full)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    let output = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(
        (
            ran.status.code(),
            output.contains("error: cannot write to stdout\n  caused by: No space left on device")
        ),
        (Some(1), true),
        "{output}"
    );
}

#[test]
fn special_files_in_the_project_do_not_break_verbs() {
    let scratch = open();
    let components = scratch.project().join("components");
    // Lock files of editors, dangling links, and a link to its own folder.
    symlink("somebody@host.4711:1", components.join("kubelet/.#component.toml")).unwrap();
    symlink("/nonexistent/components", components.join("elsewhere")).unwrap();
    symlink("..", components.join("again")).unwrap();
    symlink("turns", components.join("turns")).unwrap();
    symlink("somebody@host.4711:1", scratch.project().join("init/src/.#main.rs")).unwrap();
    assert!(Command::new("mkfifo").arg(components.join("pipe")).status().unwrap().success());
    for words in [
        &["check"][..],
        &["plan", RECIPE],
        &["skew", RECIPE],
        &["sources", "export", RECIPE, "kept"],
        &["build", RECIPE],
    ] {
        done(&scratch.osbuild(words));
    }
}

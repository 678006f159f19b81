//! `osbuild summary`: the whole report, its JSON, and its message when there is nothing to report
//! on. cmark-gfm renders it as the sites that show pull requests do.

use crate::builds::{done, with_second};
use crate::diff::{NEW, OLD, disk, expected, uki};
use crate::releases::release;
use crate::scratch::{RECIPE, Scratch, copy};
use crate::workshop::open_with_layers;
use osbuild_slots::State;
use std::fs;
use std::process::Command;

/// A project whose last build made the newer node, with the older one beside it.
fn project() -> Scratch {
    let scratch = Scratch::new();
    let out = scratch.project().join("out").join(RECIPE);
    fs::create_dir_all(&out).unwrap();
    fs::write(
        out.join("image.raw"),
        disk(&NEW, State { priority: 1, tries: 15, successful: false }),
    )
    .unwrap();
    fs::write(scratch.project().join("old.efi"), uki(&OLD)).unwrap();
    scratch
}

#[test]
fn a_summary_lists_version_changes_and_growth_of_each_component() {
    let ran = project().osbuild(&["summary", RECIPE, "--against", "old.efi"]);
    done(&ran);
    assert_eq!(ran.stdout, fs::read_to_string(expected("summary.md")).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("summary.md");
    fs::write(&file, &ran.stdout).unwrap();
    let html = Command::new("cmark-gfm").args(["--extension", "table"]).arg(&file).output();
    let html =
        String::from_utf8(html.expect("Debian's package cmark-gfm is installed").stdout).unwrap();
    assert_eq!(html.matches("<table>").count(), 4, "{html}");
    assert!(html.contains("<tr>\n<td>init</td>\n<td>0.1.0</td>\n<td>0.2.0</td>\n</tr>"), "{html}");
}

#[test]
fn the_same_report_is_there_as_json() {
    let ran = project().osbuild(&["summary", RECIPE, "--against", "old.efi", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let change = serde_json::json!([{ "name": "init", "a": "0.1.0", "b": "0.2.0" }]);
    assert_eq!((&json["moved"], &json["others"]["files"]), (&change, &5.into()));
}

#[test]
fn each_recipe_is_a_line_of_json() {
    let ran = project().osbuild(&["summary", RECIPE, "--against", "old.efi", "--json"]);
    done(&ran);
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
}

#[test]
fn the_reports_of_several_recipes_are_in_the_order_of_the_command_line() {
    let scratch = project();
    with_second(&scratch);
    let out = scratch.project().join("out");
    copy(&out.join(RECIPE), &out.join("second"));
    let summary = |recipes: &[&str]| {
        let ran = scratch.osbuild(&[&["summary", "--against", "old.efi"], recipes].concat());
        done(&ran);
        ran.stdout
    };
    let (one, two) = (summary(&["second"]), summary(&[RECIPE]));
    assert_eq!(summary(&["second", RECIPE]), format!("{}\n\n{two}", one.trim_end()));
    assert_eq!(summary(&["second", RECIPE, "--json"]).lines().count(), 2);
}

#[test]
fn a_summary_needs_no_release_but_needs_a_build() {
    let scratch = project();
    let ran = scratch.osbuild(&["summary", RECIPE]);
    done(&ran);
    assert!(
        ran.stdout.contains("There was no release to compare it with.")
            && !ran.stdout.contains("change"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("name one with `--against FOLDER`"), "{}", ran.stderr);
    fs::remove_file(scratch.project().join("out").join(RECIPE).join("image.raw")).unwrap();
    let ran = scratch.osbuild(&["summary", RECIPE]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(
        ran.stderr.ends_with("hint: build it: `cargo osbuild build small`\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_file_that_is_missing_is_named_once() {
    let ran = project().osbuild(&["summary", RECIPE, "--against", "missing.efi"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.matches("missing.efi").count()),
        (Some(2), "", 1),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_folder_without_a_release_of_the_recipe_is_not_compared() {
    let scratch = project();
    fs::create_dir(scratch.project().join("updates")).unwrap();
    let ran = scratch.osbuild(&["summary", RECIPE, "--against", "updates"]);
    done(&ran);
    assert!(ran.stdout.contains("There was no release to compare it with."), "{}", ran.stdout);
}

#[test]
fn a_folder_of_something_else_is_an_error() {
    let ran = project().osbuild(&["summary", RECIPE, "--against", "recipes"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("`recipes` is not a folder of releases"), "{}", ran.stderr);
}

#[test]
fn a_release_with_a_rollout_is_compared() {
    let scratch = open_with_layers();
    done(&scratch.osbuild(&["keys", "new", "mine", "--as-of", "2026-01-01"]));
    let file = scratch.path("rollout.toml");
    fs::write(&file, "waves = [{ nodes = '1%' }]").unwrap();
    done(&release(&scratch, &["--rollout", &file.display().to_string()]));
    let ran = scratch.osbuild(&["summary", RECIPE]);
    done(&ran);
    assert!(ran.stdout.contains("release@small_1.35.8"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn all_recipes_of_nodes_are_reported_beside_one_of_programs() {
    let scratch = project();
    let recipes = scratch.project().join("recipes");
    fs::write(recipes.join("lab.toml"), "[programs]\n").unwrap();
    fs::write(recipes.join("lab.lock"), "").unwrap();
    let ran = scratch.osbuild(&["summary", "--all", "--against", "old.efi"]);
    done(&ran);
    let alone = scratch.osbuild(&["summary", RECIPE, "--against", "old.efi"]);
    assert_eq!(ran.stdout, alone.stdout);
}

//! The recommendations of the Kernel Self-Protection Project: every node follows them, or a
//! fragment or the sysctls give a reason.

use crate::{TODAY, shipped};
use osbuild::plan::{self, Architecture, Plan, Project, Strictness};
use std::collections::BTreeSet;

const LIST: &str = "components/linux/kspp.txt";
const SYSCTLS: &str = "components/init/sysctl.conf";
const FRAGMENTS: &str = "components/linux/fragments/";

/// The minimum length of a reason in bytes.
const MIN_REASON: usize = 20;

#[test]
fn each_kspp_recommendation_is_set_or_has_a_reason() {
    let project = shipped();
    let reasons = reasons(&project);
    let mut missing = BTreeSet::new();
    for plan in plans(&project) {
        let lacks = recommended(&project, plan.architecture)
            .into_iter()
            .filter(|line| !takes(&project, &plan, line));
        missing.extend(
            lacks
                .filter(|line| !reasons.contains(line))
                .map(|line| format!("{}: {line}", plan.recipe)),
        );
    }
    assert!(missing.is_empty(), "neither set nor with a reason: {missing:#?}");
}

#[test]
fn every_reason_is_for_a_recommendation_that_is_not_set() {
    let project = shipped();
    let mut stale = reasons(&project);
    for plan in plans(&project) {
        let recommended = recommended(&project, plan.architecture);
        stale.retain(|line| !recommended.contains(line) || takes(&project, &plan, line));
    }
    assert!(stale.is_empty(), "{stale:#?}");
}

#[test]
fn a_removed_setting_is_noticed() {
    let mut project = shipped();
    let plan = plans(&project).remove(0);
    assert!(
        takes(&project, &plan, "kernel.dmesg_restrict = 1")
            && takes(&project, &plan, "CONFIG_DEVMEM=n")
    );
    assert!(
        !takes(&project, &plan, "CONFIG_DEVMEM=y") && !takes(&project, &plan, "mitigations=off")
    );
    let sysctls = text(&project, SYSCTLS).replace("kernel.dmesg_restrict = 1\n", "");
    project.files.insert(SYSCTLS.into(), sysctls.into_bytes());
    assert!(!takes(&project, &plan, "kernel.dmesg_restrict = 1"));
}

fn plans(project: &Project) -> Vec<Plan> {
    let resolve =
        |recipe: &String| plan::resolve(project, recipe, TODAY, Strictness::Lock).unwrap();
    plan::buildable(project).iter().map(resolve).collect()
}

fn text<'p>(project: &'p Project, path: &str) -> &'p str {
    std::str::from_utf8(&project.files[path]).unwrap()
}

/// The list's lines for an architecture.
fn recommended(project: &Project, architecture: Architecture) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_ours = false;
    for line in
        text(project, LIST).lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let others = Architecture::ALL.into_iter().filter(|other| *other != architecture);
            is_ours = others.into_iter().all(|other| !section.ends_with(other.name()));
        } else if is_ours {
            found.insert(line.to_owned());
        }
    }
    assert!(found.len() > 100, "the list is cut short");
    found
}

/// Whether a node has a setting: an option (`CONFIG_…`), a sysctl (with a space), or a word of the
/// command line.
fn takes(project: &Project, plan: &Plan, line: &str) -> bool {
    if line.contains(' ') {
        return text(project, SYSCTLS).lines().any(|set| set == line);
    }
    match line.strip_prefix("CONFIG_").and_then(|option| option.split_once('=')) {
        Some((name, value)) => {
            plan.kernel.options.get(name).is_some_and(|option| option.value.to_string() == value)
        }
        None => plan.kernel.command_line.iter().any(|word| word == line),
    }
}

/// The settings named in paragraphs of comments that begin with `# Not taken:` or `# Not needed:`,
/// up to the first full stop before a space.
fn reasons(project: &Project) -> BTreeSet<String> {
    let files = project.files.keys().filter(|path| path.starts_with(FRAGMENTS) || *path == SYSCTLS);
    let paragraphs = files.flat_map(|path| text(project, path).split("\n\n"));
    let mut found = BTreeSet::new();
    for paragraph in paragraphs {
        let comments = paragraph
            .lines()
            .filter(|line| !line.ends_with(" is not set"))
            .filter_map(|line| line.strip_prefix("# "));
        let words = comments.collect::<Vec<_>>().join(" ");
        let named =
            words.strip_prefix("Not taken: ").or_else(|| words.strip_prefix("Not needed: "));
        let Some((settings, why)) = named.and_then(|named| named.split_once(". ")) else {
            continue;
        };
        assert!(why.len() > MIN_REASON, "no reason: {words}");
        found.extend(settings.split(", ").map(str::to_owned));
    }
    found
}

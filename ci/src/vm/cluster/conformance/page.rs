//! The page that lists every case.
//!
//! It has a section for each state, with a list. An item is the name of a case, as the suite prints
//! it, and after [`REASON`] why it did not run.

use super::suite::{CaseResult, Results};
use crate::check::Outcome;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The headings of the sections.
const PASSED: &str = "## Passed";
const NOT_APPLICABLE: &str = "## Not applicable";
const NOT_SHOWN: &str = "## Not shown";

/// The separator between the name of a case and the reason.
const REASON: &str = " Reason: ";

/// The width of the page.
const COLUMNS: usize = 100;

/// The state of a case on the page.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Passed,
    NotApplicable(String),
    NotShown(String),
}

/// The page.
#[derive(Debug)]
pub struct Page {
    /// All before the first section.
    head: String,
    cases: BTreeMap<String, State>,
}

impl Page {
    /// Reads the page.
    pub fn parse(text: &str) -> Self {
        let start = text.find(PASSED).unwrap_or(text.len());
        let (head, lists) = text.split_at(start);
        let (mut cases, mut section, mut item) = (BTreeMap::new(), "", String::new());
        for line in lists.lines().chain([""]) {
            if let Some(more) = line.strip_prefix("  ") {
                item = format!("{item} {}", more.trim());
                continue;
            }
            if !item.is_empty() {
                let (name, reason) = item.split_once(REASON).unwrap_or((&item, ""));
                cases.insert(name.to_owned(), state(section, reason));
                item.clear();
            }
            match line.strip_prefix("- ") {
                Some(first) => first.clone_into(&mut item),
                None if line.starts_with("## ") => section = line,
                None => {}
            }
        }
        Page { head: head.to_owned(), cases }
    }

    /// The cases that this machine cannot run.
    pub fn not_shown(&self) -> impl Iterator<Item = &str> {
        let not_shown = |(_, state): &(&String, &State)| matches!(state, State::NotShown(_));
        self.cases.iter().filter(not_shown).map(|(name, _)| name.as_str())
    }

    /// Compares the page with the results: each case that ran or had to run is a claim. One that
    /// the page does not show, and that did not run, is unchecked.
    pub fn compare(&self, results: &Results, outcome: &mut Outcome) {
        for (name, state) in &self.cases {
            let expected = match (state, results.get(name)) {
                (State::NotShown(reason), None) => {
                    outcome.unchecked.push(format!("{name}: {reason}"));
                    continue;
                }
                (State::Passed, Some(CaseResult::Passed))
                | (State::NotApplicable(_), Some(CaseResult::Skipped(_))) => Ok(()),
                (state, result) => Err(format!("the page has {state:?}, the suite {result:?}")),
            };
            outcome.claim(name, expected);
        }
        for (name, result) in results.iter().filter(|(name, _)| !self.cases.contains_key(*name)) {
            outcome.claim(name, Err(format!("the page lacks it, the suite has {result:?}")));
        }
    }

    /// The page that these results make. A case that failed is missing.
    pub fn with(&self, results: &Results) -> String {
        let not_shown = |(name, state): (&String, &State)| {
            matches!(state, State::NotShown(_)).then(|| (name.clone(), state.clone()))
        };
        let mut cases: BTreeMap<_, _> = self.cases.iter().filter_map(not_shown).collect();
        for (name, result) in results {
            let state = match result {
                CaseResult::Passed => State::Passed,
                CaseResult::Skipped(reason) => State::NotApplicable(reason.clone()),
                CaseResult::Failed(_) => continue,
            };
            cases.insert(name.clone(), state);
        }
        let mut text = self.head.clone();
        for section in [PASSED, NOT_APPLICABLE, NOT_SHOWN] {
            let items: Vec<String> =
                cases.iter().filter_map(|(name, state)| item(section, name, state)).collect();
            if !items.is_empty() {
                let _ = write!(text, "{section}\n\n{}\n", items.concat());
            }
        }
        text.trim_end().to_owned() + "\n"
    }
}

fn state(section: &str, reason: &str) -> State {
    match section {
        NOT_APPLICABLE => State::NotApplicable(reason.to_owned()),
        NOT_SHOWN => State::NotShown(reason.to_owned()),
        _ => State::Passed,
    }
}

/// The item of a case, if it belongs to this section.
fn item(section: &str, name: &str, state: &State) -> Option<String> {
    let text = match (section, state) {
        (PASSED, State::Passed) => name.to_owned(),
        (NOT_APPLICABLE, State::NotApplicable(reason)) | (NOT_SHOWN, State::NotShown(reason)) => {
            format!("{name}{REASON}{reason}")
        }
        _ => return None,
    };
    let (mut lines, mut line) = (String::new(), "-".to_owned());
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > COLUMNS {
            lines = lines + &line + "\n";
            line = " ".to_owned();
        }
        line = line + " " + word;
    }
    Some(lines + &line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Cases\n\nText.\n\n\
        ## Passed\n\n- [sig-node] Pods should\n  run\n- [sig-node] Pods should stop\n\n\
        ## Not applicable\n\n- [sig-node] Windows Reason: only for windows\n\n\
        ## Not shown\n\n- [sig-node] Private Reason: needs a network\n";

    fn results() -> Results {
        let passed = |name: &str| (name.to_owned(), CaseResult::Passed);
        let skipped = CaseResult::Skipped("only for windows".to_owned());
        let windows = ("[sig-node] Windows".to_owned(), skipped);
        [passed("[sig-node] Pods should run"), passed("[sig-node] Pods should stop"), windows]
            .into()
    }

    fn problems(page: &Page, results: &Results) -> Vec<String> {
        let mut outcome = Outcome::default();
        page.compare(results, &mut outcome);
        outcome.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_page_agrees_with_the_results_that_it_was_made_from() {
        let page = Page::parse(PAGE);
        let mut outcome = Outcome::default();
        page.compare(&results(), &mut outcome);
        let counts = (outcome.passed, outcome.problems.len(), outcome.unchecked.len());
        assert_eq!(counts, (3, 0, 1), "one case did not run");
        assert_eq!(page.not_shown().collect::<Vec<_>>(), ["[sig-node] Private"]);
        let again = Page::parse(&page.with(&results()));
        assert_eq!(problems(&again, &results()), [""; 0]);
        assert!(again.head.starts_with("# Cases"));
    }

    #[test]
    fn a_case_that_fails_or_is_missing_or_is_new_is_a_problem() {
        let page = Page::parse(PAGE);
        let mut changed = results();
        let failed = CaseResult::Failed("timed out".to_owned());
        changed.insert("[sig-node] Pods should run".to_owned(), failed);
        changed.remove("[sig-node] Windows");
        changed.insert("[sig-node] Pods should be new".to_owned(), CaseResult::Passed);
        assert_eq!(problems(&page, &changed).len(), 3);
    }

    #[test]
    fn the_page_of_this_checkout_lists_cases_that_pass() {
        let page = Page::parse(include_str!("../../../../../builder/docs/conformance.md"));
        let passed = page.cases.values().filter(|state| **state == State::Passed).count();
        assert!(passed > 190, "{passed} cases");
    }

    #[test]
    fn a_long_name_is_wrapped_and_read_again() {
        let name = "[sig-node] ".to_owned() + &"word ".repeat(40) + "end";
        let results = Results::from([(name.clone(), CaseResult::Passed)]);
        let text = Page::parse(PAGE).with(&results);
        assert!(text.lines().all(|line| line.len() <= COLUMNS));
        assert_eq!(Page::parse(&text).cases[&name], State::Passed);
    }
}

//! Recipes, boards, components, fragments of kernel configurations and pod manifests: any text in
//! place of any file of a project.

use std::path::Path;
use std::sync::LazyLock;

use osbuild::checkout::Checkout;
use osbuild::plan::{self, Date, Project, Strictness};

use crate::target::{Memory, Outcome, Target};

/// See the module. An input is the number of a file of a small project, and its new content. A plan
/// is a large tree.
pub const TARGET: Target =
    Target { name: "recipe", seeds, run, memory: Memory { base: 16 << 20, per_byte: 1024 } };

const TODAY: Date = Date { year: 2026, month: 11, day: 21 };

static PROJECT: LazyLock<Project> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../builder/tests/plan/project");
    Checkout { root }.read().expect("the project of the tests can be read")
});

fn run(input: &[u8]) -> Outcome {
    let Some((file, text)) = input.split_first() else { return Outcome::Refused };
    let mut project = PROJECT.clone();
    let files = project.files.len();
    let bytes = project
        .files
        .values_mut()
        .nth(usize::from(*file) % files)
        .expect("the number is that of a file");
    *bytes = text.to_vec();
    for problem in plan::check(&project, TODAY).0 {
        assert!(!problem.to_string().is_empty());
    }
    let plan = plan::resolve(&project, "small", TODAY, Strictness::Lock);
    match &plan {
        Ok(plan) => assert!(plan.print().contains("small")),
        Err(error) => assert!(!error.problems.is_empty() && !error.to_string().is_empty()),
    }
    Outcome::of(&plan)
}

fn seeds() -> Vec<Vec<u8>> {
    (0..)
        .zip(PROJECT.files.values())
        .map(|(number, text)| [&[number], text.as_slice()].concat())
        .collect()
}

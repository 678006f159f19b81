//! Any text in any file is accepted or refused, without a panic.

use crate::{TODAY, project};
use osbuild::plan;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_damaged_file_is_never_a_panic(
        file in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        cut in 0usize..40,
        put in "[ -~\n\u{e9}\u{0}]{0,12}",
    ) {
        let mut project = project();
        let path = file.get(&project.files.keys().cloned().collect::<Vec<_>>()).clone();
        let bytes = project.files.get_mut(&path).unwrap();
        let start = if bytes.is_empty() { 0 } else { at.index(bytes.len()) };
        let end = (start + cut).min(bytes.len());
        bytes.splice(start..end, put.into_bytes());
        let (problems, _) = plan::check(&project, TODAY);
        prop_assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
    }
}

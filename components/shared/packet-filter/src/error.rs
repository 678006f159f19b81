//! Why a text is no filter.

use std::fmt::{self, Display};

/// Why a text is no filter, and where. It is shown in one line, or in three: with the text and a
/// mark below the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    problem: String,
    /// The text, and the byte in it.
    place: Option<(String, usize)>,
}

impl FilterError {
    pub(crate) fn at(text: &str, position: usize, problem: impl Into<String>) -> FilterError {
        FilterError { problem: problem.into(), place: Some((text.to_owned(), position)) }
    }

    /// An error of the filter as a whole.
    pub(crate) fn whole(problem: impl Into<String>) -> FilterError {
        FilterError { problem: problem.into(), place: None }
    }

    /// The place in the text, in characters from 1.
    pub fn character(&self) -> Option<usize> {
        let (text, position) = self.place.as_ref()?;
        Some(text.char_indices().take_while(|(index, _)| index < position).count() + 1)
    }
}

impl Display for FilterError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some((text, _)), Some(character)) = (&self.place, self.character()) else {
            return write!(out, "the filter is wrong: {}", self.problem);
        };
        let Self { problem, .. } = self;
        write!(out, "the filter is wrong at character {character}: {problem}")?;
        let indent = " ".repeat(character - 1);
        write!(out, "\n{text}\n{indent}^")
    }
}

impl std::error::Error for FilterError {}

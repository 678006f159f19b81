//! A path on the node.

use serde::Deserialize;

/// An absolute path without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AbsolutePath(String);

impl AbsolutePath {
    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AbsolutePath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let names = text.strip_prefix('/').map(|rest| rest.split('/'));
        let is_plain =
            |name: &str| !matches!(name, "" | "." | "..") && !name.chars().any(char::is_control);
        match names.is_some_and(|mut names| names.all(is_plain)) {
            true => Ok(Self(text)),
            false => Err(format!("`{text}` is not an absolute path without `.` and `..`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_absolute_and_leads_nowhere_else() {
        assert!(AbsolutePath::try_from("/opt/a-b/c.d".to_owned()).is_ok());
        for path in ["", "/", "opt", "/opt/", "/opt//a", "/opt/../a", "/./a", "/a\nb"] {
            assert!(AbsolutePath::try_from(path.to_owned()).is_err(), "{path}");
        }
    }
}

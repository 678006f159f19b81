//! The proxy that the node's settings ask for. The HTTP client takes its proxy from the environment
//! of the process, and a process cannot change its environment safely, so the program starts itself
//! again in another one.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use osbuild_failure::{Explain, Outcome};
use osbuild_folder::small_file;

/// The variables that the file may have.
const NAMES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// Starts the program again if the file, which may be missing, has other variables than the
/// environment.
///
/// # Errors
/// The file cannot be read, or the program cannot be started.
pub fn follow(file: &Path) -> Outcome {
    let text = small_file::read(file)?.unwrap_or_default();
    let wanted = NAMES.map(|name| (name, value(&text, name)));
    if wanted.iter().all(|(name, value)| env::var(name).ok().as_deref() == *value) {
        return Ok(());
    }
    let program = env::current_exe().explain("find this program")?;
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1));
    for (name, value) in wanted {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Err(command.exec()).explain("start again with another proxy")
}

/// The value of a variable, each of which has a line `NAME=VALUE`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_has_a_line() {
        let text = "HTTPS_PROXY=http://a.example:1\nNO_PROXY=a=b,::1\n";
        assert_eq!(value(text, "HTTPS_PROXY"), Some("http://a.example:1"));
        assert_eq!(value(text, "NO_PROXY"), Some("a=b,::1"));
        assert_eq!(value(text, "HTTP_PROXY"), None);
    }
}

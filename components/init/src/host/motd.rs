//! The message of the image for the consoles.

use std::io::ErrorKind;

use osbuild_abi::paths::MOTD;
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::Motd;

/// The message in the signed root; none if the recipe has no such file.
///
/// # Errors
/// The file cannot be read, or is no message.
pub fn of_image() -> Outcome<Option<Motd>> {
    match std::fs::read_to_string(MOTD) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        text => read(&text.explain(format_args!("read {MOTD}"))?).map(Some),
    }
}

fn read(text: &str) -> Outcome<Motd> {
    Motd::parse(text).explain(format_args!("take {MOTD} as the message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_consoles_cannot_show_is_an_error_that_names_it() {
        assert_eq!(read("Rack 7\n").unwrap().as_str(), "Rack 7");
        let failure = read("\u{1b}[2J").unwrap_err().to_string();
        assert!(failure.contains("/etc/motd") && failure.contains("U+001B"), "{failure}");
    }
}

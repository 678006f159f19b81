//! Parses the command lines of `losetup`. [`LOSETUP_USAGE`] is the grammar.

use crate::request::UsageError;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// The usage of `losetup`.
pub const LOSETUP_USAGE: &str = "losetup -f PATH, or losetup -d /dev/loopN";

/// `losetup`'s command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopRequest {
    /// `-f`: attach this absolute path to a free loop device.
    Attach(OsString),
    /// `-d`: detach this loop device.
    Detach(LoopNumber),
}

/// The number of a loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopNumber(u32);

impl LoopRequest {
    /// Parses the arguments.
    pub fn parse(args: &[OsString]) -> Result<LoopRequest, UsageError> {
        let (request, rest) = match args {
            [flag, path, rest @ ..] if flag == "-f" => (attach(path)?, rest),
            [flag, device, rest @ ..] if flag == "-d" => (detach(device)?, rest),
            [] => return Err(UsageError::Missing("`-f` or `-d`")),
            [flag] if flag == "-f" => return Err(UsageError::Missing("PATH")),
            [flag] if flag == "-d" => return Err(UsageError::Missing("/dev/loopN")),
            [other, ..] => return Err(UsageError::Flag(other.display().to_string())),
        };
        match rest.first() {
            None => Ok(request),
            Some(more) => Err(UsageError::Flag(more.display().to_string())),
        }
    }
}

fn attach(path: &OsStr) -> Result<LoopRequest, UsageError> {
    match path.as_bytes().starts_with(b"/") {
        true => Ok(LoopRequest::Attach(path.to_owned())),
        false => Err(UsageError::NotAbsolute(path.display().to_string())),
    }
}

fn detach(device: &OsStr) -> Result<LoopRequest, UsageError> {
    let number = LoopNumber::of_device(device);
    number
        .map(LoopRequest::Detach)
        .ok_or_else(|| UsageError::NotALoop(device.display().to_string()))
}

impl LoopNumber {
    /// The number that the kernel has returned.
    pub fn new(number: u32) -> LoopNumber {
        LoopNumber(number)
    }

    /// The number of the device with this path, which is spelled as [`LoopNumber::fmt`] does.
    fn of_device(path: &OsStr) -> Option<LoopNumber> {
        let number = LoopNumber(path.to_str()?.strip_prefix("/dev/loop")?.parse().ok()?);
        (path == number.to_string().as_str()).then_some(number)
    }
}

/// The path of the device.
impl fmt::Display for LoopNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/dev/loop{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStringExt;

    fn parse(line: &str) -> Result<LoopRequest, UsageError> {
        LoopRequest::parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn both_calls_of_the_kubelet_are_parsed() {
        assert_eq!(parse("-f /a"), Ok(LoopRequest::Attach("/a".into())));
        assert_eq!(parse("-d /dev/loop17"), Ok(LoopRequest::Detach(LoopNumber(17))));
    }

    #[test]
    fn unsupported_flags_of_util_linux_are_named() {
        for (line, word) in [
            ("-f /a /b", "/b"),
            ("--find /a", "--find"),
            ("-a", "-a"),
            ("-j /a", "-j"),
            ("-D", "-D"),
            ("-d /dev/loop0 /dev/loop1", "/dev/loop1"),
            ("/dev/loop0 /a", "/dev/loop0"),
        ] {
            assert_eq!(parse(line), Err(UsageError::Flag(word.into())), "{line}");
        }
    }

    #[test]
    fn a_missing_argument_is_named() {
        assert_eq!(LoopRequest::parse(&[]), Err(UsageError::Missing("`-f` or `-d`")));
        assert_eq!(parse("-f"), Err(UsageError::Missing("PATH")));
        assert_eq!(parse("-d"), Err(UsageError::Missing("/dev/loopN")));
    }

    #[test]
    fn only_a_loop_device_is_detached() {
        for device in
            ["/dev/vda", "/dev/loop", "/dev/loop01", "/dev/loop+1", "/dev/loop1p1", "loop1"]
        {
            assert_eq!(parse(&format!("-d {device}")), Err(UsageError::NotALoop(device.into())));
        }
    }

    #[test]
    fn only_an_absolute_path_is_attached() {
        for path in ["file", "--show /a", ""] {
            let word = path.split(' ').next().unwrap();
            assert_eq!(parse(&format!("-f {path}")), Err(UsageError::NotAbsolute(word.into())));
        }
    }

    proptest! {
        #[test]
        fn a_device_is_read_as_it_is_written(number: u32) {
            let path = OsString::from(LoopNumber(number).to_string());
            prop_assert_eq!(LoopNumber::of_device(&path), Some(LoopNumber(number)));
        }

        #[test]
        fn any_arguments_are_parsed_without_panic(
            args in proptest::collection::vec(any::<Vec<u8>>(), 0..4),
        ) {
            let args: Vec<OsString> = args.into_iter().map(OsString::from_vec).collect();
            let _ = LoopRequest::parse(&args);
        }
    }
}

//! Parses the command lines of `mount` and `umount`. [`MOUNT_USAGE`] and [`UMOUNT_USAGE`] are the
//! grammar.
//!
//! The last two arguments are always source and target, so that a source that a user wrote into a
//! volume (such as an NFS server named `-obind`) is never parsed as a flag.

use crate::option::{Options, Refusal};
use std::ffi::{OsStr, OsString};
use std::fmt;

/// The usage of `mount`.
pub const MOUNT_USAGE: &str = "mount [--no-canonicalize] [-t TYPE] [-o OPTION,…] SOURCE TARGET";
/// The usage of `umount`.
pub const UMOUNT_USAGE: &str = "umount [-f] TARGET";

/// `mount`'s command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountRequest {
    /// A path, or any text for a file system without a device.
    pub source: OsString,
    /// The mount point.
    pub target: OsString,
    /// The argument of `-t`: one type. (util-linux also takes lists.) `auto` is the same as none.
    pub kind: Option<String>,
    /// The options of `-o`.
    pub options: Options,
    /// Whether symbolic links in the source may be resolved.
    pub canonicalize: bool,
}

/// `umount`'s command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UmountRequest {
    /// The mount point.
    pub target: OsString,
    /// `-f`: abort requests to a server that does not respond.
    pub force: bool,
}

/// Why a command line is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageError {
    /// This argument is missing.
    Missing(&'static str),
    /// This argument is not supported.
    Flag(String),
    /// This flag was passed twice.
    Twice(&'static str),
    /// The argument of this flag is not UTF-8.
    NotText(&'static str),
    /// This option of `-o` is not supported.
    Option(String),
    /// This argument of `losetup -f` is not an absolute path.
    NotAbsolute(String),
    /// This argument of `losetup -d` does not name a loop device.
    NotALoop(String),
    /// The file system's options have this many bytes, more than the kernel reads.
    LongOptions(usize),
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsageError::Missing(what) => write!(f, "{what} is missing"),
            UsageError::Flag(word) => write!(f, "`{word}` is not supported"),
            UsageError::Twice(flag) => write!(f, "`{flag}` was passed twice"),
            UsageError::NotText(flag) => write!(f, "the argument of `{flag}` is not UTF-8"),
            UsageError::Option(word) => write!(f, "option `{word}` is not supported"),
            UsageError::NotAbsolute(word) => write!(f, "`{word}` is not an absolute path"),
            UsageError::NotALoop(word) => write!(f, "`{word}` does not name a loop device"),
            UsageError::LongOptions(length) => {
                write!(f, "the options have {length} bytes, but the kernel reads 4095")
            }
        }
    }
}

impl MountRequest {
    /// Parses the arguments.
    pub fn parse(args: &[OsString]) -> Result<MountRequest, UsageError> {
        let [flags @ .., source, target] = args else {
            return Err(UsageError::Missing("SOURCE or TARGET"));
        };
        let (mut kind, mut options, mut canonicalize) = (None, None, true);
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            match flag.to_str() {
                Some("-t") => once("-t", &mut kind, flags.next())?,
                Some("-o") => once("-o", &mut options, flags.next())?,
                Some("--no-canonicalize") => canonicalize = false,
                _ => return Err(UsageError::Flag(flag.display().to_string())),
            }
        }
        Ok(MountRequest {
            source: source.clone(),
            target: target.clone(),
            kind: kind.filter(|kind| *kind != "auto").map(str::to_owned),
            options: Options::parse(options.unwrap_or("")).map_err(UsageError::from)?,
            canonicalize,
        })
    }
}

impl UmountRequest {
    /// Parses the arguments.
    pub fn parse(args: &[OsString]) -> Result<UmountRequest, UsageError> {
        match args {
            [] => Err(UsageError::Missing("TARGET")),
            [target] => Ok(UmountRequest { target: target.clone(), force: false }),
            [flag, target] if flag == "-f" => {
                Ok(UmountRequest { target: target.clone(), force: true })
            }
            [other, ..] => Err(UsageError::Flag(other.display().to_string())),
        }
    }
}

impl From<Refusal> for UsageError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Word(word) => UsageError::Option(word),
            Refusal::TooLong(length) => UsageError::LongOptions(length),
        }
    }
}

fn once<'a>(
    flag: &'static str,
    slot: &mut Option<&'a str>,
    value: Option<&'a OsString>,
) -> Result<(), UsageError> {
    let value = value.ok_or(UsageError::Missing("SOURCE or TARGET"))?;
    let text = OsStr::to_str(value).ok_or(UsageError::NotText(flag))?;
    match slot.replace(text) {
        None => Ok(()),
        Some(_) => Err(UsageError::Twice(flag)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStringExt;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn mount(line: &str) -> Result<MountRequest, UsageError> {
        MountRequest::parse(&words(line))
    }

    #[test]
    fn all_parts_are_parsed() {
        let request = mount("--no-canonicalize -t tmpfs -o ro,size=1 tmpfs /x").unwrap();
        assert_eq!((request.source.to_str(), request.target.to_str()), (Some("tmpfs"), Some("/x")));
        assert_eq!((request.kind.as_deref(), request.canonicalize), (Some("tmpfs"), false));
        assert_eq!(request.options, Options::parse("ro,size=1").unwrap());
    }

    #[test]
    fn a_source_that_looks_like_a_flag_is_a_source() {
        let request = mount("-t nfs -obind /x").unwrap();
        assert_eq!(request.source, "-obind");
        assert_eq!(request.options, Options::default());
    }

    #[test]
    fn type_auto_means_no_type() {
        assert_eq!(mount("-t auto /dev/vda /x").unwrap().kind, None);
    }

    #[test]
    fn unsupported_flags_of_util_linux_are_named() {
        assert_eq!(mount("--bind /a /b"), Err(UsageError::Flag("--bind".into())));
        assert_eq!(mount("--make-rshared /a /b"), Err(UsageError::Flag("--make-rshared".into())));
        assert_eq!(UmountRequest::parse(&words("-l /a")), Err(UsageError::Flag("-l".into())));
        assert_eq!(UmountRequest::parse(&words("/a /b")), Err(UsageError::Flag("/a".into())));
    }

    #[test]
    fn a_lone_target_is_refused() {
        assert!(matches!(mount("/x"), Err(UsageError::Missing(_))));
        assert!(matches!(mount("-o ro /x"), Err(UsageError::Missing(_))));
        assert!(matches!(UmountRequest::parse(&[]), Err(UsageError::Missing(_))));
    }

    #[test]
    fn a_flag_twice_is_refused() {
        assert_eq!(mount("-o ro -o rw /a /b"), Err(UsageError::Twice("-o")));
    }

    #[test]
    fn the_force_flag_is_parsed() {
        assert!(UmountRequest::parse(&words("-f /a")).unwrap().force);
        assert!(!UmountRequest::parse(&words("/a")).unwrap().force);
    }

    proptest! {
        #[test]
        fn any_arguments_are_parsed_without_panic(
            args in proptest::collection::vec(any::<Vec<u8>>(), 0..8),
        ) {
            let args: Vec<OsString> = args.into_iter().map(OsString::from_vec).collect();
            let _ = (MountRequest::parse(&args), UmountRequest::parse(&args));
        }
    }
}

//! Parses the options of `-o`. A table sorts them into flags of mount(2), separate system calls,
//! ignored options and refused options; all others are passed to the file system. The table follows
//! libmount 2.38's `optmap.c`.

use rustix::mount::{MountFlags, MountPropagationFlags};

/// The maximum bytes of file system options that mount(2) reads: one page, less the final NUL.
const MAX_DATA: usize = 4095;

/// The meaning of an option.
#[derive(Clone, Copy)]
enum Meaning {
    Set(MountFlags),
    Clear(MountFlags),
    Bind {
        recursive: bool,
    },
    Remount,
    Propagate(MountPropagationFlags),
    /// An option for programs that read `/etc/fstab`, which the node does not have.
    Ignored,
    /// util-linux does more for this option than mount(2), and the kubelet does not need it.
    Refused,
}
use Meaning::{Bind, Clear, Ignored, Propagate, Refused, Remount, Set};

/// All options that are not the file system's. An entry that ends with `=`, `-` or `.` stands for
/// all options that start with it.
const WORDS: &[(&str, Meaning)] = &[
    ("ro", Set(MountFlags::RDONLY)),
    ("rw", Clear(MountFlags::RDONLY)),
    ("noexec", Set(MountFlags::NOEXEC)),
    ("exec", Clear(MountFlags::NOEXEC)),
    ("nosuid", Set(MountFlags::NOSUID)),
    ("suid", Clear(MountFlags::NOSUID)),
    ("nodev", Set(MountFlags::NODEV)),
    ("dev", Clear(MountFlags::NODEV)),
    ("sync", Set(MountFlags::SYNCHRONOUS)),
    ("async", Clear(MountFlags::SYNCHRONOUS)),
    ("dirsync", Set(MountFlags::DIRSYNC)),
    ("silent", Set(MountFlags::SILENT)),
    ("loud", Clear(MountFlags::SILENT)),
    ("noatime", Set(MountFlags::NOATIME)),
    ("atime", Clear(MountFlags::NOATIME)),
    ("nodiratime", Set(MountFlags::NODIRATIME)),
    ("diratime", Clear(MountFlags::NODIRATIME)),
    ("relatime", Set(MountFlags::RELATIME)),
    ("norelatime", Clear(MountFlags::RELATIME)),
    ("strictatime", Set(MountFlags::STRICTATIME)),
    ("nostrictatime", Clear(MountFlags::STRICTATIME)),
    ("lazytime", Set(MountFlags::LAZYTIME)),
    ("nolazytime", Clear(MountFlags::LAZYTIME)),
    ("nosymfollow", Set(MountFlags::NOSYMFOLLOW)),
    ("symfollow", Clear(MountFlags::NOSYMFOLLOW)),
    ("bind", Bind { recursive: false }),
    ("rbind", Bind { recursive: true }),
    ("remount", Remount),
    ("private", Propagate(MountPropagationFlags::PRIVATE)),
    ("rprivate", Propagate(MountPropagationFlags::PRIVATE.union(MountPropagationFlags::REC))),
    ("shared", Propagate(MountPropagationFlags::SHARED)),
    ("rshared", Propagate(MountPropagationFlags::SHARED.union(MountPropagationFlags::REC))),
    ("slave", Propagate(MountPropagationFlags::DOWNSTREAM)),
    ("rslave", Propagate(MountPropagationFlags::DOWNSTREAM.union(MountPropagationFlags::REC))),
    ("unbindable", Propagate(MountPropagationFlags::UNBINDABLE)),
    ("runbindable", Propagate(MountPropagationFlags::UNBINDABLE.union(MountPropagationFlags::REC))),
    ("defaults", Ignored),
    ("_netdev", Ignored),
    ("auto", Ignored),
    ("noauto", Ignored),
    ("nofail", Ignored),
    ("nouser", Ignored),
    ("nousers", Ignored),
    ("noowner", Ignored),
    ("nogroup", Ignored),
    ("comment=", Ignored),
    ("X-mount.", Refused),
    ("x-mount.", Refused),
    ("x-", Ignored),
    ("X-", Ignored),
    ("user", Refused),
    ("user=", Refused),
    ("users", Refused),
    ("owner", Refused),
    ("group", Refused),
    ("loop", Refused),
    ("loop=", Refused),
    ("offset=", Refused),
    ("sizelimit=", Refused),
    ("encryption=", Refused),
    ("helper=", Refused),
    ("uhelper=", Refused),
    ("verity.", Refused),
];

/// A parsed `-o` list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Flags of mount(2), except those with a field below.
    pub flags: MountFlags,
    /// Whether the list has `bind` or `rbind`.
    pub bind: Option<BindDepth>,
    /// Whether the list has `remount`.
    pub remount: bool,
    /// Changes of propagation in order; each is a separate system call.
    pub propagation: Vec<MountPropagationFlags>,
    /// The file system's options, joined by commas.
    pub data: String,
}

/// How much of the source's tree a bind mount includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindDepth {
    /// Only the source's own mount (`bind`).
    One,
    /// Also the mounts below it (`rbind`).
    Tree,
}

/// Why a list is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This option is not supported.
    Word(String),
    /// The file system's options have this many bytes; mount(2) would truncate them silently.
    TooLong(usize),
}

impl Default for Options {
    fn default() -> Self {
        Options {
            flags: MountFlags::empty(),
            bind: None,
            remount: false,
            propagation: Vec::new(),
            data: String::new(),
        }
    }
}

impl Options {
    /// Parses a comma-separated list; commas between double quotes do not separate. As in
    /// util-linux, the last of two contradicting options wins, and empty options are ignored.
    pub fn parse(list: &str) -> Result<Options, Refusal> {
        let mut options = Options::default();
        for word in words(list) {
            options.add(word)?;
        }
        match options.data.len() {
            length if length > MAX_DATA => Err(Refusal::TooLong(length)),
            _ => Ok(options),
        }
    }

    fn add(&mut self, word: &str) -> Result<(), Refusal> {
        match meaning(word) {
            Some(Set(flag)) => self.flags |= flag,
            Some(Clear(flag)) => self.flags -= flag,
            // `rbind` includes `bind`, in any order, as the flags of mount(2) do.
            Some(Bind { recursive: true }) => self.bind = Some(BindDepth::Tree),
            Some(Bind { recursive: false }) => self.bind = self.bind.or(Some(BindDepth::One)),
            Some(Remount) => self.remount = true,
            Some(Propagate(change)) => self.propagation.push(change),
            Some(Ignored) => {}
            Some(Refused) => return Err(Refusal::Word(word.to_owned())),
            None => {
                if !self.data.is_empty() {
                    self.data.push(',');
                }
                self.data.push_str(word);
            }
        }
        Ok(())
    }
}

/// The first matching entry wins, so an exception precedes its rule.
fn meaning(word: &str) -> Option<Meaning> {
    let fits = |entry: &str| {
        word == entry || (entry.ends_with(['=', '-', '.']) && word.starts_with(entry))
    };
    WORDS.iter().find(|(entry, _)| fits(entry)).map(|(_, meaning)| *meaning)
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let is_separator = move |c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    };
    list.split(is_separator).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(list: &str) -> Options {
        Options::parse(list).unwrap()
    }

    #[test]
    fn the_last_of_two_contradicting_options_wins() {
        assert_eq!(parse("ro,rw").flags, MountFlags::empty());
        assert_eq!(parse("rw,ro").flags, MountFlags::RDONLY);
    }

    #[test]
    fn other_options_are_passed_to_the_file_system_in_order() {
        assert_eq!(
            parse("size=1048576,noswap,ro,,mode=0700").data,
            "size=1048576,noswap,mode=0700"
        );
    }

    #[test]
    fn a_flag_with_a_value_is_passed_to_the_file_system() {
        assert_eq!(parse("ro=vfs"), Options { data: "ro=vfs".into(), ..Options::default() });
    }

    #[test]
    fn a_quoted_comma_does_not_end_an_option() {
        assert_eq!(parse(r#"context="a:b,c",ro"#).data, r#"context="a:b,c""#);
    }

    #[test]
    fn options_for_fstab_are_ignored() {
        assert_eq!(
            parse("_netdev,defaults,nofail,x-systemd.automount,comment=x"),
            Options::default()
        );
    }

    #[test]
    fn recursive_bind_is_not_weakened_by_bind() {
        assert_eq!(parse("rbind,bind").bind, Some(BindDepth::Tree));
        assert_eq!(parse("bind,rbind").bind, Some(BindDepth::Tree));
        assert_eq!(parse("bind").bind, Some(BindDepth::One));
    }

    #[test]
    fn options_that_need_more_than_mount_2_are_refused() {
        for word in [
            "loop",
            "loop=/dev/loop0",
            "offset=512",
            "X-mount.mkdir",
            "user",
            "verity.roothash=00",
            "helper=fuse",
        ] {
            assert_eq!(Options::parse(&format!("ro,{word}")), Err(Refusal::Word(word.into())));
        }
    }

    #[test]
    fn options_that_the_kernel_would_truncate_are_refused() {
        assert_eq!(Options::parse(&"a".repeat(4096)), Err(Refusal::TooLong(4096)));
        assert!(Options::parse(&"a".repeat(4095)).is_ok());
    }

    proptest! {
        #[test]
        fn any_list_is_parsed_without_panic_or_flags_in_data(list in ".{0,200}") {
            if let Ok(options) = Options::parse(&list) {
                let again = Options::parse(&options.data).unwrap();
                prop_assert_eq!(again, Options { data: options.data, ..Options::default() });
            }
        }
    }
}

//! The words of `-o`: which are flags of mount(2), which are calls of their own, which mean nothing
//! here, which are refused, and which go to the file system as they are (all the others). The table
//! follows libmount 2.38's `optmap.c`.

use rustix::mount::{MountFlags, MountPropagationFlags};

/// The most bytes of file system options that mount(2) reads: one page, less the final NUL.
const MAX_DATA: usize = 4095;

/// What a word stands for.
#[derive(Clone, Copy)]
enum Meaning {
    Set(MountFlags),
    Clear(MountFlags),
    Bind {
        recursive: bool,
    },
    Remount,
    Propagate(MountPropagationFlags),
    /// A note to programs that read `/etc/fstab`, of which the node has none.
    Nothing,
    /// util-linux does more for this word than one mount(2) call, and no caller here needs it.
    Refused,
}
use Meaning::{Bind, Clear, Nothing, Propagate, Refused, Remount, Set};

/// Every word that does not belong to the file system. One that ends with `=`, `-` or `.` stands
/// for all that start with it.
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
    ("defaults", Nothing),
    ("_netdev", Nothing),
    ("auto", Nothing),
    ("noauto", Nothing),
    ("nofail", Nothing),
    ("nouser", Nothing),
    ("nousers", Nothing),
    ("noowner", Nothing),
    ("nogroup", Nothing),
    ("comment=", Nothing),
    ("X-mount.", Refused),
    ("x-mount.", Refused),
    ("x-", Nothing),
    ("X-", Nothing),
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

/// A whole `-o` list, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Flags of mount(2), without those for which there is a field here.
    pub flags: MountFlags,
    /// `bind` or `rbind` was among the words.
    pub bind: Option<BindDepth>,
    /// `remount` was among the words.
    pub remount: bool,
    /// Changes of propagation, each a system call of its own, in their order.
    pub propagation: Vec<MountPropagationFlags>,
    /// What is left for the file system, joined by commas.
    pub data: String,
}

/// How much of a tree a bind mount shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindDepth {
    /// The one mount (`bind`).
    One,
    /// The mounts below it as well (`rbind`).
    Tree,
}

/// Why a list is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This word asks for more than the kubelet's calls need.
    Word(String),
    /// The file system's options take this many bytes, which mount(2) would cut off in silence.
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
    /// Reads a list of words between commas; a comma between double quotes belongs to its word. The
    /// last of two words that contradict each other wins, and empty words count for nothing, as in
    /// util-linux.
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
            // As with the flags of mount(2), `rbind` is `bind` and more, in whichever order the two
            // stand.
            Some(Bind { recursive: true }) => self.bind = Some(BindDepth::Tree),
            Some(Bind { recursive: false }) => self.bind = self.bind.or(Some(BindDepth::One)),
            Some(Remount) => self.remount = true,
            Some(Propagate(change)) => self.propagation.push(change),
            Some(Nothing) => {}
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

/// The first entry that fits wins, so an exception stands above its rule.
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
    fn the_last_of_two_contradicting_words_wins() {
        assert_eq!(parse("ro,rw").flags, MountFlags::empty());
        assert_eq!(parse("rw,ro").flags, MountFlags::RDONLY);
    }

    #[test]
    fn what_is_not_a_flag_goes_to_the_file_system_in_order() {
        assert_eq!(
            parse("size=1048576,noswap,ro,,mode=0700").data,
            "size=1048576,noswap,mode=0700"
        );
    }

    #[test]
    fn a_flag_with_a_value_is_the_file_systems_own_word() {
        assert_eq!(parse("ro=vfs"), Options { data: "ro=vfs".into(), ..Options::default() });
    }

    #[test]
    fn a_quoted_comma_does_not_end_a_word() {
        assert_eq!(parse(r#"context="a:b,c",ro"#).data, r#"context="a:b,c""#);
    }

    #[test]
    fn notes_for_fstab_are_dropped() {
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
    fn words_that_need_more_than_mount_2_are_refused_by_name() {
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
    fn data_that_the_kernel_would_cut_is_refused() {
        assert_eq!(Options::parse(&"a".repeat(4096)), Err(Refusal::TooLong(4096)));
        assert!(Options::parse(&"a".repeat(4095)).is_ok());
    }

    proptest! {
        #[test]
        fn any_list_is_read_without_a_panic_and_data_holds_no_flag(list in ".{0,200}") {
            if let Ok(options) = Options::parse(&list) {
                let again = Options::parse(&options.data).unwrap();
                prop_assert_eq!(again, Options { data: options.data, ..Options::default() });
            }
        }
    }
}

//! Seccomp profiles for pods: which system calls a container may make. Their words are those of the
//! OCI's `config.json`, whose form the file has, without the prefixes `SCMP_ACT_`, `SCMP_ARCH_` and
//! `SCMP_CMP_`.

use std::fmt;

use crate::Refusal;

/// The maximum number of such profiles.
pub const MAX_PROFILES: usize = 8;
/// The maximum bytes of a name.
const MAX_NAME: usize = 63;
/// The maximum bytes of the name of a system call.
const MAX_CALL: usize = 40;
/// The maximum bytes of a value, so that it fits in the line of a request. containerd's own profile
/// has less than half of it.
const MAX_LENGTH: usize = 12 << 10;
/// The highest number of an error (`MAX_ERRNO` of the kernel).
const MAX_ERRNO: u32 = 4095;
/// The arguments that a system call has.
const ARGUMENTS: u32 = 6;

/// The prefixes of the OCI's words.
const ACTION: &str = "SCMP_ACT_";
const ARCHITECTURE: &str = "SCMP_ARCH_";
const COMPARISON: &str = "SCMP_CMP_";

/// The actions of the OCI, without the one that asks another program.
const ACTIONS: [&str; 8] =
    ["ALLOW", "ERRNO", "KILL", "KILL_PROCESS", "KILL_THREAD", "LOG", "TRACE", "TRAP"];
/// The action that asks a program at a socket.
const NOTIFY: &str = "NOTIFY";
/// Those that return the number of an error.
const WITH_ERRNO: [&str; 2] = ["ERRNO", "TRACE"];
/// The architectures of the OCI that have nodes.
const ARCHITECTURES: [&str; 5] = ["AARCH64", "ARM", "X32", "X86", "X86_64"];
/// The comparisons of the OCI.
const COMPARISONS: [&str; 7] = ["EQ", "GE", "GT", "LE", "LT", "MASKED_EQ", "NE"];

/// A profile: the action of each system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeccompFilter {
    name: SeccompName,
    default: SeccompAction,
    architectures: Vec<&'static str>,
    rules: Vec<SeccompRule>,
}

/// The name of a profile, and of its file without `.json`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeccompName(String);

/// The reaction of the kernel to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeccompAction {
    word: &'static str,
    errno: Option<u32>,
}

/// The action of some system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeccompRule {
    names: Vec<String>,
    action: SeccompAction,
    arguments: Vec<SeccompArgument>,
}

/// A comparison of an argument of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeccompArgument {
    /// The number of the argument, from 0.
    pub index: u32,
    /// The value, or the mask of `MASKED_EQ`.
    pub value: u64,
    /// The value behind the mask.
    pub value_two: u64,
    comparison: &'static str,
}

impl SeccompFilter {
    /// Combines what was read. Architectures are the OCI's words, such as `SCMP_ARCH_X86_64`.
    ///
    /// # Errors
    /// There is no such architecture, one is there twice, or the whole is too long.
    pub fn new<'a>(
        name: SeccompName,
        default: SeccompAction,
        architectures: impl IntoIterator<Item = &'a str>,
        rules: Vec<SeccompRule>,
    ) -> Result<Self, Refusal> {
        let mut known = Vec::new();
        for text in architectures {
            let word = word(text, ARCHITECTURE, &ARCHITECTURES, "an architecture")?;
            if known.contains(&word) {
                return Err(Refusal::malformed(format!("`{text}` is there twice")));
            }
            known.push(word);
        }
        let profile = Self { name, default, architectures: known, rules };
        match profile.words().len() <= MAX_LENGTH {
            true => Ok(profile),
            false => {
                let name = &profile.name;
                let reason = format!("the profile `{name}` takes more than {MAX_LENGTH} bytes");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// Reads the words that [`Self::words`] writes.
    pub(super) fn parse_words(name: SeccompName, words: &str) -> Result<Self, Refusal> {
        let mut words = words.split(' ').peekable();
        let default = words.next().and_then(|word| word.strip_prefix("default="));
        let default = default.ok_or_else(|| malformed("a profile begins with `default=`"))?;
        let default = SeccompAction::parse_word(default)?;
        let architectures = words.next_if(|word| word.starts_with("architectures="));
        let architectures = architectures.and_then(|word| word.strip_prefix("architectures="));
        let architectures: Vec<String> = architectures
            .into_iter()
            .flat_map(|list| list.split(','))
            .map(|word| format!("{ARCHITECTURE}{word}"))
            .collect();
        let mut rules: Vec<SeccompRule> = Vec::new();
        for word in words {
            if let Some(rule) = word.strip_prefix("calls=") {
                let (action, names) = rule.split_once(':').unwrap_or((rule, ""));
                let action = SeccompAction::parse_word(action)?;
                rules.push(SeccompRule::new(names.split(','), action, Vec::new())?);
            } else if let Some((argument, rule)) =
                word.strip_prefix("argument=").zip(rules.last_mut())
            {
                rule.arguments.push(SeccompArgument::parse_word(argument)?);
                rule.check()?;
            } else {
                return Err(malformed("a profile has `calls=`, each perhaps with `argument=`"));
            }
        }
        Self::new(name, default, architectures.iter().map(String::as_str), rules)
    }

    /// The name.
    pub fn name(&self) -> &SeccompName {
        &self.name
    }

    /// The action of calls that no rule names.
    pub fn default(&self) -> SeccompAction {
        self.default
    }

    /// The architectures, in the OCI's words.
    pub fn architectures(&self) -> impl Iterator<Item = String> {
        self.architectures.iter().map(|word| format!("{ARCHITECTURE}{word}"))
    }

    /// The rules.
    pub fn rules(&self) -> &[SeccompRule] {
        &self.rules
    }

    /// The value.
    pub(super) fn words(&self) -> String {
        let mut words = format!("default={}", self.default);
        if !self.architectures.is_empty() {
            words += &format!(" architectures={}", self.architectures.join(","));
        }
        for SeccompRule { names, action, arguments } in &self.rules {
            words += &format!(" calls={action}:{}", names.join(","));
            for argument in arguments {
                words += &format!(" argument={argument}");
            }
        }
        words
    }
}

impl SeccompName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not 1 to 63 lower-case letters, digits, dots and dashes, the first of them a letter or
    /// a digit.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = (1..=MAX_NAME).contains(&text.len())
            && text.bytes().next().is_some_and(is_inside)
            && text.bytes().all(|byte| is_inside(byte) || b".-".contains(&byte));
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(Refusal::malformed(format!(
                "`{}` is not the name of a seccomp profile: lower-case letters, digits, `.` and \
                 `-`",
                start(text)
            ))),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SeccompAction {
    /// Reads an action in the OCI's word, such as `SCMP_ACT_ERRNO`, and the number of its error.
    ///
    /// # Errors
    /// There is no such action, it asks another program, or it has no error or none of this number.
    pub fn parse(text: &str, errno: Option<u32>) -> Result<Self, Refusal> {
        if text.strip_prefix(ACTION) == Some(NOTIFY) {
            return Err(Refusal::malformed(format!(
                "`{text}` asks a program at a socket, and no program of the node answers"
            )));
        }
        let word = word(text, ACTION, &ACTIONS, "an action")?;
        match errno {
            Some(_) if !WITH_ERRNO.contains(&word) => {
                Err(Refusal::malformed(format!("`{text}` returns no error")))
            }
            Some(number) if number > MAX_ERRNO => {
                Err(Refusal::malformed(format!("an error is a number up to {MAX_ERRNO}")))
            }
            _ => Ok(Self { word, errno }),
        }
    }

    fn parse_word(word: &str) -> Result<Self, Refusal> {
        let (word, errno) = match word.split_once('/') {
            Some((word, errno)) => (word, Some(number(errno)?)),
            None => (word, None),
        };
        Self::parse(&format!("{ACTION}{word}"), errno)
    }

    /// The OCI's word.
    pub fn oci(self) -> String {
        format!("{ACTION}{}", self.word)
    }

    /// The number of the error; none for the usual one.
    pub fn errno(self) -> Option<u32> {
        self.errno
    }
}

impl SeccompRule {
    /// Combines what was read.
    ///
    /// # Errors
    /// There is no system call, the name of one is malformed, or an argument is compared twice.
    pub fn new<'a>(
        names: impl IntoIterator<Item = &'a str>,
        action: SeccompAction,
        arguments: Vec<SeccompArgument>,
    ) -> Result<Self, Refusal> {
        let names = names.into_iter().map(str::to_owned).collect();
        let rule = Self { names, action, arguments };
        rule.check().map(|()| rule)
    }

    fn check(&self) -> Result<(), Refusal> {
        let is_inside =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_call = |name: &String| {
            (1..=MAX_CALL).contains(&name.len())
                && name.bytes().all(is_inside)
                && !name.starts_with(|first: char| first.is_ascii_digit())
        };
        if self.names.is_empty() {
            return Err(malformed("a rule of a profile names system calls"));
        }
        if let Some(wrong) = self.names.iter().find(|name| !is_call(name)) {
            let wrong = start(wrong);
            return Err(Refusal::malformed(format!("`{wrong}` is not the name of a system call")));
        }
        match self.arguments.len() <= ARGUMENTS as usize {
            true => Ok(()),
            false => Err(malformed("a system call has at most 6 arguments")),
        }
    }

    /// The system calls.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Their action.
    pub fn action(&self) -> SeccompAction {
        self.action
    }

    /// The comparisons, all of which have to hold.
    pub fn arguments(&self) -> &[SeccompArgument] {
        &self.arguments
    }
}

impl SeccompArgument {
    /// Combines what was read. `comparison` is the OCI's word, such as `SCMP_CMP_EQ`.
    ///
    /// # Errors
    /// There is no such argument or comparison.
    pub fn new(index: u32, value: u64, value_two: u64, comparison: &str) -> Result<Self, Refusal> {
        if index >= ARGUMENTS {
            return Err(malformed("the arguments of a system call have the numbers 0 to 5"));
        }
        let comparison = word(comparison, COMPARISON, &COMPARISONS, "a comparison")?;
        Ok(Self { index, value, value_two, comparison })
    }

    fn parse_word(word: &str) -> Result<Self, Refusal> {
        let mut parts = word.split(':');
        let mut next = || parts.next().ok_or_else(|| malformed("an argument has four parts"));
        let (index, value, value_two, comparison) = (next()?, next()?, next()?, next()?);
        if parts.next().is_some() {
            return Err(malformed("an argument has four parts"));
        }
        let comparison = format!("{COMPARISON}{comparison}");
        Self::new(number(index)?, number(value)?, number(value_two)?, &comparison)
    }

    /// The comparison, in the OCI's word.
    pub fn oci(self) -> String {
        format!("{COMPARISON}{}", self.comparison)
    }
}

/// The word of a list behind a prefix of the OCI.
fn word(
    text: &str,
    prefix: &str,
    known: &[&'static str],
    kind: &str,
) -> Result<&'static str, Refusal> {
    let found = text.strip_prefix(prefix);
    let found = found.and_then(|word| known.iter().find(|one| **one == word));
    found.copied().ok_or_else(|| {
        let (text, words) = (start(text), known.join(&format!("`, `{prefix}")));
        Refusal::malformed(format!("`{text}` is not {kind}: `{prefix}{words}`"))
    })
}

/// A number as it is written: one spelling alone.
fn number<N: std::str::FromStr + fmt::Display>(text: &str) -> Result<N, Refusal> {
    let number = text.parse().ok().filter(|number: &N| number.to_string() == text);
    number.ok_or_else(|| Refusal::malformed(format!("`{}` is not a number", start(text))))
}

fn malformed(reason: &str) -> Refusal {
    Refusal::malformed(reason.to_owned())
}

fn start(text: &str) -> String {
    text.chars().take(64).collect()
}

impl fmt::Display for SeccompName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SeccompAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            Some(errno) => write!(f, "{}/{errno}", self.word),
            None => f.write_str(self.word),
        }
    }
}

impl fmt::Display for SeccompArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, value, value_two, comparison } = self;
        write!(f, "{index}:{value}:{value_two}:{comparison}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Request, Setting, Socket};

    fn read(name: &str, words: &str) -> Result<SeccompFilter, Refusal> {
        SeccompFilter::parse_words(SeccompName::parse(name)?, words)
    }

    #[test]
    fn a_filter_is_read_as_it_was_written() {
        for words in [
            "default=ALLOW",
            "default=ERRNO/38 architectures=X86_64,X86 calls=ALLOW:read,write,_llseek",
            "default=ALLOW calls=ERRNO/1:clone argument=0:2114060288:0:MASKED_EQ \
             argument=1:18446744073709551615:0:NE calls=KILL_PROCESS:ptrace",
        ] {
            assert_eq!(read("a.b-7", words).unwrap().words(), words);
        }
    }

    #[test]
    fn a_filter_with_as_many_system_calls_as_an_architecture_has_fits() {
        let names: Vec<String> =
            (0..480).map(|number| format!("{}{number:03}", "a".repeat(20))).collect();
        let words =
            format!("default=ERRNO/1 architectures=X86_64,X86,X32 calls=ALLOW:{}", names.join(","));
        let filter = read(&"a".repeat(63), &words).unwrap();
        let request = Request::Apply(Setting::SeccompProfile(filter));
        assert!(request.to_string().len() < Socket::Host.max_line());
    }

    #[test]
    fn a_filter_that_is_malformed_or_asks_another_program_is_refused() {
        let long = format!("default=ALLOW calls=LOG:{}", vec!["read"; MAX_LENGTH / 5].join(","));
        for (name, words) in [
            ("../a", "default=ALLOW"),
            ("a/b", "default=ALLOW"),
            ("..", "default=ALLOW"),
            ("", "default=ALLOW"),
            ("a", ""),
            ("a", "ALLOW"),
            ("a", "default=NOTIFY"),
            ("a", "default=allow"),
            ("a", "default=ALLOW/1"),
            ("a", "default=ERRNO/4096"),
            ("a", "default=ERRNO/+1"),
            ("a", "default=ALLOW architectures="),
            ("a", "default=ALLOW architectures=Z80"),
            ("a", "default=ALLOW architectures=X86,X86"),
            ("a", "default=ALLOW argument=0:1:0:EQ"),
            ("a", "default=ALLOW calls=LOG"),
            ("a", "default=ALLOW calls=NOTIFY:mount"),
            ("a", "default=ALLOW calls=LOG:read,"),
            ("a", "default=ALLOW calls=LOG:read\",\"x"),
            ("a", "default=ALLOW calls=LOG:3read"),
            ("a", "default=ALLOW calls=LOG:read argument=6:1:0:EQ"),
            ("a", "default=ALLOW calls=LOG:read argument=0:1:EQ"),
            ("a", "default=ALLOW calls=LOG:read argument=0:1:0:LIKE"),
            ("a", "default=ALLOW listener=/run/a"),
            ("a", &long),
        ] {
            assert!(read(name, words).is_err(), "{name} {words}");
        }
        let reason = SeccompAction::parse("SCMP_ACT_NOTIFY", None).unwrap_err().reason;
        assert!(reason.contains("no program of the node answers"), "{reason}");
    }
}

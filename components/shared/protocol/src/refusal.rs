//! Why `init` does not do what a request asks for.

use std::fmt;

use osbuild_failure::Failure;

use crate::fields::{number, printable, split_trailer};
use crate::reply::ERROR;

/// The first field of a refusal.
const CODE: &str = "code";

/// A refusal: the code for programs, and the reason for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub code: RefusalCode,
    /// The reason: one line.
    pub reason: String,
}

/// The kind of a refusal. The number is on the wire, and is never used for anything else again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    /// A kind that this release does not know, or a refusal of version 0, which has no code.
    Unknown = 0,
    /// The socket has no such verb.
    UnknownVerb = 1,
    /// The words after the verb are wrong.
    Malformed = 2,
    /// It was tried, and failed, or the disk has not answered in time.
    Failed = 3,
    /// Another job for the `update` socket is running, too many jobs wait for the disk, there is a
    /// debug container already, or the network lacks changes that a request would confirm.
    Busy = 4,
    /// The slot that runs is on trial.
    OnTrial = 5,
    /// The request needs a descriptor, and none came with it.
    NoDescriptor = 6,
    /// slotboot has not reported which slot it started.
    SlotUnknown = 7,
    /// The image does not allow it.
    NotAllowed = 8,
    /// No try is running: none was begun, or its time is over.
    NoTry = 9,
}

impl RefusalCode {
    /// All of them.
    pub const ALL: [RefusalCode; 10] = [
        Self::Unknown,
        Self::UnknownVerb,
        Self::Malformed,
        Self::Failed,
        Self::Busy,
        Self::OnTrial,
        Self::NoDescriptor,
        Self::SlotUnknown,
        Self::NotAllowed,
        Self::NoTry,
    ];

    /// The number on the wire.
    pub fn code(self) -> u16 {
        self as u16
    }

    /// The kind of a number; [`Self::Unknown`] if this release does not know it.
    pub fn from_code(code: u16) -> Self {
        Self::ALL.into_iter().find(|known| known.code() == code).unwrap_or(Self::Unknown)
    }
}

impl Refusal {
    /// A refusal of this kind.
    pub fn new(code: RefusalCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }

    /// The request's words are wrong.
    pub(crate) fn malformed(reason: impl Into<String>) -> Self {
        Self::new(RefusalCode::Malformed, reason)
    }

    /// The line, with its end.
    pub fn encode(&self) -> String {
        format!("{ERROR}{} [{CODE}={}]\n", printable(&self.reason), self.code.code())
    }

    /// Reads a line without its end, if it is a refusal.
    pub fn decode(line: &str) -> Option<Self> {
        let (reason, fields) = split_trailer(line.strip_prefix(ERROR)?, CODE);
        let code = fields.and_then(|fields| number(fields, CODE));
        Some(Self::new(code.map_or(RefusalCode::Unknown, RefusalCode::from_code), reason))
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::new(RefusalCode::Failed, failure.to_string())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::new(refusal.reason)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_with_its_code_and_without_one() {
        let refusal = Refusal::new(RefusalCode::OnTrial, "SLOT-B is on trial");
        assert_eq!(refusal.encode(), "error: SLOT-B is on trial [code=5]\n");
        assert_eq!(Refusal::decode("error: SLOT-B is on trial [code=5]"), Some(refusal));
        for (line, reason) in
            [("error: a [b]", "a [b]"), ("error: a [code=99]", "a"), ("error: a [code=x]", "a")]
        {
            let refusal = Refusal::new(RefusalCode::Unknown, reason);
            assert_eq!(Refusal::decode(line), Some(refusal), "{line}");
        }
        assert_eq!(Refusal::decode("ok"), None);
    }

    #[test]
    fn a_code_means_the_same_in_every_release() {
        for (code, kind) in RefusalCode::ALL.into_iter().enumerate() {
            assert_eq!((kind.code(), RefusalCode::from_code(code as u16)), (code as u16, kind));
        }
        assert_eq!(RefusalCode::from_code(10), RefusalCode::Unknown);
    }

    #[test]
    fn a_reason_of_several_lines_stays_one_line() {
        let line = Refusal::new(RefusalCode::Failed, "a\nok\n\u{e4}").encode();
        assert_eq!(line, "error: a?ok?? [code=3]\n");
    }
}

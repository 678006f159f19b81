//! The sentences of version 0, which were the protocol up to commit `3366aed`. Their wording is
//! frozen, because clients and nodes of those releases are in use.

use osbuild_abi::disk::{SLOT_A, SLOT_B};

use crate::boot_report::passed_of_version_0;
use crate::{Contents, PassReason, Release, SlotState, SlotStatus};

/// How version 0 reports a header that cannot be read from the disk.
pub const UNREADABLE: &str = "its header cannot be read";

/// The start of the contents of a slot with a damaged header.
const DAMAGED: &str = "damaged (";

/// Parses `SLOT, CONTENTS: STATE`.
pub fn slot(line: &str) -> Option<SlotStatus> {
    let (name, rest) = line.split_once(", ").filter(|(name, _)| is_word(name))?;
    // The kind of damage may be any text in brackets.
    let end = if rest.starts_with(DAMAGED) { rest.find("): ")? + 1 } else { rest.find(": ")? };
    let (contents, state) = (self::contents(&rest[..end]), self::state(&rest[end + 2..]));
    Some(SlotStatus { name: name.to_owned(), contents, state })
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && !name.contains(' ')
}

fn contents(words: &str) -> Contents {
    if let Some((version, sha256)) =
        words.strip_prefix("version ").and_then(|rest| rest.split_once(", sha256 "))
    {
        return Contents::Release(Release { version: version.into(), sha256: sha256.into() });
    }
    let damage = words.strip_prefix(DAMAGED).and_then(|rest| rest.strip_suffix(')'));
    match damage {
        Some(UNREADABLE) => Contents::Unreadable,
        Some(how) => Contents::Damaged(how.to_owned()),
        None if words == "empty" => Contents::Empty,
        None => Contents::Unknown,
    }
}

fn state(words: &str) -> SlotState {
    match words.strip_prefix("on trial, tries left: ").map(str::parse) {
        Some(Ok(tries_left)) => SlotState::OnTrial { tries_left },
        Some(Err(_)) => SlotState::Unknown,
        None if words == "good" => SlotState::Good,
        None if words == "not to be booted" => SlotState::NotBootable,
        None => SlotState::Unknown,
    }
}

/// Why slotboot passed over the other slot, from its sentence.
pub fn passed(why: &str, running: &str) -> Option<PassReason> {
    let running = [SLOT_A, SLOT_B].into_iter().find(|slot| *slot == running);
    running.map_or(Some(PassReason::Unknown), |running| passed_of_version_0(why, running))
}

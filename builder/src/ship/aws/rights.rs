//! Who may start an image, and until when AWS offers it.

use super::regional::{Regional, parameters};
use crate::error::Result;
use crate::plan::Date;
use crate::produce::aws::Action;

/// Who may start an image besides its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Accounts, each of 12 digits.
    pub accounts: Vec<String>,
    /// Everybody.
    pub public: bool,
}

/// Lets them start it. Who may already stays.
pub(super) fn share(here: &Regional, id: &str, share: &Share) -> Result<()> {
    let accounts = share.accounts.iter().map(|account| ("UserId", account.as_str()));
    let public = share.public.then_some(("Group", "all"));
    let mut said = parameters([("ImageId", id)]);
    for (number, (kind, who)) in (1..).zip(accounts.chain(public)) {
        said.push((format!("LaunchPermission.Add.{number}.{kind}"), who.to_owned()));
    }
    if said.len() == 1 {
        return Ok(());
    }
    here.query(Action::ModifyImageAttribute, said).map(drop)
}

/// Lets AWS call it deprecated from the beginning of this day on.
pub(super) fn deprecate(here: &Regional, id: &str, day: Option<Date>) -> Result<()> {
    let Some(day) = day else { return Ok(()) };
    let at = format!("{day}T00:00:00Z");
    here.query(Action::EnableImageDeprecation, parameters([("ImageId", id), ("DeprecateAt", &at)]))
        .map(drop)
}

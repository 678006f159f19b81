//! Which addresses the node has, as the pod that configures its links tells. Whatever it tells, no
//! more than a few are remembered: PID 1 must not grow by what a pod says.

use osbuild_abi::console::ADDRESS;
use osbuild_failure::{Failure, Outcome};

use crate::node::Node;
use crate::reached::{self, Goal};
use crate::{link, node_name};

/// The most addresses that are remembered of all links together.
const MAX_ADDRESSES: usize = 64;

/// Remembers the addresses of a link in place of those told before, and prints those that are new.
/// Links that are gone are forgotten.
pub fn tell(node: &mut Node, addresses: &[String], link: &str) -> Outcome {
    let new = replace(&mut node.addresses, addresses, link, link::exists)?;
    for address in &new {
        node.console.line(&format!("{ADDRESS}{address}"));
    }
    if !new.is_empty() {
        node_name::has_address(node);
        reached::gained(node, Goal::Address);
    }
    Ok(())
}

/// Changes the list, whose entries are `ADDRESS/PREFIX-LENGTH on LINK`, and returns the entries
/// that were not there before.
fn replace(
    known: &mut Vec<String>,
    addresses: &[String],
    link: &str,
    exists: impl Fn(&str) -> bool,
) -> Outcome<Vec<String>> {
    if !exists(link) {
        return Err(Failure::new(format!("there is no link `{link}`")));
    }
    let of = |entry: &String| entry.rsplit(' ').next().unwrap_or_default().to_owned();
    let before: Vec<String> = known.extract_if(.., |entry| of(entry) == link).collect();
    known.retain(|entry| exists(&of(entry)));
    let mut new = Vec::new();
    for address in addresses {
        if known.len() >= MAX_ADDRESSES {
            return Err(Failure::new(format!("at most {MAX_ADDRESSES} addresses are remembered")));
        }
        let entry = format!("{address} on {link}");
        if known.contains(&entry) {
            continue;
        }
        if !before.contains(&entry) {
            new.push(entry.clone());
        }
        known.push(entry);
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_is_told_of_a_link_replaces_what_was() {
        let mut known = Vec::new();
        let mut tell = |addresses: &[&str], link: &str| {
            replace(&mut known, &owned(addresses), link, |_| true).unwrap()
        };
        assert_eq!(
            tell(&["10.0.0.5/24", "fec0::5/64"], "eth0"),
            ["10.0.0.5/24 on eth0", "fec0::5/64 on eth0"]
        );
        assert_eq!(tell(&["10.0.1.5/24"], "eth1"), ["10.0.1.5/24 on eth1"]);
        assert_eq!(
            tell(&["10.0.0.5/24", "fec0::6/64"], "eth0"),
            ["fec0::6/64 on eth0"],
            "only what is new is printed"
        );
        assert_eq!(tell(&[], "eth0"), [""; 0]);
        assert_eq!(known, ["10.0.1.5/24 on eth1"]);
    }

    #[test]
    fn a_link_that_does_not_exist_is_refused_and_one_that_has_gone_is_forgotten() {
        let mut known = owned(&["10.0.0.5/24 on eth0"]);
        assert!(
            replace(&mut known, &owned(&["10.0.0.6/24"]), "eth1", |link| link == "eth0").is_err()
        );
        assert_eq!(known, ["10.0.0.5/24 on eth0"]);
        replace(&mut known, &owned(&["10.0.0.6/24"]), "eth1", |link| link == "eth1").unwrap();
        assert_eq!(known, ["10.0.0.6/24 on eth1"]);
    }

    #[test]
    fn no_client_makes_the_list_grow_without_end() {
        let mut known = Vec::new();
        let told = |number: usize| owned(&[&format!("10.0.0.{number}/24"), "fec0::5/64"]);
        let refused = (0..1000).filter(|number| {
            replace(&mut known, &told(*number), &format!("l{number}"), |_| true).is_err()
        });
        assert_eq!(refused.count(), 1000 - MAX_ADDRESSES / 2);
        assert_eq!(known.len(), MAX_ADDRESSES);
    }
}

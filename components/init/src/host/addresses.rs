//! The addresses of the node, as reported by the pod that configures its links. Their number is
//! bounded: PID 1 must not grow with what a pod sends.

use osbuild_failure::{Failure, Outcome};

use super::link;

/// How many addresses are remembered of all links together.
const MAX_ADDRESSES: usize = 64;

/// The addresses, each `ADDRESS/PREFIX-LENGTH on LINK`.
#[derive(Default)]
pub struct Addresses {
    known: Vec<String>,
}

impl Addresses {
    /// Replaces the addresses of a link, and forgets those of links that are gone. Returns the
    /// addresses that are new.
    pub fn replace(&mut self, addresses: &[String], link: &str) -> Outcome<Vec<String>> {
        replace(&mut self.known, addresses, link, link::exists)
    }

    /// Whether the node has no address.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The addresses.
    pub fn iter(&self) -> impl Iterator<Item = &String> {
        self.known.iter()
    }
}

/// Replaces the entries of a link, and returns those that were not there before.
fn replace(
    known: &mut Vec<String>,
    addresses: &[String],
    link: &str,
    exists: impl Fn(&str) -> bool,
) -> Outcome<Vec<String>> {
    let of = |entry: &String| entry.rsplit(' ').next().unwrap_or_default().to_owned();
    let before: Vec<String> = known.extract_if(.., |entry| of(entry) == link).collect();
    known.retain(|entry| exists(&of(entry)));
    // A link that is gone has no address, which is what the report may say.
    if !addresses.is_empty() && !exists(link) {
        return Err(Failure::new(format!("there is no link `{link}`")));
    }
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
    fn a_report_replaces_the_earlier_one_of_its_link() {
        let mut known = Vec::new();
        let mut report = |addresses: &[&str], link: &str| {
            replace(&mut known, &owned(addresses), link, |_| true).unwrap()
        };
        assert_eq!(
            report(&["10.0.0.5/24", "fec0::5/64"], "eth0"),
            ["10.0.0.5/24 on eth0", "fec0::5/64 on eth0"]
        );
        assert_eq!(report(&["10.0.1.5/24"], "eth1"), ["10.0.1.5/24 on eth1"]);
        assert_eq!(
            report(&["10.0.0.5/24", "fec0::6/64"], "eth0"),
            ["fec0::6/64 on eth0"],
            "only what is new is printed"
        );
        assert_eq!(report(&[], "eth0"), [""; 0]);
        assert_eq!(known, ["10.0.1.5/24 on eth1"]);
    }

    #[test]
    fn a_missing_link_is_refused_and_a_removed_one_is_forgotten() {
        let mut known = owned(&["10.0.0.5/24 on eth0"]);
        assert!(
            replace(&mut known, &owned(&["10.0.0.6/24"]), "eth1", |link| link == "eth0").is_err()
        );
        assert_eq!(known, ["10.0.0.5/24 on eth0"]);
        replace(&mut known, &owned(&["10.0.0.6/24"]), "eth1", |link| link == "eth1").unwrap();
        assert_eq!(known, ["10.0.0.6/24 on eth1"]);
    }

    #[test]
    fn the_report_that_a_link_is_gone_empties_it() {
        let mut known = owned(&["10.0.0.5/24 on eth0", "10.0.1.5/24 on eth1"]);
        assert_eq!(replace(&mut known, &[], "eth1", |link| link == "eth0").unwrap(), [""; 0]);
        assert_eq!(known, ["10.0.0.5/24 on eth0"]);
        assert_eq!(replace(&mut known, &[], "eth0", |_| false).unwrap(), [""; 0]);
        assert_eq!(known, [""; 0]);
    }

    #[test]
    fn the_number_of_addresses_is_bounded() {
        let mut known = Vec::new();
        let addresses = |number: usize| owned(&[&format!("10.0.0.{number}/24"), "fec0::5/64"]);
        let refused = (0..1000).filter(|number| {
            replace(&mut known, &addresses(*number), &format!("l{number}"), |_| true).is_err()
        });
        assert_eq!(refused.count(), 1000 - MAX_ADDRESSES / 2);
        assert_eq!(known.len(), MAX_ADDRESSES);
    }
}

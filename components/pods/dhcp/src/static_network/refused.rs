//! Ports that bridges and bonds have refused. An attempt can switch the port off and on, and the
//! kernel reports changes of each, so it is not repeated with each comparison. It is pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::RETRY;
use super::made::LinkAction;

/// The refused ports, by their index and that of the link that has refused them.
#[derive(Debug, Default)]
pub struct RefusedPorts {
    pairs: BTreeMap<(u32, u32), (String, Duration)>,
}

impl RefusedPorts {
    /// Why an action has to wait, if it does.
    pub fn reason(&self, action: &LinkAction, now: Duration) -> Option<&str> {
        let (reason, until) = self.pairs.get(&pair(action)?)?;
        (now < *until).then_some(reason)
    }

    /// An action was refused for this reason.
    pub fn insert(&mut self, action: &LinkAction, reason: &str, now: Duration) {
        self.pairs.retain(|_, (_, until)| now < *until);
        self.pairs.extend(pair(action).map(|pair| (pair, (reason.to_owned(), now + RETRY))));
    }
}

fn pair(action: &LinkAction) -> Option<(u32, u32)> {
    match action {
        LinkAction::Attach { port, master, .. } => Some((port.index, *master)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::links::NewPort;
    use super::*;
    use osbuild_protocol::LinkName;

    fn attach(index: u32, master: u32) -> LinkAction {
        let port = NewPort { index, is_on: true, stays_off: false, is_of_bond: false };
        LinkAction::Attach { port, master, link: LinkName::parse("br0").unwrap() }
    }

    #[test]
    fn a_refused_port_waits_while_others_do_not() {
        let (mut refused, now) = (RefusedPorts::default(), Duration::from_secs(100));
        refused.insert(&attach(2, 9), "busy", now);
        refused.insert(&LinkAction::Release(2), "it is gone", now);
        let just_before = now + RETRY - Duration::from_millis(1);
        assert_eq!(refused.reason(&attach(2, 9), just_before), Some("busy"));
        assert_eq!(refused.reason(&attach(2, 9), now + RETRY), None);
        assert_eq!(refused.reason(&attach(3, 9), now), None);
        assert_eq!(refused.reason(&attach(2, 8), now), None);
        assert_eq!(refused.reason(&LinkAction::Release(2), now), None);
        refused.insert(&attach(3, 9), "busy", now + RETRY);
        assert_eq!(refused.pairs.len(), 1, "what is over is forgotten");
    }
}

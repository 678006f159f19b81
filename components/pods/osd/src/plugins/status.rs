//! `ControllerStatuses.osbuild`: what others see of controllers.

use super::CONTROLLER_STATUSES;
use super::registry::Controller;
use super::sessions::Sessions;
use crate::host::{Statuses, publish};
use crate::settings::{NAMESPACE, spec};
use osbuild_cosi::v1::ControllerStatusSpec;
use osbuild_resources::{Kind, Names};
use prost_types::Timestamp;
use std::time::SystemTime;

/// The owner of the statuses.
const OWNER: &str = "osd";

/// How exact the time of a reconciliation is in seconds. A controller that reads statuses would
/// otherwise wake itself.
const EXACTNESS: i64 = 5;

/// The kind of the statuses.
pub fn kind() -> Kind {
    let Names { plural, suffix, .. } = CONTROLLER_STATUSES;
    Kind::new(NAMESPACE, &format!("{plural}.{suffix}")).expect("the names of a type are valid")
}

/// Writes the statuses of all controllers.
pub fn write(sessions: &Sessions) {
    let controllers = sessions.controllers().into_iter();
    let statuses: Statuses =
        controllers.map(|(name, one)| (name, spec::both(&status(&one)))).collect();
    publish(sessions.store(), OWNER, &kind(), statuses);
}

fn status(controller: &Controller) -> ControllerStatusSpec {
    let access = &controller.access;
    ControllerStatusSpec {
        plugin: controller.plugin.clone(),
        connected: controller.is_registered(),
        inputs: access.inputs().iter().map(ToString::to_string).collect(),
        outputs: access.outputs().iter().map(ToString::to_string).collect(),
        last_reconcile: controller.reconciled.map_or_else(String::new, rounded),
    }
}

fn rounded(time: SystemTime) -> String {
    let time = Timestamp::from(time);
    let seconds = time.seconds - time.seconds.rem_euclid(EXACTNESS);
    Timestamp { seconds, nanos: 0 }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn the_time_of_a_reconciliation_is_rounded_down() {
        let at = |millis| rounded(UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!(at(1_790_000_009_900), "2026-09-21T14:13:25Z");
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
    }
}

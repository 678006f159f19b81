//! Begins and ends the debug container.

use std::time::Duration;

use osbuild_failure::Outcome;
use osbuild_protocol::{DebugContainer, Refusal};

use super::Dispatcher;
use crate::daemons::debug_pod;
use crate::uptime::uptime;

/// The name of the lines about it.
const NAME: &str = "debug";

impl Dispatcher {
    /// Has the kubelet run the container. Its image and rights are on the console, as it may change
    /// the node.
    pub(super) fn begin_debug(&mut self, container: &DebugContainer) -> Result<(), Refusal> {
        let manifest = self.debug_pod.begin(container, debug_pod::allowed(), uptime())?;
        if let Err(failure) = debug_pod::place(container.rights, &manifest) {
            self.debug_pod.end();
            // Its root may be mounted already.
            let _ = debug_pod::remove();
            return Err(failure.into());
        }
        let DebugContainer { id, rights, time, image } = container;
        let (pod, seconds) = (id.pod(), time.seconds());
        let text = format!("{pod} runs {image} with the rights `{rights}`, {seconds} s at most");
        self.console.say(NAME, text);
        Ok(())
    }

    /// Has the kubelet end the container, if there is one.
    pub(super) fn end_debug(&mut self, now: Duration) -> Outcome {
        let Some(name) = self.debug_pod.end() else { return Ok(()) };
        match debug_pod::remove() {
            Ok(()) => {
                self.console.say(NAME, format!("{name} ends"));
                Ok(())
            }
            Err(failure) => {
                self.debug_pod.on_stuck(name, now);
                Err(failure)
            }
        }
    }

    /// The time of the container may be over.
    pub(super) fn on_debug_deadline(&mut self, now: Duration) {
        if let Err(failure) = self.end_debug(now) {
            self.console.say(NAME, failure);
        }
    }
}

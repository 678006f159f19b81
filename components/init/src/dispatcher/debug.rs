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

#[cfg(test)]
mod tests {
    use super::super::settings::tests::on_a_node;
    use osbuild_protocol::{RefusalCode, Request, Socket};

    /// The words of a container of which each request below changes one.
    const ID: &str = "000102030405060708090a0b0c0d0e0f";
    const IMAGE: &str = "docker.io/library/busybox:1";

    /// Requests of a hostile `osd` on the socket `admin`, each with the kind of its refusal.
    fn hostile_requests() -> Vec<(String, RefusalCode)> {
        use RefusalCode::{Malformed, NotAllowed, UnknownVerb};
        let debug = |id: &str, rights: &str, time: &str, image: &str| {
            format!("debug {id} {rights} {time} {image}")
        };
        let upper = ID.to_uppercase();
        let ids = ["", "00", "../../kubernetes/manifests/osd-00", &upper, &ID[1..]];
        let ids = ids.map(|id| debug(id, "restricted", "60", IMAGE));
        let rights = ["", "root", "privileged", "node,restricted", "Restricted", "*"];
        let rights = rights.map(|rights| debug(ID, rights, "60", IMAGE));
        let times = ["", "0", "9", "28801", "-60", "4294967356", "1h", "6e1"];
        let times = times.map(|time| debug(ID, "restricted", time, IMAGE));
        let long = "a".repeat(513);
        let images = [
            "",
            &long,
            "../../a",
            "/run/osbuild/admin",
            "a/b:",
            "a/b:1 privileged",
            "a/b:1\",\"securityContext\":{\"privileged\":true},\"x\":\"y",
            "a/b:1#",
            "a/b:$(VARIABLE)x",
            "a/b:1%0ahostPID:%20true",
            "{image:a}",
            "@ID@",
        ];
        let images = images.map(|image| debug(ID, "restricted", "60", image));
        let verbs = [
            "apply kernel-parameter vm.swappiness 1",
            "apply static-pod a container=a image=b",
            "confirm",
            "slot",
            "boot-program",
            "hostname a",
            "set 1 by 1 of 1",
            "restart init",
            "restart kubelet osd",
            "debug",
            "end-debug all",
            "exec /bin/runc",
        ];
        let malformed = ids.into_iter().chain(rights).chain(times).chain(images);
        let malformed = malformed.map(|line| (line, Malformed));
        let unknown = verbs.into_iter().map(|line| (line.to_owned(), UnknownVerb));
        let above = (debug(ID, "node", "60", IMAGE), NotAllowed);
        malformed.chain(unknown).chain([above]).collect()
    }

    /// The image has no word about debug containers here, so a restricted one alone is allowed.
    #[test]
    fn requests_of_a_hostile_client_of_the_socket_admin_are_refused() {
        on_a_node(|node| {
            for (line, code) in hostile_requests() {
                let refused = match Request::decode(Socket::Admin, &line) {
                    Ok(Request::Debug(container)) => node.begin_debug(&container).err(),
                    Ok(other) => panic!("`{line}` is `{other}`"),
                    Err(refusal) => Some(refusal),
                };
                assert_eq!(refused.map(|refusal| refusal.code), Some(code), "{line}");
            }
            assert!(node.debug_pod.deadline().is_none());
        });
    }
}

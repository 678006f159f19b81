//! Carries out what a person types at a console.

use std::path::Path;

use osbuild_abi::console::PREFIX;
use osbuild_abi::paths::CONSOLE_ADDRESS;
use osbuild_protocol::Setting;

use super::Dispatcher;
use crate::console_command::Command;
use crate::hardware::keyboards::Keyboards;
use crate::host::console_address::TRY_TIME;
use crate::uptime::uptime;

/// The name of lines about it.
const NAME: &str = "console";
const NO_ADDRESS: &str = "no address was given at a console";

impl Dispatcher {
    /// Reads the consoles from now on, if the image lets people act there.
    pub(super) fn read_keyboards(&mut self) {
        if Path::new(CONSOLE_ADDRESS).exists() {
            self.keyboards = Keyboards::of(osbuild_consoles::readable());
        }
    }

    pub(super) fn on_typed(&mut self, line: &str) {
        // An empty line is that of somebody who looks whether the machine answers, and one of
        // `init` comes back from a serial line without a person.
        if self.end.is_some() || line.trim().is_empty() || line.contains(PREFIX) {
            return;
        }
        match Command::parse(line) {
            Ok(Command::Address(settings)) => self.begin_console_address(&settings),
            Ok(Command::Keep) => {
                let is_there = self.console_address.keep();
                let kept =
                    "the address stays until the next boot: `osctl apply` has it stay longer";
                self.console.say(NAME, if is_there { kept } else { NO_ADDRESS });
            }
            Ok(Command::Undo) => self.end_console_address("on request"),
            // Noise on a serial line would fill the log.
            Err(mistake) if self.keyboards.admit_answer(uptime()) => {
                self.console.show(NAME, mistake);
            }
            Err(_) => {}
        }
    }

    fn begin_console_address(&mut self, settings: &[Setting]) {
        let lines = self.settings.set_console(settings, uptime());
        self.console_address.begin(uptime());
        if !lines.is_empty() {
            lines.into_iter().for_each(|line| self.console.say(NAME, line));
            self.end_console_address("as it is refused");
            return;
        }
        let lines: Vec<String> = settings.iter().map(|one| format!("`{}`", one.line())).collect();
        let minutes = TRY_TIME.as_secs() / 60;
        self.console.say(
            NAME,
            format_args!(
                "a person sets {} for {minutes} minutes: `keep` has it stay until the next boot, \
                 `undo` ends it",
                lines.join(", ")
            ),
        );
    }

    /// Takes the address back, if there is one.
    pub(super) fn end_console_address(&mut self, reason: &str) {
        if !self.console_address.end() {
            self.console.say(NAME, NO_ADDRESS);
            return;
        }
        let lines = self.settings.set_console(&[], uptime());
        lines.into_iter().for_each(|line| self.console.say(NAME, line));
        self.console.say(NAME, format_args!("the address is taken back, {reason}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::tests;
    use super::*;
    use osbuild_ranks::Source;

    const ADDRESS: &str = "address eth0 192.0.2.7/24 192.0.2.1";

    /// The settings of the network that are in effect, each after its source.
    fn network(node: &Dispatcher) -> Vec<String> {
        let settings = node.settings.network().in_effect();
        let line = |(source, one): (Source, _)| (source.name(), Setting::Network(one).line());
        settings.map(line).map(|(source, line)| format!("{source} {line}")).collect()
    }

    #[test]
    fn a_persons_address_outranks_the_api_until_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, _clients) = tests::node(folder.path());
        let route = Setting::parse("route 0.0.0.0/0 1 via 198.51.100.1 on eth1").unwrap();
        node.settings.apply(Source::Api, &route, uptime()).unwrap();
        let before = network(&node);
        node.on_typed(ADDRESS);
        let (address, link) = ("console address eth0 192.0.2.7 24", "console link eth0 state up");
        let gateway = "console route 0.0.0.0/0 1 via 192.0.2.1 on eth0";
        assert_eq!(network(&node), [address, gateway, link].map(str::to_owned));
        assert!(node.console_address.deadline().is_some());
        node.on_typed("address eth0 192.0.2.8/24");
        let other = "console address eth0 192.0.2.8 24".to_owned();
        let others = [&[other][..], &before, &[link.to_owned()]].concat();
        assert_eq!(network(&node), others);
        assert!(!node.settings.text().contains("192.0.2.8"), "it is kept for the next boot");
        for nothing in ["", "login:", "init: status: undo", "address eth0 192.0.2.9", "keep"] {
            node.on_typed(nothing);
            assert_eq!(network(&node), others, "{nothing}");
        }
        assert_eq!(node.console_address.deadline(), None, "it was kept");
        node.on_typed("undo");
        assert_eq!(network(&node), before);
    }

    #[test]
    fn an_address_that_the_api_has_as_well_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, _clients) = tests::node(folder.path());
        node.on_typed("address eth0 192.0.2.7/24");
        let revision = node.settings.network().revision();
        for line in ["address eth0 192.0.2.7 24", "link eth0 state up"] {
            let setting = Setting::parse(line).unwrap();
            node.settings.apply(Source::Api, &setting, uptime()).unwrap();
        }
        node.on_typed("undo");
        assert_eq!(network(&node), ["api address eth0 192.0.2.7 24", "api link eth0 state up"]);
        assert_eq!(node.settings.network().revision(), revision, "the link keeps its address");
    }

    #[test]
    fn an_address_that_is_refused_ends_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, _clients) = tests::node(folder.path());
        node.on_typed("address eth0 192.0.2.7/24");
        for number in 1..=osbuild_protocol::MAX_NETWORK_SETTINGS {
            let route = format!("route 198.51.100.0/24 {} via 192.0.2.1 on eth0", number + 1);
            node.settings.apply(Source::Api, &Setting::parse(&route).unwrap(), uptime()).unwrap();
        }
        let before = network(&node).len();
        node.on_typed(ADDRESS);
        assert_eq!(network(&node).len(), before - 2);
        assert_eq!(node.console_address.deadline(), None);
    }

    #[test]
    fn an_address_that_nobody_keeps_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, _clients) = tests::node(folder.path());
        node.on_typed(ADDRESS);
        node.handle(crate::event_loop::Event::Deadline(
            crate::event_loop::Deadline::ConsoleAddress,
        ));
        assert_eq!(network(&node), [""; 0]);
    }
}

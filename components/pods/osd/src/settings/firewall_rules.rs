//! `FirewallRules.osbuild`: rules for packets to the node itself.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_abi::osd::PORT;
use osbuild_cosi::v1::{FirewallRuleSpec, FirewallRuleStatusSpec};
use osbuild_protocol::{
    FirewallRule, NetworkKind, NetworkName, NetworkSetting, Observed, Refusal, RuleName,
    RuleOptions, Setting, SettingName, firewall_conflict, rule_that_closes,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("FirewallRules", "FirewallRule"),
    columns: &[NAME, PRIORITY, ACTION, PROTOCOL, PORTS, SOURCES, LINKS],
    status_names: names("FirewallRuleStatuses", "FirewallRuleStatus"),
    status_columns: &[
        NAME,
        PRIORITY,
        ACTION,
        PROTOCOL,
        PORTS,
        SOURCES,
        LINKS,
        SET,
        SET_BY,
        ERROR,
        column("Warning", "{.warning}"),
    ],
    // A rule opens ports to everybody, or cuts off the node.
    writer: Role::Admin,
    may_disconnect: true,
    read: spec::read::<FirewallRuleSpec>,
    write: spec::write::<FirewallRuleSpec>,
    subject: |settings| format!("the firewall rule `{}`", FirewallRuleSpec::of(settings).name),
    conflict: |settings| firewall_conflict(settings.iter().filter_map(of_network)),
    covers: is_rule,
    statuses,
};

const NAME: PrintColumn = column("Name", "{.name}");
const PRIORITY: PrintColumn = column("Priority", "{.priority}");
const ACTION: PrintColumn = column("Action", "{.action}");
const PROTOCOL: PrintColumn = column("Protocol", "{.protocol}");
const PORTS: PrintColumn = column("Ports", "{.ports[:]}");
const SOURCES: PrintColumn = column("Sources", "{.sources[:]}");
const LINKS: PrintColumn = column("Links", "{.links[:]}");

impl HostSpec for FirewallRuleSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let rule = FirewallRule::new(RuleOptions {
            name: &self.name,
            action: &self.action,
            priority: self.priority,
            protocol: &self.protocol,
            ports: &self.ports,
            sources: &self.sources,
            links: &self.links,
        })?;
        Ok(vec![Setting::Network(NetworkSetting::FirewallRule(rule))])
    }

    fn of(settings: &[Setting]) -> Self {
        let Some(rule) = settings.iter().find_map(rule_of) else { return Self::default() };
        // That of a rule about all other packets cannot be written.
        let priority = if rule.is_of_the_rest() { 0 } else { rule.priority().number() };
        FirewallRuleSpec {
            name: rule.name().to_string(),
            action: rule.action().to_string(),
            priority,
            protocol: rule.protocol().map(|protocol| protocol.to_string()).unwrap_or_default(),
            ports: rule.ports().iter().map(ToString::to_string).collect(),
            sources: rule.sources().iter().map(ToString::to_string).collect(),
            links: rule.links().iter().map(ToString::to_string).collect(),
        }
    }
}

fn is_rule(name: &SettingName) -> bool {
    matches!(name, SettingName::Network(name) if name.kind() == NetworkKind::FirewallRule)
}

fn of_network(setting: &Setting) -> Option<&NetworkSetting> {
    match setting {
        Setting::Network(setting) => Some(setting),
        _ => None,
    }
}

fn rule_of(setting: &Setting) -> Option<&FirewallRule> {
    match of_network(setting)? {
        NetworkSetting::FirewallRule(rule) => Some(rule),
        _ => None,
    }
}

/// A status for each resource, with its identifier, and for each other rule, with its name.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let in_effect: Vec<Setting> = report.observed.iter().filter_map(current).collect();
    let closing = rule_that_closes(in_effect.iter().filter_map(of_network), PORT);
    let warning = |name: &RuleName| match closing {
        Some(rule) if rule.name() == name => {
            format!("it closes port {PORT}, the node API, to everybody on the network")
        }
        _ => String::new(),
    };
    let others = report.others(is_rule).filter_map(|observed| other(observed, warning));
    others.chain(report.wanted.iter().map(|wanted| of_resource(report, wanted, warning))).collect()
}

fn of_resource(
    report: &Report,
    wanted: &Wanted,
    warning: impl Fn(&RuleName) -> String,
) -> (String, Spec) {
    let observed = wanted.settings.iter().find_map(|setting| report.observed(&setting.name()));
    let rule = wanted.settings.iter().find_map(rule_of);
    let status = FirewallRuleStatusSpec {
        set: report.is_set(wanted),
        set_by: observed.map(source).unwrap_or_default(),
        error: report.error(wanted),
        warning: rule.map(|rule| warning(rule.name())).unwrap_or_default(),
        version: wanted.version.clone(),
        ..shown(FirewallRuleSpec::of(&wanted.settings))
    };
    (wanted.id.clone(), spec::both(&status))
}

/// The status of a rule that no resource asks for.
fn other(observed: &Observed, warning: impl Fn(&RuleName) -> String) -> Option<(String, Spec)> {
    let SettingName::Network(NetworkName::FirewallRule(name)) = &observed.name else {
        return None;
    };
    let current = current(observed);
    let spec = FirewallRuleSpec { name: name.to_string(), ..FirewallRuleSpec::default() };
    let status = FirewallRuleStatusSpec {
        set: current.is_some(),
        set_by: source(observed),
        error: observed.error.clone(),
        warning: warning(name),
        ..shown(current.map_or(spec, |setting| FirewallRuleSpec::of(&[setting])))
    };
    Some((name.to_string(), spec::both(&status)))
}

/// The rule that is in effect.
fn current(observed: &Observed) -> Option<Setting> {
    let is_set = is_rule(&observed.name) && !observed.current.is_empty();
    is_set.then(|| Setting::parse(&format!("{} {}", observed.name, observed.current)).ok())?
}

fn shown(spec: FirewallRuleSpec) -> FirewallRuleStatusSpec {
    let FirewallRuleSpec { name, action, priority, protocol, ports, sources, links } = spec;
    FirewallRuleStatusSpec {
        name,
        action,
        priority,
        protocol,
        ports,
        sources,
        links,
        ..FirewallRuleStatusSpec::default()
    }
}

fn source(observed: &Observed) -> String {
    observed.source.map_or("", |source| source.name()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_ranks::Source;

    fn observed(line: &str, source: Source) -> Observed {
        let setting = Setting::parse(line).unwrap();
        let wanted = (source == Source::Api).then(|| setting.clone());
        let (name, current) = (setting.name(), setting.value());
        Observed { name, wanted, source: Some(source), current, error: String::new() }
    }

    #[test]
    fn rules_of_the_document_have_a_status_and_what_closes_the_api_a_warning() {
        let rest = "firewall-rule rest drop";
        let ssh = observed("firewall-rule ssh accept protocol=tcp ports=22", Source::Document);
        let all = [ssh, observed(rest, Source::Api)];
        let settings = vec![Setting::parse(rest).unwrap()];
        let (id, version) = ("all".to_owned(), "3".to_owned());
        let wanted = [Wanted { id, version, settings, unreadable: None }];
        let report = Report {
            wanted: &wanted,
            observed: &all,
            errors: &BTreeMap::new(),
            pods: &[],
            wireguard: &[],
            cluster: None,
        };
        let statuses = TYPE.statuses(&report);
        assert_eq!(
            statuses["ssh"].yaml,
            "name: ssh\naction: accept\npriority: 1000\nprotocol: tcp\nports:\n- \"22\"\n\
             set: true\nsetBy: document\n"
        );
        assert_eq!(
            statuses["all"].yaml,
            "name: rest\naction: drop\nset: true\nsetBy: api\n\
             warning: it closes port 50000, the node API, to everybody on the network\n\
             version: \"3\"\n"
        );
        let api = observed("firewall-rule api accept protocol=tcp sources=::/0", Source::Document);
        let open = [all.as_slice(), &[api]].concat();
        let report = Report { observed: &open, ..report };
        assert!(!TYPE.statuses(&report)["all"].yaml.contains("warning"));
    }
}

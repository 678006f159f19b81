//! The choices, without a cluster.

use super::*;

const NOW: Duration = Duration::from_secs(100);

fn apply(node: &mut Registration, source: Source, line: &str) -> Result<(), Refusal> {
    match Setting::parse(line) {
        Ok(Setting::NodeLabel(label)) => node.apply_label(source, &label, NOW),
        Ok(Setting::NodeTaint(taint)) => node.apply_taint(source, &taint, NOW),
        other => panic!("{line}: {other:?}"),
    }
}

fn withdraw(node: &mut Registration, source: Source, name: &str) {
    match SettingName::parse(name) {
        Ok(SettingName::NodeLabel(key)) => node.withdraw_label(source, &key, NOW),
        Ok(SettingName::NodeTaint(name)) => node.withdraw_taint(source, &name, NOW),
        other => panic!("{name}: {other:?}"),
    }
}

/// The name, what the cluster has, and the error.
fn observed(node: &Registration) -> Vec<String> {
    node.observe().map(|one| format!("{} [{}] [{}]", one.name, one.current, one.error)).collect()
}

#[test]
fn a_node_that_has_not_registered_differs_from_nothing() {
    let mut node = Registration::default();
    apply(&mut node, Source::Document, "node-label rack 7").unwrap();
    apply(&mut node, Source::Api, "node-label rack 8").unwrap();
    apply(&mut node, Source::Api, "node-taint db:NoSchedule -").unwrap();
    assert_eq!(node.deadline(), Some(NOW + PAUSE));
    assert!(!node.is_written());
    assert_eq!(node.write(), ["node-label rack 8", "node-taint db:NoSchedule -"]);
    assert!(node.is_written());
    assert_eq!(observed(&node), ["node-label rack [] []", "node-taint db:NoSchedule [] []"]);
}

#[test]
fn a_node_with_labels_of_requests_is_watched() {
    let mut node = Registration::default();
    apply(&mut node, Source::Document, "node-label zone a").unwrap();
    node.on_found(Found::parse("node-label zone a\n"), NOW);
    assert_eq!(node.watch_due(), None, "labels of the document belong to the cluster");
    apply(&mut node, Source::Api, "node-label rack 8").unwrap();
    assert_eq!(node.watch_due(), None, "the label is not set yet");
    node.on_due();
    node.on_found(Found::parse("node-label rack 8\nnode-label zone a\n"), NOW);
    assert_eq!(node.watch_due(), Some(Duration::ZERO));
    assert_eq!(node.on_watching(), ["node-label rack 8", "node-label zone a"]);
    assert_eq!(node.watch_due(), None, "a child watches");
    let seen = Found::parse("node-label rack 9\nnode-label zone a\n");
    node.on_watched(true, &seen.report(), NOW);
    assert_eq!((node.deadline(), node.watch_due()), (Some(NOW), None), "it is changed back first");
    node.on_due();
    assert_eq!(node.watch_due(), Some(NOW + PAUSE));
    node.on_watched(false, "the API server refuses: no", NOW);
    assert_eq!(node.watch_due(), Some(NOW + RETRY));
}

#[test]
fn a_label_that_somebody_changes_in_the_cluster_is_changed_back() {
    let mut node = Registration::default();
    apply(&mut node, Source::Document, "node-label zone a").unwrap();
    apply(&mut node, Source::Api, "node-label rack 8").unwrap();
    node.on_due();
    let looked = |node: &mut Registration, text: &str| {
        node.on_looked(Found::parse(text), NOW);
        node.deadline()
    };
    assert_eq!(looked(&mut node, ""), None, "the labels are not set yet");
    node.on_found(Found::parse("node-label rack 8\nnode-label zone a\n"), NOW);
    assert_eq!(looked(&mut node, "node-label rack 8\n"), None, "those of the document are not");
    for foreign in ["node-label rack 9\n", ""] {
        assert_eq!(looked(&mut node, foreign), Some(NOW));
        node.on_due();
        assert_eq!(node.ask(), ["node-label rack 8"]);
    }
    node.on_found(Found::parse("error it is forbidden\n"), NOW);
    node.on_due();
    assert_eq!(looked(&mut node, ""), None, "the API server refuses");
}

#[test]
fn a_report_has_labels_and_taints_among_other_lines() {
    let found = Found::parse("node-label rack 8\nnode-taint db:NoSchedule -\n");
    let report = format!("Ready\n{}refused\n", found.report());
    assert_eq!(Found::split(&report), (Some(found), "Ready\nrefused\n".to_owned()));
    let none = Found::default();
    assert_eq!(Found::split(&none.report()), (Some(none), String::new()));
    assert_eq!(Found::split("Ready\n"), (None, "Ready\n".to_owned()));
}

#[test]
fn labels_of_requests_are_changed_and_the_rest_is_compared() {
    let mut node = Registration::default();
    for line in ["node-label zone a", "node-taint db:NoSchedule 1", "node-taint web:NoExecute -"] {
        apply(&mut node, Source::Document, line).unwrap();
    }
    apply(&mut node, Source::Api, "node-label rack 8").unwrap();
    assert_eq!(node.ask(), ["node-label rack 8"]);
    node.on_found(Found::parse("node-label rack 8\nnode-taint web:NoExecute -\n"), NOW);
    assert_eq!(
        observed(&node),
        [
            "node-label rack [8] []".to_owned(),
            format!("node-label zone [] [{LATER}]"),
            format!("node-taint db:NoSchedule [] [{TAINTS_LATER}]"),
            "node-taint web:NoExecute [-] []".to_owned(),
        ]
    );
}

#[test]
fn a_label_that_goes_is_removed_or_has_the_documents_value_again() {
    let mut node = Registration::default();
    apply(&mut node, Source::Document, "node-label zone a").unwrap();
    for line in ["node-label rack 8", "node-label zone b"] {
        apply(&mut node, Source::Api, line).unwrap();
    }
    node.on_found(Found::parse("node-label rack 8\nnode-label zone b\n"), NOW);
    withdraw(&mut node, Source::Api, "node-label rack");
    withdraw(&mut node, Source::Api, "node-label zone");
    assert_eq!(node.ask(), ["node-label zone a", "node-label rack"]);
    node.on_found(Found { error: "away".to_owned(), ..Found::default() }, NOW);
    assert_eq!(node.ask().len(), 2, "it is asked for again");
    node.on_found(Found::parse("node-label zone a\n"), NOW);
    assert_eq!(node.ask(), [""; 0]);
    assert_eq!(observed(&node), ["node-label zone [a] []"]);
}

/// The text of the file on DATA, for the next boot.
fn keep(node: &mut Registration) -> String {
    if let Some(text) = node.to_keep() {
        node.on_keeping(text);
    }
    node.kept.clone()
}

#[test]
fn a_withdrawn_label_is_removed_after_a_reboot() {
    let mut node = Registration::default();
    for line in ["node-label rack 8", "node-label zone b"] {
        apply(&mut node, Source::Api, line).unwrap();
    }
    assert_eq!(keep(&mut node), "rack\nzone\n");
    node.on_found(Found::parse("node-label rack 8\nnode-label zone b\n"), NOW);
    withdraw(&mut node, Source::Api, "node-label rack");
    let text = keep(&mut node);
    // The API server does not answer before the node reboots.
    for _ in 0..2 {
        node = Registration::default();
        node.restore(&text);
        apply(&mut node, Source::Api, "node-label zone b").unwrap();
        assert_eq!(node.ask(), ["node-label zone b", "node-label rack"]);
        assert_eq!(keep(&mut node), text);
        node.on_found(Found { error: "away".to_owned(), ..Found::default() }, NOW);
        assert_eq!(node.to_keep(), None);
    }
    node.ask();
    node.on_found(Found::parse("node-label zone b\n"), NOW);
    assert_eq!(keep(&mut node), "zone\n");
    node.on_not_kept();
    assert_eq!(node.to_keep().as_deref(), Some("zone\n"), "a full disk did not take it");
}

#[test]
fn a_refusal_of_the_cluster_is_the_error_and_is_tried_again() {
    let mut node = Registration::default();
    apply(&mut node, Source::Api, "node-label rack 8").unwrap();
    node.on_due();
    let refused = Found { error: "403\nForbidden".to_owned(), ..Found::default() };
    node.on_found(Found::parse(&refused.text()), NOW);
    assert_eq!(observed(&node), ["node-label rack [] [403 Forbidden]"]);
    assert_eq!(node.deadline(), Some(NOW + RETRY));
}

#[test]
fn the_number_of_labels_and_of_taints_is_bounded() {
    let mut node = Registration::default();
    for number in 0..MAX_LABELS {
        apply(&mut node, Source::Api, &format!("node-label l{number} a")).unwrap();
    }
    for number in 0..MAX_TAINTS {
        apply(&mut node, Source::Api, &format!("node-taint t{number}:NoExecute a")).unwrap();
    }
    for line in ["node-label l0 b", "node-taint t0:NoExecute b"] {
        assert!(apply(&mut node, Source::Document, line).is_ok(), "{line}");
    }
    for line in ["node-label other b", "node-taint t0:NoSchedule b"] {
        assert!(apply(&mut node, Source::Document, line).is_err(), "{line}");
    }
}

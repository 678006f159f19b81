//! The version-skew policy, applied to recipes.

use crate::{changed, expect, refusal};
use osbuild::plan::skew::table;
use osbuild::plan::{self, Date, Plan, Releases, Strictness};

const SMALL: &str = "recipes/small.toml";
const BASE: &str = "recipes/base.toml";
const KUBELET: &str = "component = \"kubelet\", version = \"1.35.8\"";

fn kubelet(version: &str) -> String {
    format!("component = \"kubelet\", version = \"{version}\"")
}

#[track_caller]
fn refused(name: &str, changes: &[(&str, &str, &str)]) {
    expect(&format!("skew-{name}.txt"), &format!("{}\n", refusal(&changed(changes))));
}

fn on(day: Date, strictness: Strictness, changes: &[(&str, &str, &str)]) -> Result<Plan, String> {
    plan::resolve(&changed(changes), "small", day, strictness).map_err(|error| error.to_string())
}

#[test]
fn a_kubelet_off_its_peg_needs_a_dated_reason() {
    refused(
        "off-the-peg",
        &[(BASE, KUBELET, &kubelet("1.34.12")), (SMALL, "[\"1.35\", \"1.36\"]", "[\"1.36\"]")],
    );
}

#[test]
fn a_kubelet_newer_than_the_newest_is_refused() {
    refused("newer-minor", &[(BASE, KUBELET, &kubelet("1.38.0"))]);
    refused("newer-patch", &[(BASE, KUBELET, &kubelet("1.35.99"))]);
}

#[test]
fn a_listed_api_server_must_be_joinable() {
    refused("older-api-server", &[(SMALL, "\"1.35\"", "\"1.34\"")]);
    refused("newer-api-server", &[(SMALL, "\"1.36\"", "\"1.39\"")]);
}

#[test]
fn containerd_must_fit_the_kubelet() {
    let older = [(BASE, "\"2.2.9\"", "\"2.1.4\""), (BASE, "\"2.2.9\"", "\"2.1.4\"")];
    refused("containerd", &older);
    refused(
        "containerd-unknown",
        &[("components/containerd/component.toml", "\"1.35\" = [", "\"1.25\" = [")],
    );
}

const EXCEPTION: (&str, &str, &str) = (
    SMALL,
    "[kubernetes]",
    "[kubernetes]\nexception = { reason = \"the cluster moves in spring\", until = 2027-03-31 }",
);

#[test]
fn an_expired_exception_stops_locks_but_not_builds() {
    let newer = [EXCEPTION, (BASE, KUBELET, &kubelet("1.36.5")), (SMALL, "\"1.35\", ", "")];
    let last = Date { year: 2027, month: 3, day: 31 };
    let after = Date { year: 2027, month: 4, day: 1 };
    assert_eq!(on(last, Strictness::Lock, &newer).unwrap().warnings, [""; 0]);
    assert_eq!(
        on(after, Strictness::Build, &newer).unwrap().warnings,
        ["the exception for kubelet 1.36.5 expired on 2027-03-31"]
    );
    expect(
        "skew-exception-over.txt",
        &format!("{}\n", on(after, Strictness::Lock, &newer).unwrap_err()),
    );
}

#[test]
fn an_exception_that_is_not_needed_is_a_warning() {
    let plan = on(crate::TODAY, Strictness::Lock, &[EXCEPTION]).unwrap();
    assert_eq!(plan.warnings, ["the exception is not needed: kubelet 1.35.8 is on its peg"]);
}

#[test]
fn the_end_of_life_stops_locks_but_not_builds() {
    let day = Date { year: 2027, month: 3, day: 1 };
    assert_eq!(
        on(day, Strictness::Build, &[]).unwrap().warnings,
        ["the support of kubelet 1.35.8 ended on 2027-02-28"]
    );
    expect("skew-end-of-life.txt", &format!("{}\n", on(day, Strictness::Lock, &[]).unwrap_err()));
}

#[test]
fn an_older_patch_is_a_warning() {
    let older = kubelet("1.35.2");
    let changes = [(BASE, KUBELET, older.as_str())];
    let plan = on(crate::TODAY, Strictness::Lock, &changes).unwrap();
    assert_eq!(plan.warnings, ["kubelet 1.35.2 is not the newest patch, which is 1.35.8"]);
    let (problems, warnings) = plan::check(&changed(&changes), crate::TODAY);
    assert_eq!((problems, warnings), (vec![], plan.warnings), "also of the whole project");
}

#[test]
fn a_date_changes_warnings_and_nothing_else() {
    let now = on(crate::TODAY, Strictness::Build, &[]).unwrap();
    let later = on(Date { year: 2036, month: 1, day: 1 }, Strictness::Build, &[]).unwrap();
    assert_ne!(now.warnings, later.warnings);
    assert_eq!(now.print(), later.print());
    assert_eq!(now, Plan { warnings: now.warnings.clone(), ..later });
}

#[test]
fn the_table_lists_the_api_servers_that_the_node_can_join() {
    let plan = on(crate::TODAY, Strictness::Build, &[]).unwrap();
    let releases =
        Releases::parse(std::str::from_utf8(&crate::project().files[Releases::PATH]).unwrap())
            .unwrap();
    let rows = table(&plan.kubernetes, &releases, crate::TODAY);
    let shown: Vec<String> = rows
        .iter()
        .map(|row| {
            let until = row.until.map(|until| until.to_string()).unwrap_or_default();
            format!(
                "{} {} {until}",
                row.api_server,
                if row.obstacle.is_none() { "joins" } else { "no" }
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "1.32 no 2026-02-28",
            "1.33 no 2026-06-28",
            "1.34 no 2026-10-28",
            "1.35 joins 2027-02-28",
            "1.36 joins 2027-02-28",
            "1.37 joins 2027-02-28"
        ]
    );
}

#[test]
fn a_kubelet_before_1_25_can_be_two_minors_older_and_later_ones_three() {
    let old = |api: &str| {
        let mut plan = on(crate::TODAY, Strictness::Build, &[]).unwrap();
        plan.product.kubernetes.kubelet = "1.24.17".parse().unwrap();
        plan.product.kubernetes.api_servers = vec![api.parse().unwrap()];
        let releases = Releases::parse(
            "checked = 2026-01-01\n[minors]\n\"1.24\" = { newest = \"1.24.17\", \
             released = 2022-05-03, end-of-life = 2023-07-28 }\n",
        );
        table(&plan.kubernetes, &releases.unwrap(), crate::TODAY).pop().unwrap().obstacle
    };
    assert_eq!(old("1.26"), None);
    assert!(old("1.27").unwrap().contains("at most 2 minors"));
}

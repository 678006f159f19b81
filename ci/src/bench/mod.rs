//! `cargo ci bench [cold] [--json] [GROUP…]` measures times and sizes. A missed aim is shown and is
//! never a failure: a busy host is not a fault of the code.

mod build;
mod debian;
mod fallback;
mod farm;
mod flash;
mod handmade;
mod node;
mod processor_time;
mod settings;
mod state;
mod update;
mod upload;

use crate::image;
use crate::site::Site;
use crate::vm::installer;
use osbuild::error::{Error, Result};
use osbuild::report::{Outcome, bytes, duration};
use serde_json::{Value, json};
use std::time::Duration;

/// One measured number.
pub struct Row {
    name: String,
    value: Measure,
    /// The project's aim, if there is one.
    aim: Option<Aim>,
}

/// The upper limit of a number.
#[derive(Clone, Copy)]
enum Aim {
    /// This value.
    Value(Measure),
    /// This share of the number of another system that was measured in the same run.
    Share { of: Measure, share: f64 },
}

/// A measured value.
#[derive(Clone, Copy)]
enum Measure {
    Time(Duration),
    Size(u64),
    /// A part of a processor's time.
    Share(f64),
}

impl Row {
    fn time(name: impl Into<String>, value: Duration) -> Self {
        Row { name: name.into(), value: Measure::Time(value), aim: None }
    }

    fn size(name: impl Into<String>, value: u64) -> Self {
        Row { name: name.into(), value: Measure::Size(value), aim: None }
    }

    fn below(self, aim: Duration) -> Self {
        Row { aim: Some(Aim::Value(Measure::Time(aim))), ..self }
    }

    fn less_than(self, aim: u64) -> Self {
        Row { aim: Some(Aim::Value(Measure::Size(aim))), ..self }
    }

    /// A number that has to be below a share of that of another system.
    fn beside(name: impl Into<String>, value: Measure, other: Measure, share: f64) -> Self {
        Row { name: name.into(), value, aim: Some(Aim::Share { of: other, share }) }
    }
}

impl Row {
    fn text(&self) -> String {
        let aim = self.aim.map(|aim| aim.text(self.value)).unwrap_or_default();
        format!("{:52} {:>10}  {aim}", self.name, self.value.text()).trim_end().to_owned()
    }

    fn json(&self, group: &str) -> Value {
        let (value, aim) = (self.value.json(), self.aim.map(Aim::json));
        json!({ "group": group, "name": self.name, "value": value, "aim": aim })
    }
}

impl Aim {
    fn text(self, value: Measure) -> String {
        let result = |limit: f64| if value.number() < limit { "met" } else { "missed" };
        match self {
            Aim::Value(aim) => format!("aim: below {}, {}", aim.text(), result(aim.number())),
            Aim::Share { of, share } => {
                let (ratio, result) = (value.number() / of.number(), result(of.number() * share));
                format!("{ratio:.2} of {}; aim: below {share:.2}, {result}", of.text())
            }
        }
    }

    fn json(self) -> Value {
        match self {
            Aim::Value(aim) => aim.json(),
            Aim::Share { of, share } => json!({ "share": share, "of": of.json() }),
        }
    }
}

impl Measure {
    fn text(self) -> String {
        match self {
            Measure::Time(time) if time < Duration::from_secs(1) => {
                format!("{:.3} s", time.as_secs_f64())
            }
            Measure::Time(time) => duration(time),
            Measure::Size(size) => bytes(size),
            Measure::Share(share) => format!("{:.1} %", share * 100.0),
        }
    }

    /// Seconds, bytes or a share.
    fn number(self) -> f64 {
        match self {
            Measure::Time(time) => time.as_secs_f64(),
            Measure::Size(size) => size as f64,
            Measure::Share(share) => share,
        }
    }

    fn json(self) -> Value {
        match self {
            Measure::Time(time) => json!({ "seconds": time.as_secs_f64() }),
            Measure::Size(size) => json!({ "bytes": size }),
            Measure::Share(share) => json!({ "share": share }),
        }
    }
}

/// Numbers that are measured together.
struct Group {
    name: &'static str,
    /// Measures them. The flag adds a cold build.
    rows: fn(&Site, bool) -> Result<Vec<Row>>,
}

const GROUPS: &[Group] = &[
    Group { name: "build", rows: build::rows },
    Group { name: "farm", rows: |site, _| farm::rows(site) },
    Group { name: "boot", rows: |site, _| node::rows(site) },
    Group { name: "debian", rows: |site, _| debian::rows(site) },
    Group { name: "settings", rows: |site, _| settings::rows(site) },
    Group { name: "state", rows: |site, _| state::rows(site) },
    Group { name: "update", rows: |site, _| update::rows(site) },
    Group { name: "fallback", rows: |site, _| fallback::rows(site) },
    Group { name: "flash", rows: |site, _| flash::rows(site) },
    Group { name: "upload", rows: |site, _| upload::rows(site) },
    Group {
        name: "install",
        rows: |site, _| {
            Ok(vec![Row::time(
                "install: from the first byte to the reboot",
                installer::time(site)?,
            )])
        },
    },
];

/// A group that is measured only by its name: 110 pods take an emulated machine long.
const BY_NAME: Group = Group { name: "debian-full", rows: |site, _| debian::full_rows(site) };

/// The groups to measure, and how to print them.
pub struct BenchOptions {
    cold: bool,
    json: bool,
    groups: Vec<&'static Group>,
}

impl BenchOptions {
    /// Parses `[cold] [--json] [GROUP…]`; without a group, all are measured.
    pub fn parse(words: &[String]) -> Result<Self> {
        let mut options = BenchOptions { cold: false, json: false, groups: Vec::new() };
        for word in words {
            let mut known = GROUPS.iter().chain([&BY_NAME]);
            match (word.as_str(), known.find(|group| group.name == word)) {
                ("cold", _) => options.cold = true,
                ("--json", _) => options.json = true,
                (_, Some(group)) => options.groups.push(group),
                (_, None) => {
                    let known = GROUPS.iter().chain([&BY_NAME]);
                    let names: Vec<&str> = known.map(|group| group.name).collect();
                    let hint = format!("cargo ci bench [cold] [--json] [{}]", names.join("|"));
                    return Err(
                        Error::usage(format!("`cargo ci bench` has no group `{word}`")).hint(hint)
                    );
                }
            }
        }
        if options.groups.is_empty() {
            options.groups.extend(GROUPS);
        }
        Ok(options)
    }
}

/// Measures, and prints each group when it is complete.
pub fn bench(site: &Site, options: &BenchOptions) -> Result<()> {
    image::builds(site)?;
    let mut all = Vec::new();
    for group in &options.groups {
        let step = site.report.step(format!("bench: {}", group.name));
        let rows = (group.rows)(site, options.cold)?;
        step.done("", None, Outcome::Ran);
        if options.json {
            all.extend(rows.iter().map(|row| row.json(group.name)));
        } else {
            rows.iter().for_each(|row| site.report.data(row.text()));
        }
    }
    if options.json {
        site.report.data(Value::from(all).to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<BenchOptions> {
        BenchOptions::parse(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn without_a_group_all_are_measured() {
        let all = parse(&["--json"]).unwrap();
        assert!(all.json && !all.cold);
        assert_eq!(all.groups.len(), GROUPS.len());
        let some = parse(&["update", "cold"]).unwrap();
        assert!(some.cold && !some.json);
        assert_eq!(some.groups.iter().map(|group| group.name).collect::<Vec<_>>(), ["update"]);
    }

    #[test]
    fn an_unknown_group_is_an_error_that_lists_the_groups() {
        let error = parse(&["updates"]).err().unwrap();
        assert!(
            error.to_string().contains("cargo ci bench [cold] [--json] [build|farm|boot|"),
            "{error}"
        );
    }

    #[test]
    fn a_row_ends_with_its_aim_and_whether_it_was_met() {
        let row =
            Row::time("no-op build", Duration::from_millis(52)).below(Duration::from_millis(100));
        assert_eq!(
            row.text(),
            "no-op build                                             0.052 s  \
             aim: below 0.100 s, met"
        );
        assert!(Row::size("memory", 5).less_than(5).text().ends_with("aim: below 5 B, missed"));
        assert_eq!(row.json("build")["aim"]["seconds"], 0.1);
        let beside = Row::beside("memory", Measure::Size(6), Measure::Size(10), 0.65);
        assert!(beside.text().ends_with("0.60 of 10 B; aim: below 0.65, met"), "{}", beside.text());
        assert_eq!(
            Row::size("size of node.efi", 70_700_000).text(),
            "size of node.efi                                        70.7 MB"
        );
    }
}

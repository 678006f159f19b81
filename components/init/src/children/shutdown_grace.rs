//! How long the kubelet's pods may take to end before a shutdown, according to its configuration.

use std::time::Duration;

use serde_json::Value;

/// The sum of the grace periods in a configuration of the kubelet: `shutdownGracePeriod`, or
/// `shutdownGracePeriodByPodPriority` in its place. Zero means that the kubelet ends no pods.
pub fn of(config: &Value) -> Duration {
    let by_priority = config.get("shutdownGracePeriodByPodPriority").and_then(Value::as_array);
    match by_priority.filter(|periods| !periods.is_empty()) {
        Some(periods) => {
            let seconds = |period: &Value| period.get("shutdownGracePeriodSeconds")?.as_u64();
            let sum = periods.iter().filter_map(seconds).fold(0, u64::saturating_add);
            Duration::from_secs(sum)
        }
        None => {
            let text = config.get("shutdownGracePeriod").and_then(Value::as_str);
            text.and_then(duration).unwrap_or_default()
        }
    }
}

/// A duration in the format of Go's `time.ParseDuration` that is not negative.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() || rest == "0" {
        return (rest == "0").then_some(Duration::ZERO);
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let is_of_number = |one: char| one.is_ascii_digit() || one == '.';
        let (number, behind) = rest.split_at(rest.find(|one| !is_of_number(one))?);
        let (unit, behind) = behind.split_at(behind.find(is_of_number).unwrap_or(behind.len()));
        let factor = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * factor;
        rest = behind;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_duration_is_read_as_go_reads_it() {
        let millis = |text| duration(text).map(|duration| duration.as_millis());
        for (text, expected) in [
            ("60s", 60_000),
            ("1m30s", 90_000),
            ("1h1m1.5s", 3_661_500),
            ("+250ms", 250),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        for text in ["", "60", "s", "1x", "-1s", "1..5s", "1e3s", "99999999999999999999h"] {
            assert_eq!(millis(text), None, "{text}");
        }
    }

    #[test]
    fn priorities_replace_the_two_periods() {
        let periods = json!([
            { "priority": 0, "shutdownGracePeriodSeconds": 20 },
            { "priority": 2_000_000_000, "shutdownGracePeriodSeconds": 5 },
        ]);
        let config = json!({ "shutdownGracePeriodByPodPriority": periods });
        assert_eq!(of(&config), Duration::from_secs(25));
        let config = json!({
            "shutdownGracePeriod": "40s",
            "shutdownGracePeriodCriticalPods": "10s",
            "shutdownGracePeriodByPodPriority": [],
        });
        assert_eq!(of(&config), Duration::from_secs(40));
        assert_eq!(of(&json!({ "shutdownGracePeriod": "soon" })), Duration::ZERO);
    }
}

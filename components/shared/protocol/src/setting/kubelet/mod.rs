//! Fields of the kubelet's configuration.

mod field;
mod form;

pub use form::KubeletValue;
pub(super) use form::seconds;

use std::fmt;

use self::field::{FIELDS, Field, NAMES};
use crate::Refusal;

/// A value of the kubelet's configuration by its path there: `maxPods`, or
/// `evictionHard.memory.available`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubeletKey(String);

/// A value that the kubelet's configuration shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletField {
    key: KubeletKey,
    value: String,
}

impl KubeletKey {
    /// The names of the fields that may be set.
    pub const FIELDS: &'static [&'static str] = &NAMES;

    /// Reads a path.
    ///
    /// # Errors
    /// The configuration has no such field, or it cannot be set.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match find(text) {
            Some(_) => Ok(Self(text.to_owned())),
            None => Err(unknown(text)),
        }
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the field.
    pub fn field(&self) -> &str {
        self.parts().0
    }

    /// The name of the field, and the key of the value in it, if it has several.
    pub fn parts(&self) -> (&str, Option<&str>) {
        self.0.split_once('.').map_or((&self.0, None), |(field, key)| (field, Some(key)))
    }
}

impl KubeletField {
    /// Reads a path and a value.
    ///
    /// # Errors
    /// The field cannot be set, or its values have another form.
    pub fn parse(key: &str, value: &str) -> Result<Self, Refusal> {
        let field = find(key).ok_or_else(|| unknown(key))?;
        match field.form.read(value) {
            Some(_) => Ok(Self { key: KubeletKey(key.to_owned()), value: value.to_owned() }),
            None => {
                let reason = format!("`{key}` is {}", field.form.words());
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// The path.
    pub fn key(&self) -> &KubeletKey {
        &self.key
    }

    /// The value as a word.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The value as the configuration has it.
    pub fn scalar(&self) -> KubeletValue<'_> {
        let read = find(self.key.as_str()).and_then(|field| field.form.read(&self.value));
        read.unwrap_or(KubeletValue::Text(&self.value))
    }

    /// Checks what several fields say together, of which each is there once. What the image says
    /// of others is not known here: then the kubelet refuses the whole.
    ///
    /// # Errors
    /// The kubelet would not start with them.
    pub fn check(fields: &[KubeletField]) -> Result<(), Refusal> {
        let value = |key: &str| fields.iter().find(|one| one.key.0 == key).map(|one| &*one.value);
        let number = |key| value(key).and_then(|text| text.parse::<u32>().ok());
        let seconds = |key| value(key).and_then(form::seconds);
        let pair = |one, other| Some((one?, other?));
        let soft = fields.iter().filter(|one| one.key.field() == "evictionSoft");
        let lacks_grace = soft
            .filter_map(|one| one.key.parts().1)
            .find(|signal| value(&format!("evictionSoftGracePeriod.{signal}")).is_none());
        let (low, high) = ("imageGCLowThresholdPercent", "imageGCHighThresholdPercent");
        let (all, last) = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods");
        let (young, old) = ("imageMinimumGCAge", "imageMaximumGCAge");
        let ages = pair(seconds(young), seconds(old)).filter(|(_, old)| *old > 0);
        let reason = if let Some(signal) = lacks_grace {
            format!("`evictionSoft.{signal}` needs `evictionSoftGracePeriod.{signal}`")
        } else if pair(number(low), number(high)).is_some_and(|(low, high)| low >= high) {
            format!("`{low}` is not below `{high}`")
        } else if pair(seconds(last), seconds(all)).is_some_and(|(last, all)| last > all) {
            format!("`{last}` is a part of `{all}`, and longer")
        } else if ages.is_some_and(|(young, old)| young >= old) {
            format!("`{young}` is not below `{old}`")
        } else if value("serializeImagePulls") == Some("true")
            && number("maxParallelImagePulls").is_some_and(|count| count > 1)
        {
            "`serializeImagePulls` allows one pull at a time".to_owned()
        } else {
            return Ok(());
        };
        Err(Refusal::malformed(reason))
    }
}

fn find(path: &str) -> Option<&'static Field> {
    let (name, key) = path.split_once('.').map_or((path, None), |(name, key)| (name, Some(key)));
    let field = FIELDS.iter().find(|field| field.name == name)?;
    let has_key = match key {
        Some(key) => field.keys.contains(&key),
        None => field.keys.is_empty(),
    };
    has_key.then_some(field)
}

fn unknown(path: &str) -> Refusal {
    let start: String = path.chars().take(64).collect();
    let name = start.split('.').next().unwrap_or_default();
    let reason = match FIELDS.iter().find(|field| field.name == name) {
        Some(field) if field.keys.is_empty() => format!("`{name}` has one value, not `{start}`"),
        Some(field) => format!("`{name}` has values for `{}`", field.keys.join("`, `")),
        None => format!("`{start}` is not a field of the kubelet's configuration that can be set"),
    };
    Refusal::malformed(reason)
}

impl fmt::Display for KubeletKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `KEY=VALUE`.
impl fmt::Display for KubeletField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_a_value_of_its_form() {
        for (key, value, scalar) in [
            ("maxPods", "50", KubeletValue::Number(50)),
            ("serializeImagePulls", "true", KubeletValue::Flag(true)),
            ("evictionHard.memory.available", "10%", KubeletValue::Text("10%")),
            ("systemReserved.pid", "2000", KubeletValue::Text("2000")),
            ("shutdownGracePeriod", "1m30s", KubeletValue::Text("1m30s")),
        ] {
            let field = KubeletField::parse(key, value).unwrap();
            assert_eq!(field.scalar(), scalar);
            assert_eq!((field.key().as_str(), field.value()), (key, value));
        }
        for (key, value) in [
            ("maxPods", "1"),
            ("maxPods", "many"),
            ("maxPods", ""),
            ("podPidsLimit", "-1"),
            ("maxPods.a", "50"),
            ("evictionHard", "10%"),
            ("evictionHard.cpu", "10%"),
            ("evictionHard.memory.available.", "10%"),
            ("cpuManagerPolicy", "Static"),
            ("shutdownGracePeriod", "1h"),
            ("authorization.mode", "AlwaysAllow"),
            ("readOnlyPort", "10255"),
            ("staticPodPath", "/tmp"),
            ("", ""),
        ] {
            assert!(KubeletField::parse(key, value).is_err(), "{key} {value}");
        }
    }

    #[test]
    fn fields_that_contradict_each_other_are_refused() {
        let read = |text: &str| {
            let pairs = text.split(' ').map(|word| word.split_once('=').unwrap());
            pairs.map(|(key, value)| KubeletField::parse(key, value).unwrap()).collect::<Vec<_>>()
        };
        for (text, is_accepted) in [
            ("evictionSoft.pid.available=10%", false),
            ("evictionSoft.pid.available=10% evictionSoftGracePeriod.pid.available=1m", true),
            ("imageGCLowThresholdPercent=80 imageGCHighThresholdPercent=80", false),
            ("imageGCLowThresholdPercent=79 imageGCHighThresholdPercent=80", true),
            ("shutdownGracePeriod=1m shutdownGracePeriodCriticalPods=61s", false),
            ("shutdownGracePeriod=1m shutdownGracePeriodCriticalPods=60s", true),
            ("imageMinimumGCAge=2m imageMaximumGCAge=120s", false),
            ("imageMinimumGCAge=2m imageMaximumGCAge=0s", true),
            ("serializeImagePulls=true maxParallelImagePulls=2", false),
            ("serializeImagePulls=false maxParallelImagePulls=2", true),
        ] {
            assert_eq!(KubeletField::check(&read(text)).is_ok(), is_accepted, "{text}");
        }
    }

    #[test]
    fn the_fields_are_in_order_and_each_is_there_once() {
        assert!(KubeletKey::FIELDS.is_sorted_by(|one, next| one < next));
    }
}

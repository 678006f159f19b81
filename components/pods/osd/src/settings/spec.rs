//! Specs as messages and as YAML.

use crate::yaml;
use osbuild_protocol::{Refusal, Setting};
use osbuild_resources::Spec;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::{self, Debug};

/// A message whose fields are settings of the host.
pub trait HostSpec: Message + Default + DeserializeOwned + Serialize {
    /// The settings.
    ///
    /// # Errors
    /// There are none, or one is malformed.
    fn settings(&self) -> Result<Vec<Setting>, Refusal>;

    /// The message with these settings, which are of its type.
    fn of(settings: &[Setting]) -> Self;
}

/// Reads a spec that a client has written, as a message, as YAML, or as both.
pub fn read<S: HostSpec>(spec: &Spec) -> Result<Vec<Setting>, String> {
    read_settings(spec, |message: S| message.settings().map_err(|refusal| refusal.reason))
}

/// Reads a spec, and the settings that its message names.
pub fn read_settings<M: Message + Default + DeserializeOwned>(
    spec: &Spec,
    read: impl Fn(M) -> Result<Vec<Setting>, String>,
) -> Result<Vec<Setting>, String> {
    read_as(spec, |message: M| read(message).map(Settings)).map(|Settings(settings)| settings)
}

/// Settings as messages show them.
#[derive(PartialEq)]
struct Settings(Vec<Setting>);

impl Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Setting::to_string).collect();
        f.write_str(&lines.join(", "))
    }
}

/// Reads a spec, and what its message says.
pub fn read_as<M: Message + Default + DeserializeOwned, T: Debug + PartialEq>(
    spec: &Spec,
    read: impl Fn(M) -> Result<T, String>,
) -> Result<T, String> {
    let of_message = || M::decode(spec.proto.as_slice()).map_err(|error| error.to_string());
    let of_yaml = || yaml::read(&spec.yaml);
    let message = (!spec.proto.is_empty()).then(|| of_message().and_then(&read)).transpose()?;
    let yaml = (!spec.yaml.trim().is_empty()).then(|| of_yaml().and_then(&read)).transpose()?;
    match (message, yaml) {
        (Some(message), Some(yaml)) if message != yaml => {
            Err(format!("the message is `{message:?}`, but the YAML is `{yaml:?}`"))
        }
        (Some(found), _) | (None, Some(found)) => Ok(found),
        (None, None) => Err("the spec is empty".to_owned()),
    }
}

/// The setting that the spec of one is about.
pub fn subject(settings: &[Setting]) -> String {
    settings.first().map(|setting| format!("`{}`", setting.name())).unwrap_or_default()
}

/// Both forms of the spec of settings.
pub fn write<S: HostSpec>(settings: &[Setting]) -> Spec {
    both(&S::of(settings))
}

/// Both forms of a message.
pub fn both(message: &(impl Message + Serialize)) -> Spec {
    let yaml = serde_saphyr::to_string(message).expect("words and lists of words are YAML");
    Spec { proto: message.encode_to_vec(), yaml, ..Spec::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_cosi::v1::{HostnameSpec, KernelParameterSpec, ResolverSpec, TimeServerSpec};
    use proptest::prelude::*;

    fn yaml(text: &str) -> Spec {
        Spec { yaml: text.to_owned(), ..Spec::default() }
    }

    fn lines<S: HostSpec>(text: &str) -> Result<Vec<String>, String> {
        let settings = read::<S>(&yaml(text))?;
        Ok(settings.iter().map(Setting::to_string).collect())
    }

    #[test]
    fn a_value_of_several_words_is_one_value() {
        let spec = "key: net.ipv4.tcp_rmem\nvalue: 4096 131072\t6291456\n";
        let line = "kernel-parameter net.ipv4.tcp_rmem 4096 131072 6291456";
        assert_eq!(lines::<KernelParameterSpec>(spec).unwrap(), [line]);
        let line = "kernel-parameter vm.swappiness 10";
        assert_eq!(
            lines::<KernelParameterSpec>("{key: vm.swappiness, value: 10}").unwrap(),
            [line]
        );
    }

    #[test]
    fn a_list_of_one_word_may_be_the_word() {
        assert_eq!(lines::<ResolverSpec>("search: local").unwrap(), ["search-domains local"]);
        let both = "nameserver: [10.0.2.3, 'fec0::3']\nsearch:\n- a\n- b\n";
        let expected = ["name-servers 10.0.2.3 fec0::3", "search-domains a b"];
        assert_eq!(lines::<ResolverSpec>(both).unwrap(), expected);
        let expected = ["time-servers time.example"];
        assert_eq!(lines::<TimeServerSpec>("server: Time.Example").unwrap(), expected);
        assert_eq!(lines::<HostnameSpec>("hostname: Edge-7").unwrap(), ["host-name edge-7"]);
    }

    #[test]
    fn a_spec_that_is_incomplete_or_has_more_is_refused() {
        for text in [
            "key: vm.swappiness",
            "{key: ../../etc/passwd, value: '1'}",
            "{key: vm.swappiness, value: '1', mode: 1}",
            "[1]",
            "{key: vm.swappiness, value: [1]}",
        ] {
            assert!(lines::<KernelParameterSpec>(text).is_err(), "{text}");
        }
        for text in ["{}", "nameserver: []", "nameserver: [a]", "nameserver: ['10.0.2.3 9.9.9.9']"]
        {
            assert!(lines::<ResolverSpec>(text).is_err(), "{text}");
        }
        let long = format!("hostname: {}", "a".repeat(64));
        for text in ["hostname: ''", "hostname: a b", "{}", long.as_str()] {
            assert!(lines::<HostnameSpec>(text).is_err(), "{text}");
        }
        assert!(lines::<TimeServerSpec>("server: {a: b}").is_err());
        assert!(read::<HostnameSpec>(&Spec::default()).is_err());
        assert!(read::<HostnameSpec>(&Spec { proto: vec![0xff], ..Spec::default() }).is_err());
    }

    #[test]
    fn forms_that_contradict_each_other_are_refused() {
        let spec = write::<HostnameSpec>(&[Setting::parse("host-name a").unwrap()]);
        let contradiction = Spec { yaml: "hostname: b".to_owned(), ..spec };
        let reason = read::<HostnameSpec>(&contradiction).unwrap_err();
        assert_eq!(reason, "the message is `host-name a`, but the YAML is `host-name b`");
    }

    /// Bytes of any kind, and texts that resemble a spec.
    fn spec() -> impl Strategy<Value = Spec> {
        let message = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..64),
            ("\\PC{0,16}", "\\PC{0,16}")
                .prop_map(|(key, value)| { KernelParameterSpec { key, value }.encode_to_vec() }),
        ];
        let yaml = prop_oneof![
            any::<String>(),
            "(key|value|hostname|nameserver|search|server|: |[{}\\[\\],&*!|>'\"\n\t-]|\
             vm\\.swappiness|10\\.0\\.2\\.3|[ -~]{0,4}){0,12}",
        ];
        (message, yaml).prop_map(|(proto, yaml)| Spec { proto, yaml, ..Spec::default() })
    }

    fn reads_what_it_writes<S: HostSpec>(spec: &Spec) -> Result<(), TestCaseError> {
        if let Ok(settings) = read::<S>(spec) {
            prop_assert_eq!(read::<S>(&write::<S>(&settings)), Ok(settings));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn what_is_read_from_any_spec_is_written_and_read_again(spec in spec()) {
            reads_what_it_writes::<HostnameSpec>(&spec)?;
            reads_what_it_writes::<KernelParameterSpec>(&spec)?;
            reads_what_it_writes::<ResolverSpec>(&spec)?;
            reads_what_it_writes::<TimeServerSpec>(&spec)?;
        }
    }
}

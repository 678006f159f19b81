//! The type `KernelParameters`: what its specs may be.

use osbuild_cosi::v1::KernelParameterSpec;
use osbuild_protocol::KernelParameter;
use osbuild_resources::Spec;
use prost::Message;
use serde::{Deserialize, Serialize};

/// A spec as YAML.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Yaml {
    key: String,
    value: String,
}

/// Reads a spec that a client has written, as a message, as YAML, or as both.
///
/// # Errors
/// It has neither form, the forms differ, or one of them is malformed: the reason.
pub fn read(spec: &Spec) -> Result<KernelParameter, String> {
    let message = (!spec.proto.is_empty()).then(|| of_message(&spec.proto)).transpose()?;
    let yaml = (!spec.yaml.trim().is_empty()).then(|| of_yaml(&spec.yaml)).transpose()?;
    match (message, yaml) {
        (Some(message), Some(yaml)) if message != yaml => {
            Err(format!("the message is `{message}`, but the YAML is `{yaml}`"))
        }
        (Some(parameter), _) | (None, Some(parameter)) => Ok(parameter),
        (None, None) => Err("the spec of a kernel parameter has a `key` and a `value`".to_owned()),
    }
}

/// Both forms of the spec of a parameter.
pub fn write(KernelParameter { key, value }: &KernelParameter) -> Result<Spec, String> {
    let (key, value) = (key.as_str().to_owned(), value.as_str().to_owned());
    let message = KernelParameterSpec { key: key.clone(), value: value.clone() };
    let yaml = serde_saphyr::to_string(&Yaml { key, value }).map_err(|error| error.to_string())?;
    Ok(Spec { proto: message.encode_to_vec(), yaml })
}

fn of_message(bytes: &[u8]) -> Result<KernelParameter, String> {
    let KernelParameterSpec { key, value } =
        KernelParameterSpec::decode(bytes).map_err(|error| error.to_string())?;
    KernelParameter::parse(&key, &value).map_err(|refusal| refusal.reason)
}

fn of_yaml(text: &str) -> Result<KernelParameter, String> {
    let Yaml { key, value } = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    KernelParameter::parse(&key, &value).map_err(|refusal| refusal.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn yaml(text: &str) -> Spec {
        Spec { proto: Vec::new(), yaml: text.to_owned() }
    }

    #[test]
    fn each_form_of_a_spec_is_read_and_gives_both() {
        let parameter = KernelParameter::parse("vm.swappiness", "10").unwrap();
        let both = write(&parameter).unwrap();
        let message = Spec { yaml: String::new(), ..both.clone() };
        for spec in [&both, &message, &yaml(&both.yaml), &yaml("{key: vm.swappiness, value: 10}")] {
            assert_eq!(read(spec).as_ref(), Ok(&parameter), "{spec:?}");
        }
    }

    #[test]
    fn a_value_of_several_words_is_one_value() {
        let read = read(&yaml("key: net.ipv4.tcp_rmem\nvalue: 4096 131072\t6291456\n")).unwrap();
        assert_eq!(read.value.as_str(), "4096 131072 6291456");
        assert_eq!(super::read(&write(&read).unwrap()), Ok(read));
    }

    #[test]
    fn a_spec_that_is_incomplete_or_contradicts_itself_is_refused() {
        let other = write(&KernelParameter::parse("vm.swappiness", "10").unwrap()).unwrap();
        let contradiction = Spec { yaml: "{key: vm.swappiness, value: '20'}".to_owned(), ..other };
        for spec in [
            Spec::default(),
            contradiction,
            Spec { proto: vec![0xff], yaml: String::new() },
            yaml("key: vm.swappiness"),
            yaml("{key: ../../etc/passwd, value: '1'}"),
            yaml("{key: vm.swappiness, value: '1', mode: 1}"),
            yaml("[1]"),
            yaml("{key: vm.swappiness, value: [1]}"),
        ] {
            assert!(read(&spec).is_err(), "{spec:?}");
        }
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
            "(key|value|: |[{}\\[\\],&*!|>'\"\n\t-]|vm\\.swappiness|[ -~]{0,4}){0,12}",
        ];
        (message, yaml).prop_map(|(proto, yaml)| Spec { proto, yaml })
    }

    proptest! {
        #[test]
        fn what_is_read_from_any_spec_is_written_and_read_again(spec in spec()) {
            if let Ok(parameter) = read(&spec) {
                prop_assert_eq!(read(&write(&parameter).unwrap()), Ok(parameter));
            }
        }
    }
}

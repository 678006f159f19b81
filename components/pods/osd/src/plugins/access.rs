//! The access of a controller: the inputs and outputs that it has declared, and no others.

use super::limits::{MAX_GRANTED_OUTPUTS, MAX_INPUTS};
use osbuild_resources::{Key, Kind};
use std::collections::BTreeSet;
use std::fmt::{self, Display};

/// The purpose of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InputKind {
    /// It learns of changes.
    Weak,
    /// It learns of changes, and may put finalizers.
    Strong,
    /// It learns when a resource of its own is being torn down and has no finalizers.
    DestroyReady,
}

/// Resources that a controller reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Input {
    /// Their kind.
    pub kind: Kind,
    /// The identifier of the only one, if there is only one.
    pub id: Option<String>,
    /// The purpose of the input.
    pub role: InputKind,
}

/// The other controllers that may write resources of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// No other controller.
    Exclusive,
    /// Other controllers write other resources of it.
    Shared,
}

/// A type whose resources a controller writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The type.
    pub type_name: String,
    /// The other controllers that may write resources of the type.
    pub kind: OutputKind,
}

/// The inputs and outputs of a controller, none of them twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    inputs: Vec<Input>,
    outputs: Vec<Output>,
}

/// Why inputs and outputs are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidAccess {
    /// An input is there twice.
    DuplicateInput(Input),
    /// The type of an output is there twice.
    DuplicateOutput(String),
    /// There are more inputs than a controller may have.
    TooManyInputs,
    /// There are more outputs than a controller may have.
    TooManyOutputs,
}

impl Input {
    /// Whether the resource is among them.
    pub fn covers(&self, kind: &Kind, id: Option<&str>) -> bool {
        self.kind == *kind && self.id.as_deref().is_none_or(|only| Some(only) == id)
    }
}

impl Access {
    /// Checks what a controller declares.
    pub fn new(inputs: Vec<Input>, outputs: Vec<Output>) -> Result<Access, InvalidAccess> {
        if outputs.len() > MAX_GRANTED_OUTPUTS {
            return Err(InvalidAccess::TooManyOutputs);
        }
        let mut types = BTreeSet::new();
        if let Some(twice) = outputs.iter().find(|output| !types.insert(&output.type_name)) {
            return Err(InvalidAccess::DuplicateOutput(twice.type_name.clone()));
        }
        Ok(Access { inputs: checked(inputs)?, outputs })
    }

    /// The same outputs with other inputs.
    pub fn with_inputs(&self, inputs: Vec<Input>) -> Result<Access, InvalidAccess> {
        Ok(Access { inputs: checked(inputs)?, outputs: self.outputs.clone() })
    }

    /// The inputs, sorted.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The outputs.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Whether the controller may read the resource, or without an identifier all of the kind.
    pub fn may_read(&self, kind: &Kind, id: Option<&str>) -> bool {
        self.may_write(kind.type_name()) || self.inputs.iter().any(|input| input.covers(kind, id))
    }

    /// Whether the controller may write resources of the type.
    pub fn may_write(&self, type_name: &str) -> bool {
        self.outputs.iter().any(|output| output.type_name == type_name)
    }

    /// Whether the controller may put finalizers on the resource.
    pub fn may_hold(&self, key: &Key) -> bool {
        let mut strong = self.inputs.iter().filter(|input| input.role == InputKind::Strong);
        strong.any(|input| input.covers(key.kind(), Some(key.id())))
    }

    /// The type that neither this controller nor the other can have if both are registered.
    pub fn conflict(&self, other: &Access) -> Option<&str> {
        let conflicts = |output: &&Output| {
            let other = other.outputs.iter().find(|other| other.type_name == output.type_name);
            other.is_some_and(|other| [output.kind, other.kind].contains(&OutputKind::Exclusive))
        };
        self.outputs.iter().find(conflicts).map(|output| output.type_name.as_str())
    }
}

fn checked(mut inputs: Vec<Input>) -> Result<Vec<Input>, InvalidAccess> {
    if inputs.len() > MAX_INPUTS {
        return Err(InvalidAccess::TooManyInputs);
    }
    inputs.sort();
    let same = |pair: &&[Input]| pair[0].kind == pair[1].kind && pair[0].id == pair[1].id;
    match inputs.windows(2).find(same) {
        Some(pair) => Err(InvalidAccess::DuplicateInput(pair[0].clone())),
        None => Ok(inputs),
    }
}

impl Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let role = match self.role {
            InputKind::Weak => "weak",
            InputKind::Strong => "strong",
            InputKind::DestroyReady => "destroy-ready",
        };
        write!(f, "{role} {}/{}", self.kind.namespace(), self.kind.type_name())?;
        self.id.as_ref().map_or(Ok(()), |id| write!(f, "/{id}"))
    }
}

impl Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let kind = match self.kind {
            OutputKind::Exclusive => "exclusive",
            OutputKind::Shared => "shared",
        };
        write!(f, "{kind} {}", self.type_name)
    }
}

impl Display for InvalidAccess {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            InvalidAccess::DuplicateInput(input) => write!(f, "the input `{input}` is there twice"),
            InvalidAccess::DuplicateOutput(name) => write!(f, "the output `{name}` is there twice"),
            InvalidAccess::TooManyInputs => {
                write!(f, "a controller has at most {MAX_INPUTS} inputs")
            }
            InvalidAccess::TooManyOutputs => {
                write!(f, "a controller has at most {MAX_GRANTED_OUTPUTS} outputs")
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn input(role: InputKind, type_name: &str, id: Option<&str>) -> Input {
        let kind = Kind::new("system", type_name).unwrap();
        Input { kind, id: id.map(str::to_owned), role }
    }

    pub fn output(kind: OutputKind, type_name: &str) -> Output {
        Output { type_name: type_name.to_owned(), kind }
    }

    fn key(type_name: &str, id: &str) -> Key {
        Key::new(Kind::new("system", type_name).unwrap(), id).unwrap()
    }

    #[test]
    fn a_controller_reads_inputs_and_outputs_and_writes_outputs_alone() {
        let inputs = vec![
            input(InputKind::Weak, "All", None),
            input(InputKind::Strong, "One", Some("only")),
        ];
        let access = Access::new(inputs, vec![output(OutputKind::Shared, "Out")]).unwrap();
        let may_read = |namespace: &str, type_name: &str, id: Option<&str>| {
            access.may_read(&Kind::new(namespace, type_name).unwrap(), id)
        };
        assert!(may_read("system", "All", None) && may_read("system", "All", Some("a")));
        assert!(may_read("system", "One", Some("only")) && may_read("plugins", "Out", None));
        assert!(!may_read("other", "All", None) && !may_read("system", "Other", Some("a")));
        assert!(!may_read("system", "One", None), "the list has others, too");
        assert!(!may_read("system", "One", Some("other")));
        assert!(access.may_write("Out") && !access.may_write("All"));
        assert!(access.may_hold(&key("One", "only")));
        for other in [key("One", "other"), key("All", "a"), key("Out", "a")] {
            assert!(!access.may_hold(&other), "{other}");
        }
    }

    #[test]
    fn nothing_is_declared_twice() {
        let twice = vec![input(InputKind::Weak, "A", None), input(InputKind::Strong, "A", None)];
        let refused = Access::new(twice, vec![]).unwrap_err().to_string();
        assert_eq!(refused, "the input `weak system/A` is there twice");
        let different =
            vec![input(InputKind::Weak, "A", None), input(InputKind::Strong, "A", Some("a"))];
        assert!(Access::new(different, vec![]).is_ok());
        let twice = vec![output(OutputKind::Shared, "A"), output(OutputKind::Exclusive, "A")];
        assert!(Access::new(vec![], twice).is_err());
        let inputs = (0..33).map(|id| input(InputKind::Weak, "A", Some(&id.to_string())));
        assert_eq!(Access::new(inputs.collect(), vec![]), Err(InvalidAccess::TooManyInputs));
        let outputs = (0..9).map(|number| output(OutputKind::Shared, &number.to_string()));
        assert_eq!(Access::new(vec![], outputs.collect()), Err(InvalidAccess::TooManyOutputs));
    }

    #[test]
    fn an_exclusive_output_excludes_every_other() {
        let access = |kind| Access::new(vec![], vec![output(kind, "A")]).unwrap();
        let [exclusive, shared] = [OutputKind::Exclusive, OutputKind::Shared].map(access);
        assert_eq!(shared.conflict(&shared), None);
        assert_eq!(exclusive.conflict(&shared), Some("A"));
        assert_eq!(shared.conflict(&exclusive), Some("A"));
        assert_eq!(exclusive.conflict(&Access::default()), None);
    }
}

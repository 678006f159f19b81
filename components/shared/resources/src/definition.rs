//! Definitions of types, from which clients learn names, aliases and columns.

use crate::Kind;
use std::error::Error;
use std::fmt;

/// The names of a type. English has no rule for plurals, so the author of a type writes both forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    /// The plural in camel case, such as `KernelParameters`.
    pub plural: &'a str,
    /// The singular, such as `KernelParameter`.
    pub singular: &'a str,
    /// The suffix of the type's name, after the plural and a dot, such as `meta.cosi.dev`.
    pub suffix: &'a str,
}

/// Whether only administrators may read a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sensitivity {
    /// Every client may read it.
    NonSensitive,
    /// It holds secrets.
    Sensitive,
}

/// A column that clients print beside namespace, type, identifier and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintColumn<'a> {
    /// Its header.
    pub name: &'a str,
    /// Where its value is in the YAML of the spec.
    pub json_path: &'a str,
}

/// The definition of a type, as clients read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition<'a> {
    /// The kind: the type, in the namespace where its resources are.
    pub kind: Kind,
    /// The singular, which clients print.
    pub display_type: &'a str,
    /// Short names that clients list.
    pub aliases: Vec<String>,
    /// All names that clients accept beside the type's.
    pub all_aliases: Vec<String>,
    /// Its columns.
    pub print_columns: Vec<PrintColumn<'a>>,
    /// Whether only administrators may read it.
    pub sensitivity: Sensitivity,
}

impl<'a> Definition<'a> {
    /// Checks the names by COSI's rules, and derives from them the aliases that follow `aliases`:
    /// the singular, the plural's capitals (with and without an `s`), the plural, and the plural
    /// with each beginning of the suffix.
    pub fn new(
        names: &Names<'a>,
        namespace: &str,
        aliases: &[&str],
    ) -> Result<Definition<'a>, InvalidDefinition> {
        let type_name = names.type_name()?;
        let kind =
            Kind::new(namespace, &type_name).map_err(|_| names.refuse("has no namespace"))?;
        let plural = names.plural.to_lowercase();
        let mut aliases: Vec<String> = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        aliases.push(names.singular.to_lowercase());
        let capitals: String = names.plural.chars().filter(char::is_ascii_uppercase).collect();
        if capitals.len() > 1 {
            aliases.push(capitals.to_lowercase());
            if !capitals.ends_with('S') {
                aliases.push(format!("{}s", capitals.to_lowercase()));
            }
        }
        let beginnings = names.suffix.match_indices('.').map(|(end, _)| &names.suffix[..end]);
        let mut all_aliases = vec![plural.clone()];
        all_aliases.extend(beginnings.map(|beginning| format!("{plural}.{beginning}")));
        all_aliases.extend(aliases.iter().cloned());
        Ok(Definition {
            kind,
            display_type: names.singular,
            aliases,
            all_aliases,
            print_columns: Vec::new(),
            sensitivity: Sensitivity::NonSensitive,
        })
    }

    /// The definition with these columns.
    pub fn with_columns(self, print_columns: &[PrintColumn<'a>]) -> Definition<'a> {
        Definition { print_columns: print_columns.to_vec(), ..self }
    }

    /// The definition without the aliases that other types have.
    ///
    /// # Errors
    /// Another type has its plural or singular.
    pub fn beside(mut self, others: &[&Definition]) -> Result<Definition<'a>, InvalidDefinition> {
        let taken = |alias: &String| others.iter().any(|other| other.all_aliases.contains(alias));
        let type_name = self.kind.type_name().to_owned();
        let plural = type_name.split('.').next().unwrap_or_default().to_lowercase();
        if taken(&plural) || taken(&self.display_type.to_lowercase()) {
            return Err(InvalidDefinition { type_name, reason: "has a name of another type" });
        }
        self.aliases.retain(|alias| !taken(alias));
        self.all_aliases.retain(|alias| !taken(alias));
        Ok(self)
    }

    /// The identifier of the definition's own resource.
    pub fn id(&self) -> String {
        self.kind.type_name().to_lowercase()
    }
}

impl Names<'_> {
    /// The full name, if both its parts follow COSI's rules.
    fn type_name(&self) -> Result<String, InvalidDefinition> {
        let is_name = |name: &str| {
            name.len() > 1
                && name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        let is_label = |label: &str| {
            label.len() > 1
                && label.starts_with(|c: char| c.is_ascii_lowercase())
                && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        if ![self.plural, self.singular].into_iter().all(is_name) {
            return Err(self.refuse("is not in camel case"));
        }
        if self.plural == self.singular {
            return Err(self.refuse("is no plural"));
        }
        if !self.suffix.split('.').all(is_label) {
            return Err(self.refuse("has no suffix of lower-case labels"));
        }
        Ok(format!("{}.{}", self.plural, self.suffix))
    }

    fn refuse(&self, reason: &'static str) -> InvalidDefinition {
        InvalidDefinition { type_name: format!("{}.{}", self.plural, self.suffix), reason }
    }
}

/// Names that do not follow COSI's rules.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidDefinition {
    type_name: String,
    reason: &'static str,
}

impl fmt::Display for InvalidDefinition {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "the type `{}` {}", self.type_name, self.reason)
    }
}

impl Error for InvalidDefinition {}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITIONS: Names = Names {
        plural: "ResourceDefinitions",
        singular: "ResourceDefinition",
        suffix: "meta.cosi.dev",
    };

    #[test]
    fn aliases_are_those_that_cosi_derives() {
        let definition = Definition::new(&DEFINITIONS, "meta", &["api-resources"]).unwrap();
        assert_eq!(definition.kind.type_name(), "ResourceDefinitions.meta.cosi.dev");
        assert_eq!(definition.id(), "resourcedefinitions.meta.cosi.dev");
        assert_eq!(definition.aliases, ["api-resources", "resourcedefinition", "rd", "rds"]);
        assert_eq!(
            definition.all_aliases,
            [
                "resourcedefinitions",
                "resourcedefinitions.meta",
                "resourcedefinitions.meta.cosi",
                "api-resources",
                "resourcedefinition",
                "rd",
                "rds"
            ]
        );
    }

    #[test]
    fn one_capital_makes_no_acronym_and_an_s_is_not_doubled() {
        let aliases = |plural, singular| {
            let names = Names { plural, singular, suffix: "osbuild" };
            Definition::new(&names, "system", &[]).unwrap().aliases
        };
        assert_eq!(aliases("Routes", "Route"), ["route"]);
        assert_eq!(aliases("LinkStatuses", "LinkStatus"), ["linkstatus", "ls"]);
    }

    #[test]
    fn aliases_of_other_types_are_left_to_them() {
        let define = |plural, singular| {
            let names = Names { plural, singular, suffix: "example" };
            Definition::new(&names, "plugins", &[]).unwrap()
        };
        let others = [&define("KernelParameters", "KernelParameter")];
        let definition = define("KernelPanics", "KernelPanic").beside(&others).unwrap();
        assert_eq!(definition.aliases, ["kernelpanic"]);
        assert_eq!(definition.all_aliases, ["kernelpanics", "kernelpanic"]);
        let refused = define("Kernelparameters", "Other").beside(&others).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the type `Kernelparameters.example` has a name of another type"
        );
        assert!(define("Others", "KernelParameter").beside(&others).is_err());
    }

    #[test]
    fn names_that_break_a_rule_are_refused() {
        let reason = |plural, singular, suffix| {
            Definition::new(&Names { plural, singular, suffix }, "meta", &[]).unwrap_err().reason
        };
        assert_eq!(reason("routes", "route", "osbuild"), "is not in camel case");
        assert_eq!(reason("Rou_tes", "Route", "osbuild"), "is not in camel case");
        assert_eq!(reason("Routes", "Routes", "osbuild"), "is no plural");
        for suffix in ["", "a", "osbuild.", "Meta.cosi.dev", "1a.dev"] {
            let reason = reason("Routes", "Route", suffix);
            assert_eq!(reason, "has no suffix of lower-case labels", "{suffix}");
        }
        assert!(Definition::new(&DEFINITIONS, "", &[]).is_err());
    }
}

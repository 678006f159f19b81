//! The messages of specs.

/// The full name of the message that is the spec of a type, by the type's whole name and its
/// singular: `osbuild.v1.ResolverSpec` for `Resolvers.osbuild` and `Resolver`. None for types that
/// no `.proto` file of this crate describes, which are those of plugins.
pub fn spec_message(type_name: &str, singular: &str) -> Option<String> {
    let (_, suffix) = type_name.split_once('.')?;
    let package = match suffix {
        "osbuild" => "osbuild.v1",
        "meta.cosi.dev" => "cosi.resource.meta",
        _ => return None,
    };
    Some(format!("{package}.{singular}Spec"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_of_a_plugin_has_no_message() {
        let message = |name| spec_message(name, "Thing");
        assert_eq!(message("Things.osbuild").as_deref(), Some("osbuild.v1.ThingSpec"));
        for name in ["Things.example", "Things.osbuild.example", "Things", ""] {
            assert_eq!(message(name), None, "{name}");
        }
    }
}

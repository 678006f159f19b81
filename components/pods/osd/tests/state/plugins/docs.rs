//! The page for authors of plugins.

/// The page for authors of plugins has the plugin, the grant and the commands that the check
/// `state API` runs.
#[test]
fn the_example_of_the_documentation_is_the_one_that_is_tested() {
    let page = include_str!("../../../../../../builder/docs/plugins.md");
    for (language, example) in [
        ("python", include_str!("../../full_name.py")),
        ("yaml", include_str!("../../full_name.yaml")),
    ] {
        assert!(page.contains(&format!("```{language}\n{example}```\n")), "{language}");
    }
    let lines = include_str!("../../full_name.py").lines().count();
    assert!(lines <= 50, "the example has {lines} lines");
}

#[test]
fn the_documentation_has_the_limits_of_plugins() {
    use pod_osd::plugins::limits;
    let page = include_str!("../../../../../../builder/docs/plugins.md");
    for row in [
        format!("| {} plugins", limits::MAX_PLUGINS),
        format!("| {} inputs, {} outputs", limits::MAX_GRANTED_INPUTS, limits::MAX_GRANTED_OUTPUTS),
        format!("| {} connections of a plugin", limits::MAX_CONNECTIONS),
        format!("| {} calls at a time", limits::MAX_STREAMS),
        format!("| {} controllers of a plugin", limits::MAX_CONTROLLERS),
        format!("| {} KiB for a message", limits::MAX_MESSAGE >> 10),
        format!(
            "| {} resources of a plugin, {} KiB",
            limits::MAX_RESOURCES,
            limits::MAX_BYTES >> 10
        ),
        format!("| {} finalizers of a plugin", limits::MAX_FINALIZERS),
        format!("| {} calls a second", 1000 / limits::CALL_INTERVAL.as_millis()),
    ] {
        assert!(page.contains(&row), "{row}");
    }
}

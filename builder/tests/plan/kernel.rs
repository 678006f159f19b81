//! The options of the kernel.

use crate::{changed, resolve};

#[test]
fn false_switches_an_inherited_option_off() {
    let plan = resolve(&changed(&[
        ("recipes/base.toml", "[uki]", "[kernel.options]\nPRINTK = true\n\n[uki]"),
        (
            "recipes/small.toml",
            "[kernel.options]",
            "[kernel.options]\nPRINTK = false\nARM64_4K_PAGES = false",
        ),
    ]));
    for name in ["PRINTK", "ARM64_4K_PAGES"] {
        assert_eq!(plan.kernel.options[name].value.to_string(), "n", "{name}");
    }
}

//! The options of the kernel.

use crate::{changed, resolve};

const SMALL: &str = "recipes/small.toml";

#[test]
fn false_switches_an_inherited_option_off() {
    let recipe = |text: &'static str| (SMALL, "[kernel.options]", text);
    let plan = resolve(&changed(&[recipe("[kernel.options]\nPRINTK = false")]));
    assert_eq!(plan.kernel.options["PRINTK"].value.to_string(), "n");
}

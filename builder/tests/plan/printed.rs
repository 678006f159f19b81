//! The printed plan.

use crate::{expect, project, resolve};

#[test]
fn the_plan_says_each_value_and_where_it_was_written() {
    expect("plan.toml", &resolve(&project()).print());
}

#[test]
fn the_printed_plan_is_toml() {
    let plan = resolve(&project());
    let table: toml::Table = plan.print().parse().unwrap();
    assert_eq!(table["kernel"]["options"].as_table().unwrap().len(), plan.kernel.options.len());
    assert_eq!(table["files"].as_table().unwrap().len(), plan.files.len());
    assert_eq!(table["binaries"].as_table().unwrap().len(), 7);
}

#[test]
fn the_kernel_fragment_is_the_merged_one() {
    let fragment = resolve(&project()).kernel.fragment();
    assert_eq!(
        fragment,
        "# CONFIG_64BIT is not set\nCONFIG_ARM64_4K_PAGES=y\nCONFIG_CMDLINE=\"quiet\"\nCONFIG_EROFS_FS=y\nCONFIG_LOG_BUF_SHIFT=17\n"
    );
}

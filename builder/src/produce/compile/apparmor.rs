//! AppArmor profiles, compiled by the parser of a locked Debian package for the features of the
//! kernel that the package lists.

use crate::engine::action::InputTree;
use crate::engine::digest::Digest;
use crate::error::{Context, Result};
use crate::plan::DebianPackage;
use crate::produce::build::Build;
use crate::produce::locked;
use crate::produce::sandbox::{Compiler, Script};
use std::collections::BTreeMap;

/// The output of the script.
const COMPILED: &str = "compiled";

/// Compiles the profile whose text is in a file of the project.
///
/// # Errors
/// The file cannot be read, or the parser refuses it.
pub fn apparmor(build: &Build<'_>, source: &str, parser: &DebianPackage) -> Result<Digest> {
    let text = std::fs::read(build.options.project.join(source))
        .or_build(|| format!("cannot read `{source}`"))?;
    let mut input = InputTree::new();
    input.add_file("parser.deb", locked::package(parser)?, false)?;
    input.add_file("profile", build.options.store.put_bytes(&text)?, false)?;
    let made = build.run(Script {
        name: "apparmor-profile".into(),
        text: include_str!("apparmor.sh"),
        args: Vec::new(),
        env: BTreeMap::new(),
        input,
        outputs: vec![COMPILED.into()],
        compiler: Compiler::Root,
    })?;
    made.output(COMPILED)
}

//! buf, the linter of protocol buffers, with the rules of `ci/buf.yaml`.

use crate::check::Outcome;
use crate::go_module;
use crate::site::Site;
use osbuild::error::Result;
use std::process::Command;

/// The module of buf, and its version.
const BUF: (&str, &str) = ("github.com/bufbuild/buf/cmd/buf", "v1.75.0");

/// The node's own `.proto` files follow buf's rules. That clients of earlier releases go on to work
/// is a test of the crate that compiles them.
pub fn files_follow_the_rules(site: &Site) -> Result<Outcome> {
    let buf = go_module::install(site, BUF)?;
    let mut command = Command::new(buf);
    command.current_dir(&site.root).args(["lint", "--config", "ci/buf.yaml"]);
    site.finish("buf", &mut command)?;
    Ok(Outcome::holds(BUF.1))
}

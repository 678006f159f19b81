//! The names outside `/bin` that a host daemon finds.

use super::{Content, RootFile};
use osbuild_abi::paths::KUBELET_PROGRAMS;
use osbuild_abi::program_names;

/// The links in the root by which the kubelet finds these names.
pub fn kubelet_names() -> impl Iterator<Item = RootFile> {
    program_names::KUBELET.iter().map(|name| RootFile {
        path: format!("{KUBELET_PROGRAMS}/{}", name.name),
        mode: 0o777,
        content: Content::Symlink(name.program.to_owned()),
    })
}

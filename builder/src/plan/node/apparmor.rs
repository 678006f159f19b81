//! The files of a node whose kernel has AppArmor.

use super::{Content, FilePackage, Kernel, OptionValue, RootFile};
use osbuild_abi::paths::APPARMOR_PROFILE;
use osbuild_abi::program_names::{APPARMOR_PARSER, PLACEHOLDER_MODE};

/// The option of the kernel.
const OPTION: &str = "SECURITY_APPARMOR";
/// The text of the profile of pods.
const SOURCE: &str = "components/containerd/apparmor-profile";
/// The package with the program that compiles it.
const PARSER: &str = "apparmor";

/// The profile of pods, and the file with which containerd uses it; none without AppArmor.
pub fn apparmor_files(kernel: &Kernel) -> Vec<RootFile> {
    let option = kernel.options.get(OPTION);
    if option.is_none_or(|option| option.value != OptionValue::Yes) {
        return Vec::new();
    }
    let parser = FilePackage::named(PARSER);
    vec![
        RootFile {
            path: APPARMOR_PROFILE.to_owned(),
            mode: 0o644,
            content: Content::AppArmorProfile { source: SOURCE.to_owned(), parser },
        },
        RootFile {
            path: APPARMOR_PARSER.path.to_owned(),
            mode: PLACEHOLDER_MODE,
            content: Content::Text(APPARMOR_PARSER.text.to_owned()),
        },
    ]
}

//! The list of the kernel's modules for `init`: those that are built in, and those that a group of
//! options which the node does not have would bring. A node needs it as `/sys/module` shows only
//! what has parameters or a version.

use super::kernel::declared;
use crate::plan::Kernel;
use osbuild_abi::kernel_modules;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum bytes of a name, as in a setting of a node.
const MAX_NAME: usize = 55;

/// The text of the list, sorted by name. `config` has the options that are not off, `kconfig` the
/// files that declare them, and `objects` the lines of makefiles that say which option makes which
/// object.
pub fn list(
    kernel: &Kernel,
    config: &BTreeMap<&str, &str>,
    kconfig: &str,
    objects: &str,
) -> String {
    let made = modules_of(objects, &tristate(kconfig));
    let mut modules: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for (group, options) in &kernel.left_out {
        let names = options.iter().filter_map(|option| made.get(option.as_str())).flatten();
        modules.extend(names.map(|name| (name.as_str(), Some(group.as_str()))));
    }
    let on = made.iter().filter(|(option, _)| config.get(**option) == Some(&"y"));
    modules.extend(on.flat_map(|(_, names)| names).map(|name| (name.as_str(), None)));
    let mut text = String::new();
    for (name, group) in modules {
        kernel_modules::write(&mut text, name, group).expect("a string accepts every write");
    }
    text
}

/// The options that another kernel could have as a module.
fn tristate(kconfig: &str) -> BTreeSet<&str> {
    let (mut found, mut option) = (BTreeSet::new(), None);
    // Each build reads all lines, and most of them are help.
    for line in kconfig.lines() {
        if line.starts_with([' ', '\t']) {
            let text = line.trim_ascii_start();
            let is_tristate = |start| text.strip_prefix(start).is_some_and(ends_word);
            if is_tristate("tristate") || is_tristate("def_tristate") {
                found.extend(option);
            }
        } else if let Some(name) = declared(line) {
            option = Some(name);
        }
    }
    found
}

/// Whether a word ends where this text follows it.
fn ends_word(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with([' ', '\t'])
}

/// The names of the modules that each of these options makes, with `_` for each `-`, from lines
/// such as `obj-$(CONFIG_KVM_AMD) += kvm-amd.o`. A folder has lines of its own.
fn modules_of<'a>(
    objects: &'a str,
    options: &BTreeSet<&str>,
) -> BTreeMap<&'a str, BTreeSet<String>> {
    let mut made: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for line in objects.lines() {
        let Some(rest) = line.strip_prefix("obj-$(CONFIG_") else { continue };
        let Some((option, rest)) = rest.split_once(')') else { continue };
        let Some((operator, words)) = rest.split_once('=') else { continue };
        if matches!(operator.trim(), "+" | ":" | "") && options.contains(option) {
            let words = words.split('#').next().unwrap_or_default().split_whitespace();
            let names = words.filter_map(|word| name(word.strip_suffix(".o")?));
            made.entry(option).or_default().extend(names);
        }
    }
    made
}

/// The name of a module; none if it is computed.
fn name(text: &str) -> Option<String> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let is_name = (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_known);
    is_name.then(|| text.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KCONFIG: &str = "menuconfig KVM\n\ttristate \"KVM\"\nconfig KVM_AMD\n\tdef_tristate KVM\n\
        config\tVFIO\n\ttristate \"VFIO\"\nconfig DM_CRYPT\n\ttristate \"Crypt\"\n\t  help\n\
        config PRINTK\n\tbool \"printk\"\n";
    const OBJECTS: &str = "obj-$(CONFIG_KVM) += kvm.o\n\
        obj-$(CONFIG_KVM_AMD)\t+= kvm-amd.o # SVM\n\
        obj-$(CONFIG_DM_CRYPT)\t:= dm-crypt.o dm-x.o\n\
        obj-$(CONFIG_VFIO) += vfio.o $(a).o pci/\n\
        obj-$(CONFIG_VFIO)$(CONFIG_KVM) += other.o\n\
        obj-$(CONFIG_PRINTK) += printk.o\nobj-y += b.o\n";

    fn kernel(groups: &[(&str, &[&str])]) -> Kernel {
        let groups = groups.iter().map(|(name, options)| {
            ((*name).to_owned(), options.iter().map(|option| (*option).to_owned()).collect())
        });
        Kernel {
            package: "linux-source-6.12".into(),
            groups: BTreeMap::new(),
            left_out: groups.collect(),
            options: BTreeMap::new(),
            command_line: Vec::new(),
        }
    }

    #[test]
    fn the_list_has_what_is_built_in_and_what_groups_would_bring() {
        let groups: [(&str, &[&str]); 2] =
            [("virtualization", &["KVM", "KVM_AMD", "VFIO"]), ("volumes", &["DM_CRYPT", "MENU"])];
        let config = BTreeMap::from([("DM_CRYPT", "y"), ("PRINTK", "y"), ("VFIO", "n")]);
        assert_eq!(
            list(&kernel(&groups), &config, KCONFIG, OBJECTS),
            "dm_crypt\ndm_x\nkvm virtualization\nkvm_amd virtualization\nvfio virtualization\n"
        );
    }

    #[test]
    fn a_kernel_without_such_options_has_an_empty_list() {
        let config = BTreeMap::from([("PRINTK", "y")]);
        assert_eq!(list(&kernel(&[]), &config, KCONFIG, OBJECTS), "");
    }
}

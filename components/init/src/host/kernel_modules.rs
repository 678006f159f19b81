//! Modules of the kernel that settings ask for. The kernel loads none: what is built in is there
//! from its start, and all else only in another image.

use std::collections::BTreeMap;
use std::path::PathBuf;

use osbuild_abi::kernel_modules::{self, Found};
use osbuild_abi::paths::KERNEL_MODULES;
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{
    KernelModule, MAX_MODULES, ModuleName, Observed, Refusal, RefusalCode, Setting, SettingName,
};
use osbuild_ranks::{Ranked, Source};

/// The folder in which the kernel shows modules with parameters or a version, built in or not.
const SHOWN: &str = "/sys/module";

/// The modules that have a value of any source.
pub struct KernelModules {
    /// [`SHOWN`], or another folder in a test.
    shown: PathBuf,
    held: BTreeMap<ModuleName, Held>,
}

struct Held {
    values: Ranked<KernelModule>,
    /// Why the kernel does not have it; empty if it does.
    error: String,
}

impl Default for KernelModules {
    fn default() -> Self {
        Self { shown: SHOWN.into(), held: BTreeMap::new() }
    }
}

impl KernelModules {
    /// Gives a module the value of `source`. `list` is that of the image, see [`of_image`]. Whether
    /// the kernel has the module is in [`Self::observe`].
    ///
    /// # Errors
    /// There are too many.
    pub fn apply(
        &mut self,
        source: Source,
        module: &KernelModule,
        list: &str,
    ) -> Result<(), Refusal> {
        let name = module.name();
        if self.held.len() >= MAX_MODULES && !self.held.contains_key(name) {
            let reason = format!("there are {MAX_MODULES} kernel modules already");
            return Err(Refusal::new(RefusalCode::Failed, reason));
        }
        let is_shown = self.shown.join(name.as_str()).is_dir();
        let error = lacks(name.as_str(), list).filter(|_| !is_shown).unwrap_or_default();
        let held = self.held.entry(name.clone());
        let held = held.or_insert_with(|| Held { values: Ranked::new(), error: String::new() });
        held.values.set(source, Some(module.clone()));
        held.error = error;
        Ok(())
    }

    /// Withdraws the value of `source`.
    pub fn withdraw(&mut self, source: Source, name: &ModuleName) {
        if let Some(held) = self.held.get_mut(name) {
            held.values.set(source, None);
        }
        self.held.retain(|_, held| held.values.effective().is_some());
    }

    /// Those that have a value: what requests have set, and whether the kernel has it.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        self.held.iter().map(|(name, Held { values, error })| {
            let effective = values.effective();
            let current = effective.filter(|_| error.is_empty());
            let value = |module: &KernelModule| Setting::KernelModule(module.clone()).value();
            Observed {
                name: SettingName::KernelModule(name.clone()),
                wanted: values.get(Source::Api).cloned().map(Setting::KernelModule),
                source: effective.map(|(source, _)| source),
                current: current.map(|(_, module)| value(module)).unwrap_or_default(),
                error: error.clone(),
            }
        })
    }

    /// The modules with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = KernelModule> {
        self.held.values().filter_map(move |held| held.values.get(source).cloned())
    }
}

/// Why the kernel does not have a module, unless the image's `list` has it.
pub fn lacks(name: &str, list: &str) -> Option<String> {
    match kernel_modules::find(list, name) {
        Found::BuiltIn => None,
        Found::Group(group) => Some(format!(
            "the kernel does not have `{name}`, and loads no modules: `{group} = true` in \
             `[kernel.groups]` of the recipe brings it"
        )),
        Found::Unknown => Some(format!(
            "the kernel does not have `{name}`, and loads no modules: the recipe can set its \
             option in `[kernel.options]`"
        )),
    }
}

/// The text of the image's list.
pub fn of_image() -> Outcome<String> {
    std::fs::read_to_string(KERNEL_MODULES).explain(format_args!("read {KERNEL_MODULES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "dm_crypt\nkvm virtualization\noverlay\n";

    fn module(name: &str) -> KernelModule {
        KernelModule::new(ModuleName::parse(name).unwrap())
    }

    /// The modules, each with its source, what the kernel has, and the error.
    fn observed(modules: &KernelModules) -> Vec<(String, Option<Source>, String, String)> {
        let all = modules.observe();
        all.map(|one| (one.name.to_string(), one.source, one.current, one.error)).collect()
    }

    #[test]
    fn a_module_is_built_in_shown_by_the_kernel_or_in_a_group_of_the_recipe() {
        let shown = tempfile::tempdir().unwrap();
        std::fs::create_dir(shown.path().join("printk")).unwrap();
        let mut modules =
            KernelModules { shown: shown.path().to_owned(), ..KernelModules::default() };
        for name in ["dm-crypt", "kvm", "printk", "zfs"] {
            modules.apply(Source::Api, &module(name), LIST).unwrap();
        }
        let api = Some(Source::Api);
        let has = |name: &str| (name.to_owned(), api, "built-in".to_owned(), String::new());
        let lacks = |name: &str, error: &str| {
            let start = format!("the kernel does not have `{name}`, and loads no modules: ");
            (format!("kernel-module {name}"), api, String::new(), start + error)
        };
        let expected = [
            has("kernel-module dm_crypt"),
            lacks("kvm", "`virtualization = true` in `[kernel.groups]` of the recipe brings it"),
            has("kernel-module printk"),
            lacks("zfs", "the recipe can set its option in `[kernel.options]`"),
        ];
        assert_eq!(observed(&modules), expected);
    }

    #[test]
    fn a_module_of_the_document_is_back_when_that_of_a_request_goes() {
        let (mut modules, overlay) = (KernelModules::default(), module("overlay"));
        for source in [Source::Document, Source::Api] {
            modules.apply(source, &overlay, LIST).unwrap();
        }
        assert!(modules.of(Source::Api).eq([overlay.clone()]));
        modules.withdraw(Source::Api, overlay.name());
        assert_eq!(observed(&modules)[0].1, Some(Source::Document));
        modules.withdraw(Source::Document, overlay.name());
        assert_eq!(modules.observe().count(), 0);
    }

    #[test]
    fn the_number_of_modules_is_bounded() {
        let mut modules = KernelModules::default();
        let outcomes =
            (0..=MAX_MODULES).map(|n| modules.apply(Source::Api, &module(&format!("m{n}")), LIST));
        assert_eq!(outcomes.filter(Result::is_ok).count(), MAX_MODULES);
        assert!(modules.apply(Source::Document, &module("m0"), LIST).is_ok());
    }
}

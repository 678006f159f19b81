//! The Linux kernel: first its configuration, which is compared with the plan's options, then the
//! image.

use super::modules;
use crate::engine::action::InputTree;
use crate::engine::digest::Digest;
use crate::error::{Error, Kind, Problem, Result};
use crate::plan::{Architecture, Date, Kernel, OptionValue};
use crate::produce::build::Build;
use crate::produce::locked;
use crate::produce::sandbox::{Compiler, STEP_TIME, Script};
use std::collections::BTreeMap;

/// Output of [`configuration`]: the whole `.config`.
const CONFIG: &str = "kernel.config";
/// Output of [`configuration`]: every Kconfig file of the source, concatenated.
const KCONFIG: &str = "Kconfig";
/// Output of [`configuration`]: the lines of makefiles that say which option makes which object.
const OBJECTS: &str = "objects";
/// Output of [`image`]: `bzImage` or `Image`.
const KERNEL: &str = "kernel";
/// The folder of inputs with pahole and its libraries.
const PAHOLE: &str = "pahole";
/// Output of [`image`]: the kernel release, as `uname -r` shows it on the node.
const RELEASE: &str = "release";

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct CompiledKernel {
    /// `bzImage` or `Image`.
    pub image: Digest,
    /// The kernel release, as `uname -r` shows it.
    pub release: String,
    /// The list of its modules for `init`.
    pub modules: Digest,
}

/// Configures the kernel, compares the configuration with the plan's options, and compiles it.
///
/// # Errors
/// An option has a different value in the configuration, or the kernel does not compile.
pub fn compile(build: &Build<'_>) -> Result<CompiledKernel> {
    let store = build.options.store;
    let text = |digest: Digest| -> Result<String> {
        Ok(String::from_utf8_lossy(&store.read(&digest)?).into_owned())
    };
    let configured = build.run(configuration(build)?)?;
    let config = configured.output(CONFIG)?;
    let (plan, options) = (&build.plan.kernel, text(config)?);
    let kconfig = text(configured.output(KCONFIG)?)?;
    compare(plan, &options, &kconfig)?;
    let objects = text(configured.output(OBJECTS)?)?;
    let modules = modules::list(plan, &values(&options), &kconfig, &objects);
    let compiled = build.run(image(build, config)?)?;
    let release = text(compiled.output(RELEASE)?)?.trim().to_owned();
    let modules = store.put_bytes(modules.as_bytes())?;
    Ok(CompiledKernel { image: compiled.output(KERNEL)?, release, modules })
}

/// The script that turns the plan's options into a whole configuration.
fn configuration(build: &Build<'_>) -> Result<Script<'static>> {
    let requested = build.plan.kernel.fragment();
    let mut input = sources(build)?;
    input.add_file("asked.config", build.options.store.put_bytes(requested.as_bytes())?, false)?;
    Ok(Script {
        name: format!("kernel-config {}", build.plan.architecture),
        text: script(
            &build.plan.kernel,
            include_str!("kernel-config.sh"),
            concat!(include_str!("pahole.sh"), include_str!("kernel-config.sh")),
        ),
        args: Vec::new(),
        env: environment(build.plan.architecture),
        input,
        outputs: vec![CONFIG.into(), KCONFIG.into(), OBJECTS.into()],
        compiler: Compiler::Root,
    })
}

/// The script that compiles the kernel with `config`, a whole `.config`. Plans with the same one
/// share the result.
fn image(build: &Build<'_>, config: Digest) -> Result<Script<'static>> {
    let architecture = build.plan.architecture;
    let mut input = sources(build)?;
    input.add_file("kernel.config", config, false)?;
    let target = if architecture == Architecture::Amd64 { "bzImage" } else { "Image" };
    let mut env = environment(architecture);
    env.insert("TARGET".into(), target.into());
    // The kernel contains the user, host and time of its build.
    for (name, value) in [("USER", "osbuild"), ("HOST", "osbuild"), ("VERSION", "1")] {
        env.insert(format!("KBUILD_BUILD_{name}"), value.into());
    }
    env.insert("KBUILD_BUILD_TIMESTAMP".into(), Date::from_unix(STEP_TIME).to_string());
    Ok(Script {
        name: format!("kernel {architecture}"),
        text: script(
            &build.plan.kernel,
            include_str!("kernel.sh"),
            concat!(include_str!("pahole.sh"), include_str!("kernel.sh")),
        ),
        args: Vec::new(),
        env,
        input,
        outputs: vec![KERNEL.into(), RELEASE.into()],
        compiler: Compiler::Root,
    })
}

/// The inputs of both scripts: the source, and pahole with its libraries if the kernel needs it.
fn sources(build: &Build<'_>) -> Result<InputTree> {
    let mut input = InputTree::new();
    input.add_file("source.deb", locked::package(build.plan.kernel_source())?, false)?;
    for package in &build.plan.lock.get().pahole.packages {
        let path = format!("{PAHOLE}/{}.deb", package.package);
        input.add_file(&path, locked::package(package)?, false)?;
    }
    Ok(input)
}

/// The script for a kernel: the one that unpacks pahole first only for a kernel that needs it, so
/// that the digests of others' actions do not depend on it.
fn script(kernel: &Kernel, plain: &'static str, with_pahole: &'static str) -> &'static str {
    if kernel.has_types() { with_pahole } else { plain }
}

fn environment(architecture: Architecture) -> BTreeMap<String, String> {
    let cross = match architecture {
        Architecture::Amd64 => String::new(),
        Architecture::Arm64 => format!("{}-", architecture.gnu()),
    };
    BTreeMap::from([("ARCH".into(), architecture.kernel().into()), ("CROSS_COMPILE".into(), cross)])
}

/// Compares `config` with the plan's options: kconfig silently drops an option whose dependencies
/// are off.
///
/// # Errors
/// Every option with a different value, with the line that sets it and, if the Kconfig files
/// declare the option, its dependencies.
fn compare(kernel: &Kernel, config: &str, kconfig: &str) -> Result<()> {
    let actual = values(config);
    let value = |name: &str| actual.get(name).copied();
    let dropped = kernel
        .options
        .iter()
        .filter(|(name, option)| !fulfilled(&option.value, value(name)))
        .collect::<Vec<_>>();
    if dropped.is_empty() {
        return Ok(());
    }
    let problems = dropped.into_iter().map(|(name, option)| {
        let shown = value(name).unwrap_or("n");
        let problem = Problem::new(format!(
            "{}: kernel option `{name}` is `{shown}` in the configuration, not `{}`",
            option.origin, option.value
        ));
        explain(problem, name, kconfig, &actual)
    });
    Err(Error::many(Kind::Usage, problems.collect()))
}

fn fulfilled(requested: &OptionValue, actual: Option<&str>) -> bool {
    match (requested, actual) {
        (OptionValue::No, actual) => actual.is_none(),
        (requested, Some(actual)) => requested.to_string() == actual,
        (_, None) => false,
    }
}

fn values(config: &str) -> BTreeMap<&str, &str> {
    config.lines().filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('=')).collect()
}

/// Adds the reason: the option does not exist, or some of its dependencies are off.
fn explain(problem: Problem, name: &str, kconfig: &str, actual: &BTreeMap<&str, &str>) -> Problem {
    let Some(dependencies) = dependencies(name, kconfig) else {
        let names = kconfig.lines().filter_map(declared);
        let near = names
            .max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
        let problem = problem.cause("no Kconfig file of this kernel declares it");
        return match near.filter(|near| strsim::jaro_winkler(name, near) > 0.85) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem,
        };
    };
    let word = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    let off = dependencies.iter().flat_map(|line| line.split(word));
    let off = off.filter(|word| {
        word.len() > 1
            && word
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    });
    let mut off = off
        .filter(|word| !actual.contains_key(word))
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>();
    off.dedup();
    let problem = dependencies
        .iter()
        .fold(problem, |problem, line| problem.cause(format!("it depends on {line}")));
    if off.is_empty() {
        problem
    } else {
        problem.hint(format!("also set {}, which is off", off.join(", ")))
    }
}

/// The option that a line of a Kconfig file declares. Some files separate the words with a tab.
pub(super) fn declared(line: &str) -> Option<&str> {
    let name = line.strip_prefix("config").or_else(|| line.strip_prefix("menuconfig"))?;
    name.starts_with([' ', '\t']).then(|| name.trim())
}

/// The `depends on` lines of an option; `None` if it is not declared.
fn dependencies<'k>(name: &str, kconfig: &'k str) -> Option<Vec<&'k str>> {
    let mut found = None;
    let mut inside = false;
    for line in kconfig.lines() {
        if let Some(declared) = declared(line) {
            inside = declared == name;
            if inside {
                found.get_or_insert_with(Vec::new);
            }
        } else if inside
            && let (Some(lines), Some(rest)) =
                (found.as_mut(), line.trim().strip_prefix("depends on "))
        {
            lines.push(rest.trim());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{KernelOption, Origin};

    const DECLARED: &str = "config\tEROFS_FS\n\ttristate \"EROFS\"\n\tdepends on BLOCK && \
         MISC_FILESYSTEMS\n\nconfig BLOCK\n\tbool\n";

    fn kernel(name: &str, value: OptionValue) -> Kernel {
        let origin = Origin { file: "components/linux/fragments/root.config".into(), line: 3 };
        let options = BTreeMap::from([(name.to_owned(), KernelOption { value, origin })]);
        Kernel {
            package: "linux-source-6.12".into(),
            groups: BTreeMap::new(),
            left_out: BTreeMap::new(),
            options,
            command_line: Vec::new(),
        }
    }

    #[test]
    fn a_dropped_option_names_the_dependency_that_is_off() {
        let error = compare(&kernel("EROFS_FS", OptionValue::Yes), "CONFIG_BLOCK=y\n", DECLARED)
            .unwrap_err();
        let problem = &error.problems[0];
        assert_eq!(
            problem.message,
            "components/linux/fragments/root.config:3: kernel option `EROFS_FS` is `n` in the \
             configuration, not `y`"
        );
        assert_eq!(problem.hint.as_deref(), Some("also set `MISC_FILESYSTEMS`, which is off"));
    }

    #[test]
    fn an_unknown_option_suggests_a_similar_one() {
        let error = compare(&kernel("EROFS_FSS", OptionValue::Yes), "", DECLARED).unwrap_err();
        assert_eq!(error.problems[0].hint.as_deref(), Some("did you mean `EROFS_FS`?"));
    }

    #[test]
    fn only_a_kernel_with_types_has_a_script_with_pahole() {
        let of = |value| script(&kernel("DEBUG_INFO_BTF", value), "plain", "with pahole");
        assert_eq!([OptionValue::Yes, OptionValue::No].map(of), ["with pahole", "plain"]);
        assert_eq!(script(&kernel("BLOCK", OptionValue::Yes), "plain", "with pahole"), "plain");
    }

    #[test]
    fn an_option_that_must_be_off_may_be_absent_but_not_on() {
        assert!(
            compare(&kernel("BLOCK", OptionValue::No), "# CONFIG_BLOCK is not set\n", DECLARED)
                .is_ok()
        );
        assert!(compare(&kernel("BLOCK", OptionValue::No), "CONFIG_BLOCK=y\n", DECLARED).is_err());
    }

    #[test]
    fn text_is_compared_with_its_quotes() {
        let lsm = kernel("LSM", OptionValue::Text("lockdown,bpf".into()));
        assert!(compare(&lsm, "CONFIG_LSM=\"lockdown,bpf\"\n", DECLARED).is_ok());
    }
}

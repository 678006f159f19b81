//! The kernel parameters that the `host` socket sets, of those that the image allows. They are set
//! again when another program changes them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use osbuild_abi::paths::KERNEL_PARAMETERS;
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{
    KernelParameter, MAX_PARAMETERS, Observed, ParameterKey, ParameterValue, Refusal, RefusalCode,
    Setting, SettingName, words,
};
use osbuild_ranks::{Ranked, Source};

use super::sysctl::{self, SETTINGS};

/// How often to compare them with the kernel: nothing reports a change of a file in `/proc/sys`.
const INTERVAL: Duration = Duration::from_millis(500);

/// The parameters that have a value of another source than the image.
pub struct KernelParameters {
    folder: PathBuf,
    held: BTreeMap<ParameterKey, Held>,
    /// When to compare them next, since boot.
    next: Option<Duration>,
}

struct Held {
    /// The image's value is the one that the parameter had before.
    values: Ranked<String>,
    /// The value in effect, in the form in which the kernel shows it.
    shown: String,
}

impl Default for KernelParameters {
    fn default() -> Self {
        KernelParameters { folder: SETTINGS.into(), held: BTreeMap::new(), next: None }
    }
}

impl KernelParameters {
    /// When to compare them with the kernel, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.next
    }

    /// Sets a parameter from `source`, if `allowed`, the text of the image's list, permits it.
    ///
    /// # Errors
    /// The list does not permit it, there are too many, or the kernel does not take the value: then
    /// the parameter keeps the value that it had.
    pub fn apply(
        &mut self,
        source: Source,
        wanted: &KernelParameter,
        allowed: &str,
        now: Duration,
    ) -> Result<(), Refusal> {
        let KernelParameter { key, value } = wanted;
        if !permits(allowed, key) {
            let reason = format!("the image does not allow `{key}` to be set");
            return Err(Refusal::new(RefusalCode::NotAllowed, reason));
        }
        let before = self.read(key)?;
        let mut held = match self.held.remove(key) {
            Some(held) => held,
            None if self.held.len() < MAX_PARAMETERS => Held::new(before.clone()),
            None => {
                let reason = format!("{MAX_PARAMETERS} kernel parameters are set already");
                return Err(Refusal::new(RefusalCode::Failed, reason));
            }
        };
        let former = held.values.set(source, Some(value.as_str().to_owned()));
        let set = self.write(key, held.effective());
        if set.is_err() {
            held.values.set(source, former);
            // A list of values may have been taken in part.
            let _ = self.write(key, &before);
        }
        held.shown = self.read(key)?;
        if !held.is_image() {
            self.held.insert(key.clone(), held);
            self.next.get_or_insert(now + INTERVAL);
        }
        set.map_err(Refusal::from)
    }

    /// Withdraws the value of `source`, so that the next one is in effect. A parameter that is not
    /// set stays as it is.
    pub fn withdraw(&mut self, source: Source, key: &ParameterKey) -> Outcome {
        let Some(mut held) = self.held.remove(key) else { return Ok(()) };
        held.values.set(source, None);
        let set = self.write(key, held.effective());
        if !held.is_image() {
            held.shown = self.read(key)?;
            self.held.insert(key.clone(), held);
        }
        if self.held.is_empty() {
            self.next = None;
        }
        set
    }

    /// Sets those again that another program has changed. Returns lines for the console.
    pub fn hold(&mut self, now: Duration) -> Vec<String> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        self.next = Some(now + INTERVAL);
        let mut lines = Vec::new();
        let keys: Vec<ParameterKey> = self.held.keys().cloned().collect();
        for key in keys {
            match self.hold_one(&key) {
                Ok(None) => {}
                Ok(Some(line)) => lines.push(line),
                Err(failure) => lines.push(failure.to_string()),
            }
        }
        lines
    }

    fn hold_one(&mut self, key: &ParameterKey) -> Outcome<Option<String>> {
        let (found, held) = (self.read(key)?, &self.held[key]);
        if found == held.shown {
            return Ok(None);
        }
        let value = held.effective().to_owned();
        self.write(key, &value)?;
        let shown = self.read(key)?;
        if let Some(held) = self.held.get_mut(key) {
            held.shown = shown;
        }
        Ok(Some(format!("another program set `{key}` to `{found}`, it is `{value}` again")))
    }

    /// Those that have a value of another source than the image: what requests have set, and what
    /// the kernel has.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        self.held.iter().map(|(key, held)| Observed {
            name: SettingName::KernelParameter(key.clone()),
            wanted: held.of(key, Source::Api).map(Setting::KernelParameter),
            source: held.values.effective().map(|(source, _)| source),
            current: self.read(key).unwrap_or_default(),
            error: String::new(),
        })
    }

    /// The parameters with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = KernelParameter> {
        self.held.iter().filter_map(move |(key, held)| held.of(key, source))
    }

    fn path(&self, key: &ParameterKey) -> PathBuf {
        self.folder.join(key.as_str().replace('.', "/"))
    }

    fn read(&self, key: &ParameterKey) -> Outcome<String> {
        let text = std::fs::read_to_string(self.path(key));
        text.map(|text| words(&text)).explain(format_args!("read the kernel parameter `{key}`"))
    }

    /// An empty value is that of an empty list: the kernel takes it only as an empty line.
    fn write(&self, key: &ParameterKey, value: &str) -> Outcome {
        sysctl::set(&self.folder, key.as_str(), if value.is_empty() { "\n" } else { value })
    }
}

impl Held {
    fn new(before: String) -> Held {
        let (mut values, shown) = (Ranked::new(), before.clone());
        values.set(Source::Image, Some(before));
        Held { values, shown }
    }

    fn effective(&self) -> &str {
        self.values.effective().map_or("", |(_, value)| value)
    }

    /// The parameter with the value of a source.
    fn of(&self, key: &ParameterKey, source: Source) -> Option<KernelParameter> {
        let value = ParameterValue::parse(self.values.get(source)?).ok()?;
        Some(KernelParameter { key: key.clone(), value })
    }

    /// Whether only the image has a value.
    fn is_image(&self) -> bool {
        self.values.effective().is_none_or(|(source, _)| source == Source::Image)
    }
}

/// The text of the image's list.
pub fn allowed() -> Outcome<String> {
    std::fs::read_to_string(KERNEL_PARAMETERS).explain(format_args!("read {KERNEL_PARAMETERS}"))
}

/// Whether the list permits the parameter.
fn permits(list: &str, key: &ParameterKey) -> bool {
    let patterns = list.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    patterns.filter(|line| !line.is_empty()).any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => key.as_str().starts_with(start),
        None => key.as_str() == pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    const SHIPPED: &str = include_str!("../../kernel-parameters.conf");
    const NOW: Duration = Duration::from_secs(100);
    const KEY: &str = "net.core.somaxconn";

    fn kernel() -> (KernelParameters, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("net/core")).unwrap();
        fs::write(file(&folder), "4096\n").unwrap();
        let parameters =
            KernelParameters { folder: folder.path().to_owned(), ..KernelParameters::default() };
        (parameters, folder)
    }

    fn file(folder: &TempDir) -> PathBuf {
        folder.path().join("net/core/somaxconn")
    }

    fn wanted(key: &str, value: &str) -> KernelParameter {
        KernelParameter::parse(key, value).unwrap()
    }

    fn key(text: &str) -> ParameterKey {
        ParameterKey::parse(text).unwrap()
    }

    #[test]
    fn a_withdrawn_parameter_has_the_value_that_it_had_before() {
        let (mut parameters, folder) = kernel();
        for value in ["8192", "16384"] {
            parameters.apply(Source::Api, &wanted(KEY, value), KEY, NOW).unwrap();
            assert_eq!(fs::read_to_string(file(&folder)).unwrap(), value);
        }
        let requested: Vec<_> = parameters.of(Source::Api).collect();
        assert_eq!(requested, [wanted(KEY, "16384")]);
        parameters.withdraw(Source::Api, &key(KEY)).unwrap();
        assert_eq!(fs::read_to_string(file(&folder)).unwrap(), "4096");
        assert_eq!((parameters.of(Source::Api).count(), parameters.deadline()), (0, None));
        parameters.withdraw(Source::Api, &key(KEY)).unwrap();
    }

    #[test]
    fn a_parameter_that_another_program_changes_is_set_again() {
        let (mut parameters, folder) = kernel();
        parameters.apply(Source::Api, &wanted(KEY, "8192"), KEY, NOW).unwrap();
        fs::write(file(&folder), "128\n").unwrap();
        assert!(parameters.hold(NOW).is_empty(), "it is not due yet");
        assert_eq!(
            parameters.hold(parameters.deadline().unwrap()),
            ["another program set `net.core.somaxconn` to `128`, it is `8192` again"]
        );
        let observed = parameters.observe().next().unwrap();
        assert_eq!((observed.current.as_str(), observed.source), ("8192", Some(Source::Api)));
        assert!(parameters.hold(parameters.deadline().unwrap()).is_empty());
    }

    #[test]
    fn what_the_image_does_not_allow_is_refused_and_changes_nothing() {
        let (mut parameters, folder) = kernel();
        for list in ["", "# net.core.somaxconn", "net.core.somaxconn2", "vm.*"] {
            let refused = parameters.apply(Source::Api, &wanted(KEY, "1"), list, NOW).unwrap_err();
            assert_eq!(refused.code, RefusalCode::NotAllowed, "{list}");
        }
        assert_eq!(fs::read_to_string(file(&folder)).unwrap(), "4096\n");
        assert!(parameters.apply(Source::Api, &wanted(KEY, "1"), "net.*", NOW).is_ok());
    }

    #[test]
    fn a_parameter_that_the_kernel_does_not_have_is_refused() {
        let (mut parameters, _folder) = kernel();
        let refused = parameters.apply(Source::Api, &wanted("net.core.x", "1"), "net.*", NOW);
        assert_eq!(refused.unwrap_err().code, RefusalCode::Failed);
        assert_eq!(parameters.observe().count(), 0);
    }

    #[test]
    fn the_number_of_parameters_is_bounded() {
        let (mut parameters, folder) = kernel();
        let outcomes = (0..=MAX_PARAMETERS).map(|index| {
            fs::write(folder.path().join(format!("net/core/{index}")), "0").unwrap();
            let wanted = wanted(&format!("net.core.{index}"), "1");
            parameters.apply(Source::Api, &wanted, "net.*", NOW).is_ok()
        });
        assert_eq!(outcomes.filter(|is_set| *is_set).count(), MAX_PARAMETERS);
    }

    #[test]
    fn the_list_that_we_ship_permits_no_protection_to_be_lifted() {
        const TUNED: [&str; 3] =
            ["fs.inotify.max_user_instances", "fs.inotify.max_user_watches", "vm.max_map_count"];
        for line in include_str!("../../sysctl.conf").lines() {
            let Some((name, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) else {
                continue;
            };
            assert_eq!(permits(SHIPPED, &key(name)), TUNED.contains(&name), "{name}");
        }
        for name in ["net.ipv4.tcp_rmem", "kernel.domainname"] {
            assert!(permits(SHIPPED, &key(name)), "{name}");
        }
        for name in
            ["kernel.core_pattern", "kernel.panic", "net.ipv4.ip_forward", "vm.overcommit_memory"]
        {
            assert!(!permits(SHIPPED, &key(name)), "{name}");
        }
    }

    #[test]
    fn a_request_outranks_the_document_which_is_back_when_it_goes() {
        let (mut parameters, folder) = kernel();
        parameters.apply(Source::Document, &wanted(KEY, "1024"), KEY, NOW).unwrap();
        parameters.apply(Source::Api, &wanted(KEY, "8192"), KEY, NOW).unwrap();
        parameters.apply(Source::Document, &wanted(KEY, "2048"), KEY, NOW).unwrap();
        assert_eq!(fs::read_to_string(file(&folder)).unwrap(), "8192");
        parameters.withdraw(Source::Api, &key(KEY)).unwrap();
        assert_eq!(fs::read_to_string(file(&folder)).unwrap(), "2048");
        let observed = parameters.observe().next().unwrap();
        assert_eq!((observed.wanted, observed.source), (None, Some(Source::Document)));
    }
}

//! The programs that give the kubelet the credentials of registries. A child writes the file in
//! which the kubelet finds those that are there, and the kubelet starts again if that has changed:
//! it would not start with one that is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use osbuild_abi::paths::CREDENTIAL_PROVIDERS;
use osbuild_failure::Outcome;
use osbuild_protocol::{
    CredentialProvider, MAX_PROVIDERS, Observed, ProviderName, Refusal, RefusalCode, Setting,
    SettingName,
};
use osbuild_ranks::{Ranked, Source};
use rustix::fs::{
    Access, FileType, Mode, OFlags, ResolveFlags, access, fstat, open, openat2, readlinkat,
};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::run_files;

/// The file that the kubelet reads when it starts.
pub const CONFIGURATION: &str = "/run/osbuild/kubelet/credential-providers.json";
/// The file with the names of the providers in it, one on each line.
const NAMES: &str = "/run/osbuild/kubelet/credential-provider-names";
/// A program may be a link, but to a file on the same mount: another may be that of a server that
/// does not answer. A link that begins with the folder's own path would leave the mount and come
/// back.
const ON_SAME: ResolveFlags = ResolveFlags::NO_XDEV.union(ResolveFlags::NO_MAGICLINKS);
/// How long after a change the files are written: others may follow.
const PAUSE: Duration = Duration::from_secs(1);

/// Providers that have one value each.
type Providers = BTreeMap<ProviderName, CredentialProvider>;

/// The providers that have a value of any source.
#[derive(Default)]
pub struct CredentialProviders {
    values: BTreeMap<ProviderName, Ranked<CredentialProvider>>,
    /// Whether a child is writing the files.
    is_asked: bool,
    /// Those for which the files were written, of which some programs may be missing.
    written: Providers,
    /// Those of them whose programs are there.
    present: BTreeSet<ProviderName>,
    /// The text of [`CONFIGURATION`], as the child has written it last.
    text: Option<String>,
    /// Those with which the kubelet was started, while it runs.
    running: Providers,
    /// When to write the files, since boot.
    due: Option<Duration>,
}

impl CredentialProviders {
    /// Gives a provider the value of `source`. `now` is the time since boot.
    ///
    /// # Errors
    /// There are too many.
    pub fn apply(
        &mut self,
        source: Source,
        provider: &CredentialProvider,
        now: Duration,
    ) -> Result<(), Refusal> {
        let name = provider.name();
        if !self.values.contains_key(name) && self.values.len() >= MAX_PROVIDERS {
            let reason = format!("there are {MAX_PROVIDERS} credential providers already");
            return Err(Refusal::new(RefusalCode::Failed, reason));
        }
        self.values.entry(name.clone()).or_default().set(source, Some(provider.clone()));
        self.write_at(now + PAUSE);
        Ok(())
    }

    /// Withdraws the value of `source`, so that the next one is in effect. `now` is the time since
    /// boot.
    pub fn withdraw(&mut self, source: Source, name: &ProviderName, now: Duration) {
        if let Some(values) = self.values.get_mut(name) {
            values.set(source, None);
        }
        self.values.retain(|_, values| values.effective().is_some());
        self.write_at(now + PAUSE);
    }

    fn write_at(&mut self, due: Duration) {
        self.due = (self.effective() != self.written).then_some(due);
    }

    /// When to write the files, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.due
    }

    /// The files are about to be written.
    pub fn on_due(&mut self) {
        self.due = None;
    }

    /// Those of requests, a line each, for the child that now writes the files and reads the
    /// document itself.
    pub fn ask(&mut self) -> Vec<String> {
        self.on_due();
        self.is_asked = true;
        self.of(Source::Api).map(|one| Setting::CredentialProvider(one).line()).collect()
    }

    /// The child has written the files, and its document is known. Returns whether the kubelet has
    /// to start again. `now` is the time since boot.
    pub fn on_written(&mut self, now: Duration) -> bool {
        self.is_asked = false;
        self.written = self.effective();
        let names = run_files::read(NAMES).unwrap_or_default();
        self.present = names.lines().filter_map(|name| ProviderName::parse(name).ok()).collect();
        let text = run_files::read(CONFIGURATION);
        let has_changed = text != self.text;
        self.text = text;
        self.write_at(now);
        has_changed
    }

    /// The names of all of them, for a look at their programs.
    pub fn names(&self) -> Vec<ProviderName> {
        self.written.keys().cloned().collect()
    }

    /// The programs of these are there now. `now` is the time since boot.
    pub fn on_looked(&mut self, present: &BTreeSet<ProviderName>, now: Duration) {
        let is_there = |name: &&ProviderName| present.contains(*name);
        let present: BTreeSet<ProviderName> =
            self.written.keys().filter(is_there).cloned().collect();
        if present != self.present && !self.is_asked {
            self.due.get_or_insert(now);
        }
    }

    /// The kubelet is started.
    pub fn on_started(&mut self) {
        let written = self.written.iter().filter(|(name, _)| self.present.contains(name));
        self.running = written.map(|(name, one)| (name.clone(), one.clone())).collect();
    }

    /// The kubelet has exited.
    pub fn on_exited(&mut self) {
        self.running.clear();
    }

    /// Writes the file of the kubelet again if another program has changed it. Returns lines for
    /// the console.
    pub fn hold(&self) -> Vec<String> {
        // A child is about to change it.
        if self.is_asked || run_files::read(CONFIGURATION) == self.text {
            return Vec::new();
        }
        vec![match run_files::set(CONFIGURATION, self.text.as_deref()) {
            Ok(()) => {
                format!("another program changed `{CONFIGURATION}`, it is as before again")
            }
            Err(failure) => failure.to_string(),
        }]
    }

    /// The providers: what requests have set, and with what the kubelet runs.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        self.values.iter().map(|(name, values)| {
            let is_missing = self.written.contains_key(name) && !self.present.contains(name);
            let running = self.running.get(name).cloned().map(Setting::CredentialProvider);
            Observed {
                name: SettingName::CredentialProvider(name.clone()),
                wanted: values.get(Source::Api).cloned().map(Setting::CredentialProvider),
                source: values.effective().map(|(source, _)| source),
                current: running.map(|one| one.value()).unwrap_or_default(),
                error: match is_missing {
                    true => format!("`{}` is not there, or cannot be executed", program(name)),
                    false => String::new(),
                },
            }
        })
    }

    /// The providers with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = CredentialProvider> {
        self.values.values().filter_map(move |values| values.get(source).cloned())
    }

    fn effective(&self) -> Providers {
        let one = |(name, values): (&ProviderName, &Ranked<CredentialProvider>)| {
            Some((name.clone(), values.effective()?.1.clone()))
        };
        self.values.iter().filter_map(one).collect()
    }
}

/// Those of these whose programs can be executed. It reads a disk.
pub fn present<'a>(names: impl IntoIterator<Item = &'a ProviderName>) -> BTreeSet<ProviderName> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let folder = open(CREDENTIAL_PROVIDERS, flags | OFlags::DIRECTORY, Mode::empty());
    let Ok(folder) = folder else { return BTreeSet::new() };
    let can_be_executed = |name: &&ProviderName| -> rustix::io::Result<bool> {
        let open = |path: &str| openat2(&folder, path, flags, Mode::empty(), ON_SAME);
        let program = open(name.as_str()).or_else(|error| match error {
            Errno::XDEV => open(&inside(&folder, name).ok_or(error)?),
            _ => Err(error),
        })?;
        access(format!("/proc/self/fd/{}", program.as_raw_fd()), Access::EXEC_OK)?;
        Ok(FileType::from_raw_mode(fstat(&program)?.st_mode) == FileType::RegularFile)
    };
    let is_there = |name: &&ProviderName| can_be_executed(name).unwrap_or(false);
    names.into_iter().filter(is_there).cloned().collect()
}

/// The target of a link in the folder that begins with the folder's path, without that.
fn inside(folder: &OwnedFd, name: &ProviderName) -> Option<String> {
    let target = readlinkat(folder, name.as_str(), Vec::new()).ok()?.into_string().ok()?;
    Some(target.strip_prefix(CREDENTIAL_PROVIDERS)?.strip_prefix('/')?.to_owned())
}

/// Writes the files, for the child: with those of the document that no request replaces. Returns
/// whether the kubelet has such a file.
pub fn write(
    document: &[CredentialProvider],
    requested: impl IntoIterator<Item = CredentialProvider>,
) -> Outcome<bool> {
    let all = document.iter().cloned().chain(requested);
    let all: Providers = all.map(|one| (one.name().clone(), one)).collect();
    let present = present(all.keys());
    let providers: Vec<Value> =
        all.iter().filter(|(name, _)| present.contains(name)).map(|(_, one)| value(one)).collect();
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": providers,
    });
    let has_some = !present.is_empty();
    run_files::set(CONFIGURATION, has_some.then(|| format!("{config:#}\n")).as_deref())?;
    let names: String = present.iter().map(|name| format!("{name}\n")).collect();
    run_files::set(NAMES, has_some.then_some(names.as_str()))?;
    Ok(has_some)
}

/// A provider as the kubelet's file has it.
fn value(provider: &CredentialProvider) -> Value {
    let options = provider.options();
    let variable = |(name, value): &(String, String)| json!({ "name": name, "value": value });
    json!({
        "name": provider.name().as_str(),
        "matchImages": options.images,
        "defaultCacheDuration": options.cache,
        "apiVersion": options.api_version,
        "args": options.arguments,
        "env": options.variables.iter().map(variable).collect::<Vec<_>>(),
    })
}

fn program(name: &ProviderName) -> String {
    format!("{CREDENTIAL_PROVIDERS}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

    use crate::sys::own_mounts;

    const NOW: Duration = Duration::from_secs(100);
    const WORDS: &str = "cache=12h api=v1 images=*.example arg=a%20b env=A=b";

    fn provider(name: &str) -> CredentialProvider {
        match Setting::parse(&format!("credential-provider {name} {WORDS}")).unwrap() {
            Setting::CredentialProvider(provider) => provider,
            other => panic!("{other:?}"),
        }
    }

    /// A node whose kubelet runs.
    #[derive(Default)]
    struct Node {
        providers: CredentialProviders,
        /// How often the kubelet was started.
        starts: u32,
    }

    impl Node {
        /// The child writes the files, and the kubelet starts again if it has to.
        fn settle(&mut self) {
            while self.providers.deadline().is_some() {
                let lines = self.providers.ask();
                let requested = lines.iter().map(|line| match Setting::parse(line).unwrap() {
                    Setting::CredentialProvider(provider) => provider,
                    other => panic!("{other:?}"),
                });
                let document: Vec<_> = self.providers.of(Source::Document).collect();
                write(&document, requested).unwrap();
                if self.providers.on_written(NOW) {
                    self.starts += 1;
                    self.providers.on_exited();
                    self.providers.on_started();
                }
            }
        }

        /// The disk worker looks at the programs.
        fn look(&mut self) {
            let present = present(&self.providers.names());
            self.providers.on_looked(&present, NOW);
            self.settle();
        }

        /// The name of each, with what the kubelet runs with and the error.
        fn observed(&self) -> Vec<String> {
            let line = |one: Observed| format!("{} [{}] [{}]", one.name, one.current, one.error);
            self.providers.observe().map(line).collect()
        }
    }

    /// Runs a test on a thread where `/run` and the folder of programs are as on a node.
    fn on_a_node(work: impl FnOnce(&mut Node) + Send) {
        let inside = || {
            own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            for path in ["/run", "/opt"] {
                mount("node", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).unwrap();
            }
            fs::create_dir_all(CREDENTIAL_PROVIDERS).unwrap();
            work(&mut Node::default());
        };
        let ended = std::thread::scope(|scope| scope.spawn(inside).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }

    fn deliver(name: &str, mode: u32) {
        let path = format!("{CREDENTIAL_PROVIDERS}/{name}");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_provider_waits_for_its_program_and_goes_with_it() {
        on_a_node(|node| {
            node.providers.apply(Source::Api, &provider("a"), NOW).unwrap();
            node.settle();
            let missing = format!(
                "credential-provider a [] [`{CREDENTIAL_PROVIDERS}/a` is not there, or cannot be \
                 executed]"
            );
            assert_eq!((node.starts, node.observed()), (0, vec![missing.clone()]));
            assert!(run_files::read(CONFIGURATION).is_none());
            deliver("a", 0o644);
            node.look();
            assert_eq!((node.starts, node.observed()), (0, vec![missing.clone()]));
            deliver("a", 0o755);
            node.look();
            let running = format!("credential-provider a [{WORDS}] []");
            assert_eq!((node.starts, node.observed()), (1, vec![running]));
            node.look();
            assert_eq!(node.starts, 1, "nothing has changed");
            fs::remove_file(program(&ProviderName::parse("a").unwrap())).unwrap();
            node.look();
            assert_eq!((node.starts, node.observed()), (2, vec![missing]));
        });
    }

    #[test]
    fn a_program_is_not_looked_for_on_another_file_system() {
        on_a_node(|_| {
            let names = ["a", "b", "c", "d", "e"].map(|name| ProviderName::parse(name).unwrap());
            deliver("a", 0o755);
            symlink("a", program(&names[1])).unwrap();
            symlink(program(&names[0]), program(&names[2])).unwrap();
            fs::write("/run/elsewhere", "").unwrap();
            fs::set_permissions("/run/elsewhere", fs::Permissions::from_mode(0o755)).unwrap();
            symlink("/run/elsewhere", program(&names[3])).unwrap();
            fs::create_dir(program(&names[4])).unwrap();
            assert_eq!(present(&names), names[..3].iter().cloned().collect());
        });
    }

    #[test]
    fn the_file_has_the_form_of_the_kubelet_and_those_that_are_there() {
        on_a_node(|node| {
            deliver("a", 0o755);
            node.providers.apply(Source::Document, &provider("a"), NOW).unwrap();
            node.providers.apply(Source::Api, &provider("b"), NOW).unwrap();
            node.settle();
            let text = run_files::read(CONFIGURATION).unwrap();
            let found: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                found,
                json!({
                    "apiVersion": "kubelet.config.k8s.io/v1",
                    "kind": "CredentialProviderConfig",
                    "providers": [{
                        "name": "a",
                        "matchImages": ["*.example"],
                        "defaultCacheDuration": "12h",
                        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
                        "args": ["a b"],
                        "env": [{ "name": "A", "value": "b" }],
                    }],
                })
            );
            fs::write(CONFIGURATION, "{}").unwrap();
            assert_eq!(node.providers.hold().len(), 1);
            assert_eq!(run_files::read(CONFIGURATION), Some(text));
        });
    }

    #[test]
    fn a_request_gives_way_to_the_document_and_the_file_goes_with_the_last_one() {
        on_a_node(|node| {
            deliver("a", 0o755);
            let name = ProviderName::parse("a").unwrap();
            let other = format!("credential-provider a {}", WORDS.replace("12h", "1h"));
            let Ok(Setting::CredentialProvider(other)) = Setting::parse(&other) else { panic!() };
            node.providers.apply(Source::Document, &provider("a"), NOW).unwrap();
            node.providers.apply(Source::Api, &other, NOW).unwrap();
            node.settle();
            assert!(node.observed()[0].contains("cache=1h"), "{:?}", node.observed());
            node.providers.withdraw(Source::Api, &name, NOW);
            node.settle();
            assert!(node.observed()[0].contains("cache=12h"), "{:?}", node.observed());
            node.providers.withdraw(Source::Document, &name, NOW);
            node.settle();
            assert!(node.observed().is_empty() && run_files::read(CONFIGURATION).is_none());
            assert_eq!(node.starts, 3);
        });
    }

    #[test]
    fn the_number_of_providers_is_bounded() {
        let mut providers = CredentialProviders::default();
        for number in 0..MAX_PROVIDERS {
            providers.apply(Source::Api, &provider(&format!("p{number}")), NOW).unwrap();
        }
        assert!(providers.apply(Source::Api, &provider("more"), NOW).is_err());
        assert!(providers.apply(Source::Document, &provider("p0"), NOW).is_ok());
    }
}

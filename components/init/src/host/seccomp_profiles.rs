//! The seccomp profiles that settings ask for: for each a file below `/run` in the OCI's form. A
//! link in the kubelet's folder of profiles leads to them, and containerd reads one when it makes a
//! container that names it.

use std::collections::BTreeMap;
use std::path::Path;

use osbuild_abi::paths::{SECCOMP_LINK, SECCOMP_PROFILES};
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;
use osbuild_protocol::{
    MAX_PROFILES, Observed, Refusal, RefusalCode, SeccompAction, SeccompFilter, SeccompName,
    SeccompRule, Setting, SettingName,
};
use osbuild_ranks::{Ranked, Source};
use serde_json::{Value, json};

use super::run_files;

/// The folder of [`SECCOMP_LINK`] in the kubelet's folder.
const FOLDER: &str = "seccomp";
/// The target of the link, [`SECCOMP_PROFILES`] from its folder: containers with the node's root at
/// another path follow it, too.
const TARGET: &str = "../../../../run/osbuild/seccomp";

/// The profiles that have a value of any source.
#[derive(Default)]
pub struct SeccompProfiles(BTreeMap<SeccompName, Held>);

#[derive(Default)]
struct Held {
    values: Ranked<SeccompFilter>,
    /// Why the file is not as it shall be.
    error: String,
}

/// Makes the link in the kubelet's folder, in the place of all else of its name. Returns whether it
/// was not there.
///
/// # Errors
/// DATA does not take it.
pub fn link(kubelet: &Folder) -> std::io::Result<bool> {
    let name = Path::new(SECCOMP_LINK).file_name().unwrap_or_default();
    let is_there = |folder: Folder| {
        let target = std::fs::read_link(folder.magic_path().join(name));
        target.is_ok_and(|target| target == Path::new(TARGET))
    };
    if kubelet.existing_folder(FOLDER).is_ok_and(is_there) {
        return Ok(false);
    }
    let folder = kubelet.folder(FOLDER, 0o755)?;
    if folder.kind(name)?.is_some() {
        folder.move_aside(name)?;
    }
    std::os::unix::fs::symlink(TARGET, folder.magic_path().join(name))?;
    Ok(true)
}

impl SeccompProfiles {
    /// Gives a profile the value of `source`.
    ///
    /// # Errors
    /// There are too many, or the file cannot be written: then the profile stays as it was.
    pub fn apply(&mut self, source: Source, profile: &SeccompFilter) -> Result<(), Refusal> {
        let name = profile.name();
        if !self.0.contains_key(name) && self.0.len() >= MAX_PROFILES {
            let reason = format!("there are {MAX_PROFILES} seccomp profiles already");
            return Err(Refusal::new(RefusalCode::Failed, reason));
        }
        let held = self.0.entry(name.clone()).or_default();
        let former = held.values.set(source, Some(profile.clone()));
        let put = held.put(name);
        if put.is_err() {
            held.values.set(source, former);
            let _ = held.put(name);
        }
        self.0.retain(|_, held| held.effective().is_some());
        put.map_err(Refusal::from)
    }

    /// Withdraws the value of `source`, so that the next one is in effect.
    ///
    /// # Errors
    /// The file cannot be replaced or removed.
    pub fn withdraw(&mut self, source: Source, name: &SeccompName) -> Outcome {
        let Some(held) = self.0.get_mut(name) else { return Ok(()) };
        held.values.set(source, None);
        let put = held.put(name);
        self.0.retain(|_, held| held.effective().is_some());
        put
    }

    /// Writes the files again that another program has changed. Returns lines for the console.
    pub fn hold(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, held) in &mut self.0 {
            if held.is_as_it_shall_be(name) {
                continue;
            }
            let before = held.error.clone();
            match held.put(name) {
                Ok(()) => lines.push(format!(
                    "another program changed the seccomp profile `{name}`, it is as before again"
                )),
                Err(failure) if held.error != before => lines.push(failure.to_string()),
                Err(_) => {}
            }
        }
        lines
    }

    /// The profiles: what requests have set, and what the files have.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        self.0.iter().map(|(name, held)| {
            let current = held.effective().filter(|_| held.is_as_it_shall_be(name)).cloned();
            Observed {
                name: SettingName::SeccompProfile(name.clone()),
                wanted: held.values.get(Source::Api).cloned().map(Setting::SeccompProfile),
                source: held.values.effective().map(|(source, _)| source),
                current: current
                    .map(|one| Setting::SeccompProfile(one).value())
                    .unwrap_or_default(),
                error: held.error.clone(),
            }
        })
    }

    /// The profiles with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = SeccompFilter> {
        self.0.values().filter_map(move |held| held.values.get(source).cloned())
    }
}

impl Held {
    fn effective(&self) -> Option<&SeccompFilter> {
        self.values.effective().map(|(_, profile)| profile)
    }

    fn is_as_it_shall_be(&self, name: &SeccompName) -> bool {
        run_files::read(&path(name)) == self.effective().map(text)
    }

    /// Has the host follow.
    fn put(&mut self, name: &SeccompName) -> Outcome {
        let put = match self.effective() {
            Some(profile) => run_files::write(&path(name), &text(profile)),
            None => run_files::set(&path(name), None),
        };
        let put = put.explain(format_args!("set the seccomp profile `{name}`"));
        self.error = put.as_ref().err().map(ToString::to_string).unwrap_or_default();
        put
    }
}

fn path(name: &SeccompName) -> String {
    format!("{SECCOMP_PROFILES}/{name}.json")
}

/// The text of the file, as `linux.seccomp` of the OCI's `config.json`.
fn text(profile: &SeccompFilter) -> String {
    let mut value = json!({ "defaultAction": profile.default().oci() });
    set_errno(&mut value, "defaultErrnoRet", profile.default());
    let architectures: Vec<String> = profile.architectures().collect();
    if !architectures.is_empty() {
        value["architectures"] = json!(architectures);
    }
    if !profile.rules().is_empty() {
        value["syscalls"] = profile.rules().iter().map(rule).collect();
    }
    format!("{value:#}\n")
}

fn rule(rule: &SeccompRule) -> Value {
    let mut value = json!({ "names": rule.names(), "action": rule.action().oci() });
    set_errno(&mut value, "errnoRet", rule.action());
    if !rule.arguments().is_empty() {
        let arguments = rule.arguments().iter().map(|one| {
            let (index, first, second) = (one.index, one.value, one.value_two);
            json!({ "index": index, "value": first, "valueTwo": second, "op": one.oci() })
        });
        value["args"] = arguments.collect();
    }
    value
}

fn set_errno(value: &mut Value, key: &str, action: SeccompAction) {
    if let Some(errno) = action.errno() {
        value[key] = json!(errno);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

    use crate::sys::own_mounts;

    fn profile(line: &str) -> SeccompFilter {
        match Setting::parse(&format!("seccomp-profile {line}")).unwrap() {
            Setting::SeccompProfile(profile) => profile,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_file_has_the_form_of_the_oci() {
        let line = "a default=ERRNO/38 architectures=X86_64 calls=ALLOW:read,write \
                    calls=ERRNO/1:clone argument=0:7:8:MASKED_EQ calls=KILL_PROCESS:ptrace";
        let expected = json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": 38,
            "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [
                { "names": ["read", "write"], "action": "SCMP_ACT_ALLOW" },
                {
                    "names": ["clone"],
                    "action": "SCMP_ACT_ERRNO",
                    "errnoRet": 1,
                    "args": [{ "index": 0, "value": 7, "valueTwo": 8, "op": "SCMP_CMP_MASKED_EQ" }],
                },
                { "names": ["ptrace"], "action": "SCMP_ACT_KILL_PROCESS" },
            ],
        });
        let found: Value = serde_json::from_str(&text(&profile(line))).unwrap();
        assert_eq!(found, expected);
        assert_eq!(
            text(&profile("a default=LOG")),
            "{\n  \"defaultAction\": \"SCMP_ACT_LOG\"\n}\n"
        );
    }

    /// Runs a test on a thread where `/run` is as on a node.
    fn on_a_node(work: impl FnOnce(&mut SeccompProfiles) + Send) {
        let inside = || {
            own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            mount("node", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).unwrap();
            work(&mut SeccompProfiles::default());
        };
        let ended = std::thread::scope(|scope| scope.spawn(inside).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }

    #[test]
    fn a_file_that_another_program_changes_is_written_again() {
        on_a_node(|profiles| {
            let wanted = profile("a default=LOG");
            profiles.apply(Source::Document, &wanted).unwrap();
            assert!(profiles.hold().is_empty());
            let file = path(wanted.name());
            let changes: [fn(&str); 4] = [
                |file| std::fs::write(file, "{}").unwrap(),
                |file| std::fs::remove_file(file).unwrap(),
                |file| {
                    std::fs::remove_file(file).unwrap();
                    std::fs::create_dir(file).unwrap();
                },
                |_| std::fs::remove_dir_all(SECCOMP_PROFILES).unwrap(),
            ];
            for (index, change) in changes.iter().enumerate() {
                change(&file);
                assert_eq!(profiles.observe().next().unwrap().current, "", "change {index}");
                let again =
                    ["another program changed the seccomp profile `a`, it is as before again"];
                assert_eq!(profiles.hold(), again, "change {index}");
                assert_eq!(std::fs::read_to_string(&file).unwrap(), text(&wanted));
            }
        });
    }

    #[test]
    fn a_file_that_cannot_be_written_again_is_an_error_of_its_profile_once() {
        on_a_node(|profiles| {
            profiles.apply(Source::Api, &profile("a default=LOG")).unwrap();
            mount("full", SECCOMP_PROFILES, "tmpfs", MountFlags::RDONLY, None).unwrap();
            let lines = profiles.hold();
            assert!(lines.len() == 1 && lines[0].contains("Read-only"), "{lines:?}");
            assert!(profiles.hold().is_empty());
            assert!(profiles.observe().next().unwrap().error.contains("Read-only"));
            let refused = profiles.apply(Source::Api, &profile("a default=ALLOW"));
            assert!(refused.is_err());
            assert_eq!(profiles.of(Source::Api).collect::<Vec<_>>(), [profile("a default=LOG")]);
        });
    }

    #[test]
    fn the_document_is_in_effect_where_no_request_is_and_the_file_goes_with_the_last_value() {
        on_a_node(|profiles| {
            let [document, api] = ["LOG", "ALLOW"].map(|one| profile(&format!("a default={one}")));
            profiles.apply(Source::Document, &document).unwrap();
            profiles.apply(Source::Api, &api).unwrap();
            let file = path(api.name());
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text(&api));
            profiles.withdraw(Source::Api, api.name()).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text(&document));
            profiles.withdraw(Source::Document, api.name()).unwrap();
            assert!(!std::fs::exists(&file).unwrap() && profiles.observe().next().is_none());
        });
    }

    #[test]
    fn the_number_of_profiles_is_bounded() {
        on_a_node(|profiles| {
            let numbered = |number| profile(&format!("p{number} default=LOG"));
            for number in 0..MAX_PROFILES {
                profiles.apply(Source::Api, &numbered(number)).unwrap();
            }
            assert!(profiles.apply(Source::Api, &numbered(MAX_PROFILES)).is_err());
            assert!(profiles.apply(Source::Document, &numbered(0)).is_ok());
        });
    }

    #[test]
    fn the_link_leads_to_the_profiles() {
        let mut path = Path::new(SECCOMP_LINK).parent().unwrap();
        let mut rest = TARGET;
        while let Some(after) = rest.strip_prefix("../") {
            (path, rest) = (path.parent().unwrap(), after);
        }
        assert_eq!(path.join(rest), Path::new(SECCOMP_PROFILES));
    }

    #[test]
    fn the_link_replaces_what_another_program_has_put_there() {
        let root = tempfile::tempdir().unwrap();
        let kubelet = Folder::open(&root.path().canonicalize().unwrap(), ".aside").unwrap();
        let path = root.path().join("seccomp/osbuild");
        std::fs::create_dir_all(path.join("a")).unwrap();
        let changes: [fn(&Path); 4] = [
            |_| {},
            |path| std::fs::remove_file(path).unwrap(),
            |path| {
                std::fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink("/etc", path).unwrap();
            },
            |path| std::fs::remove_dir_all(path.parent().unwrap()).unwrap(),
        ];
        for (index, change) in changes.iter().enumerate() {
            change(&path);
            for is_made in [true, false] {
                assert_eq!(link(&kubelet).unwrap(), is_made, "change {index}");
                assert_eq!(std::fs::read_link(&path).unwrap(), Path::new(TARGET));
            }
        }
    }
}

//! Real files, each test in a mount namespace of its own. They need root.

use super::*;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::event::{Timespec, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::host::watch::Watch;
use crate::sys::own_mounts;

const NAME: &str = "docker.io";
const HOSTS_PATH: &str = "/run/osbuild/registries/docker.io/hosts.toml";
const CA_PATH: &str = "/run/osbuild/registries/docker.io/ca.crt";
const FOLDER: &str = "/run/osbuild/registries/docker.io";

/// Runs a test on a thread where `/run` is as on a node.
pub fn on_a_node(work: impl FnOnce(&mut Registries) + Send) {
    let inside = || {
        own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        mount("node", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).unwrap();
        work(&mut Registries::default());
    };
    let ended = std::thread::scope(|scope| scope.spawn(inside).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn wanted(registry: &str, words: &str) -> RegistryMirror {
    match Setting::parse(&format!("registry-mirror {registry} {words}")) {
        Ok(Setting::RegistryMirror(mirror)) => mirror,
        other => panic!("{words}: {other:?}"),
    }
}

fn apply(registries: &mut Registries, source: Source, words: &str) {
    registries.apply(source, &wanted(NAME, words)).unwrap();
}

fn withdraw(registries: &mut Registries, source: Source) {
    registries.withdraw(source, &RegistryName::parse(NAME).unwrap()).unwrap();
}

/// The source and value of each setting on the host.
fn observed(registries: &Registries) -> Vec<(Option<Source>, String)> {
    registries.observe().map(|one| (one.source, one.current)).collect()
}

#[test]
fn mirrors_are_files_that_go_with_the_setting() {
    on_a_node(|registries| {
        apply(registries, Source::Api, "mirror=https://a ca=MIIB");
        assert!(fs::read_to_string(HOSTS_PATH).unwrap().contains("https://a"));
        let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        assert_eq!(fs::read_to_string(CA_PATH).unwrap(), pem);
        assert_eq!(
            observed(registries),
            [(Some(Source::Api), "mirror=https://a ca=MIIB".to_owned())]
        );
        apply(registries, Source::Api, "mirror=https://a");
        assert!(fs::exists(HOSTS_PATH).unwrap() && !fs::exists(CA_PATH).unwrap());
        withdraw(registries, Source::Api);
        assert!(!fs::exists(FOLDER).unwrap());
        assert!(observed(registries).is_empty());
    });
}

#[test]
fn the_document_is_in_effect_where_no_request_is() {
    on_a_node(|registries| {
        apply(registries, Source::Document, "mirror=https://a");
        apply(registries, Source::Api, "mirror=https://b");
        assert!(fs::read_to_string(HOSTS_PATH).unwrap().contains("https://b"));
        withdraw(registries, Source::Api);
        let expected = (Some(Source::Document), "mirror=https://a".to_owned());
        assert_eq!(observed(registries), [expected]);
        withdraw(registries, Source::Document);
        assert!(!fs::exists(FOLDER).unwrap());
    });
}

#[test]
fn what_another_program_changes_is_written_again() {
    on_a_node(|registries| {
        apply(registries, Source::Api, "mirror=https://a");
        assert!(registries.hold().is_empty());
        let expected = fs::read_to_string(HOSTS_PATH).unwrap();
        let changes: [fn(); 5] = [
            || fs::write(HOSTS_PATH, "server = \"http://b\"\n").unwrap(),
            || fs::write(CA_PATH, "").unwrap(),
            || fs::remove_dir_all(FOLDER).unwrap(),
            || {
                fs::remove_file(HOSTS_PATH).unwrap();
                fs::create_dir(HOSTS_PATH).unwrap();
            },
            || {
                fs::remove_dir_all(FOLDER).unwrap();
                std::os::unix::fs::symlink("/etc", FOLDER).unwrap();
            },
        ];
        for (index, change) in changes.iter().enumerate() {
            change();
            assert_eq!(observed(registries)[0].1, "", "change {index}");
            assert_eq!(registries.hold().len(), 1, "change {index}");
            assert_eq!(fs::read_to_string(HOSTS_PATH).unwrap(), expected, "change {index}");
            assert!(!fs::exists(CA_PATH).unwrap(), "change {index}");
        }
    });
}

#[test]
fn a_folder_with_foreign_files_goes_as_well() {
    on_a_node(|registries| {
        apply(registries, Source::Api, "mirror=https://a");
        fs::write(format!("{FOLDER}/foreign.crt"), "").unwrap();
        withdraw(registries, Source::Api);
        assert!(!fs::exists(FOLDER).unwrap());
    });
}

#[test]
fn the_number_of_registries_is_bounded() {
    on_a_node(|registries| {
        for number in 0..MAX_REGISTRIES {
            let mirror = wanted(&format!("r{number}"), "mirror=https://a");
            registries.apply(Source::Api, &mirror).unwrap();
        }
        assert!(registries.apply(Source::Api, &wanted(NAME, "mirror=https://a")).is_err());
        assert!(registries.apply(Source::Document, &wanted("r0", "mirror=https://b")).is_ok());
        assert!(!fs::exists(FOLDER).unwrap());
    });
}

#[test]
fn what_cannot_be_written_leaves_the_former_mirrors() {
    on_a_node(|registries| {
        apply(registries, Source::Api, "mirror=https://a");
        let full = "tmpfs cannot grow";
        mount(full, REGISTRIES, "tmpfs", MountFlags::RDONLY, None).unwrap();
        let refused = registries.apply(Source::Api, &wanted(NAME, "mirror=https://b"));
        assert!(refused.is_err());
        let held: Vec<_> = registries.of(Source::Api).collect();
        assert_eq!(held, [Setting::RegistryMirror(wanted(NAME, "mirror=https://a"))]);
        let error = registries.observe().next().unwrap().error;
        assert!(error.contains("Read-only"), "{error}");
    });
}

#[test]
fn a_change_by_another_program_is_reported() {
    on_a_node(|registries| {
        fs::create_dir_all("/run/osbuild/ntp").unwrap();
        let watch = Watch::start().unwrap();
        let is_reported = || {
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut watch.polled()[..1], Some(&at_once)).unwrap() > 0
        };
        apply(registries, Source::Api, "mirror=https://a");
        assert!(is_reported());
        let changes: [fn(); 3] = [
            || fs::write(HOSTS_PATH, "").unwrap(),
            || fs::remove_dir_all(FOLDER).unwrap(),
            || fs::rename(REGISTRIES, "/run/osbuild/elsewhere").unwrap(),
        ];
        for (index, change) in changes.iter().enumerate() {
            watch.clear();
            registries.hold();
            // Its own changes are reported, too.
            watch.clear();
            assert!(!is_reported(), "change {index}");
            change();
            assert!(is_reported(), "change {index}");
        }
    });
}

pub fn credential(words: &str) -> RegistryCredential {
    match Setting::parse(&format!("registry-credential {words}")) {
        Ok(Setting::RegistryCredential(one)) => one,
        other => panic!("{words}: {other:?}"),
    }
}

fn mode(path: &str) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// `hunter2`, and what a registry gets for the user `a` with this password.
const PASSWORD: &str = "aHVudGVyMg==";
const BASIC: &str = "Basic YTpodW50ZXIy";

#[test]
fn credentials_are_in_files_that_root_alone_reads() {
    on_a_node(|registries| {
        apply(registries, Source::Api, "mirror=https://m.example");
        assert_eq!(mode(HOSTS_PATH), 0o644);
        let one = credential(&format!("docker.io user=a password={PASSWORD}"));
        registries.apply_credential(Source::Api, &one).unwrap();
        assert!(fs::read_to_string(HOSTS_PATH).unwrap().contains(BASIC));
        assert_eq!(mode(HOSTS_PATH), 0o600);
        let of_mirror = credential("m.example token=t");
        registries.apply_credential(Source::Document, &of_mirror).unwrap();
        let text = fs::read_to_string(HOSTS_PATH).unwrap();
        assert_eq!(text.matches("Authorization").count(), 2);
        let own = "/run/osbuild/registries/m.example/hosts.toml";
        assert_eq!(mode(own), 0o600, "it may be a registry, too");

        registries.withdraw_credential(Source::Api, one.registry()).unwrap();
        withdraw(registries, Source::Api);
        assert!(!fs::exists(FOLDER).unwrap() && fs::exists(own).unwrap());
        registries.withdraw_credential(Source::Document, of_mirror.registry()).unwrap();
        assert!(!fs::exists(own).unwrap());
        assert_eq!(registries.observe().count(), 0);
    });
}

#[test]
fn what_another_program_changes_of_credentials_is_put_back_and_never_shown() {
    on_a_node(|registries| {
        let one = credential(&format!("docker.io user=a password={PASSWORD}"));
        registries.apply_credential(Source::Api, &one).unwrap();
        let shown = "user=a password=(hidden)".to_owned();
        assert_eq!(observed(registries), [(Some(Source::Api), shown)]);
        let changes: [fn(); 3] = [
            || fs::write(HOSTS_PATH, "server = \"https://thief.example\"\n").unwrap(),
            || fs::set_permissions(HOSTS_PATH, fs::Permissions::from_mode(0o644)).unwrap(),
            || fs::remove_dir_all(FOLDER).unwrap(),
        ];
        for change in changes {
            change();
            assert_eq!(observed(registries)[0].1, "");
            let lines = registries.hold();
            assert_eq!(lines.len(), 1);
            assert!(!lines[0].contains("hunter2") && !lines[0].contains("YTpo"), "{lines:?}");
            assert!(fs::read_to_string(HOSTS_PATH).unwrap().contains(BASIC));
            assert_eq!(mode(HOSTS_PATH), 0o600);
        }
    });
}

#[test]
fn credentials_that_cannot_be_written_leave_the_former_ones() {
    on_a_node(|registries| {
        let [former, newer] = ["docker.io token=a", "docker.io token=b"].map(credential);
        registries.apply_credential(Source::Api, &former).unwrap();
        mount("full", REGISTRIES, "tmpfs", MountFlags::RDONLY, None).unwrap();
        assert!(registries.apply_credential(Source::Api, &newer).is_err());
        let held: Vec<_> = registries.of(Source::Api).collect();
        assert_eq!(held, [Setting::RegistryCredential(former)]);
        for number in 1..MAX_CREDENTIALS {
            let name = RegistryName::parse(&format!("r{number}")).unwrap();
            registries.credentials.insert(name, Held::default());
        }
        let one_more = registries.apply_credential(Source::Api, &credential("a token=b"));
        assert!(one_more.unwrap_err().reason.contains("already"));
    });
}

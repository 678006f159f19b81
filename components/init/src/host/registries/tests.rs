//! Real files, each test in a mount namespace of its own. They need root.

use super::*;

use std::fs;

use rustix::event::{Timespec, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::host::watch::Watch;
use crate::sys::own_mounts;

const NAME: &str = "docker.io";
const HOSTS_PATH: &str = "/run/osbuild/registries/docker.io/hosts.toml";
const CA_PATH: &str = "/run/osbuild/registries/docker.io/ca.crt";
const FOLDER: &str = "/run/osbuild/registries/docker.io";

/// Runs a test on a thread where `/run` is as on a node.
fn on_a_node(work: impl FnOnce(&mut Registries) + Send) {
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
        assert_eq!(held, [wanted(NAME, "mirror=https://a")]);
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

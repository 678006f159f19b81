//! Looks at repositories: those that are as they should be, and those that somebody has tampered
//! with.

mod world;

use jiff::SignedDuration;
use osbuild_protocol::{Contents, SlotState, SlotStatus, Slots, SlotsStatus, StartReason};
use osbuild_signatures::authenticode;
use osbuild_signatures::efi::Listed;
use osbuild_slots::Header;
use updater::look::Look;
use world::{Certified, Keys, Manner, Release, Repository, Web, World, uki};

/// The look must fail with this word, and nothing may have been asked of `init`.
#[track_caller]
fn refuses(world: &World, folder: &std::path::Path, manner: Manner, word: &str) {
    let failure = world.look_at(folder, manner).expect_err(word).to_string();
    assert!(failure.contains(word), "{failure}");
    assert!(world.init.verbs().is_empty(), "{:?}", world.init.verbs());
}

/// The look must fail with this word when the slot is taken already; nothing of it counts.
#[track_caller]
fn leaves_the_slot_empty(world: &World, folder: &std::path::Path, manner: Manner, word: &str) {
    let failure = world.look_at(folder, manner).expect_err(word).to_string();
    assert!(failure.contains(word), "{failure}");
    assert_eq!(world.init.verbs(), ["slot"]);
    assert!(Header::parse(&world.init.slot()).is_err());
}

#[track_caller]
fn installs(world: &World, release: &Release, look: Look) {
    assert_eq!(look, Look::Reboots(release.version.to_string()));
    assert_eq!(world.init.verbs(), ["slot", "boot-program", "try", "reboot"]);
    let slot = world.init.slot();
    let header = Header::parse(&slot).unwrap();
    assert_eq!(
        (header.length, header.version),
        (release.node.len() as u64, release.version.to_string())
    );
    assert!(slot[4096..].starts_with(&release.node));
    assert!(world.init.boot_program() == release.boot);
}

#[test]
fn a_release_is_written_and_the_node_reboots_into_it() {
    let world = World::new();
    let release = Release::new(2);
    let folder = world.publish(&release);
    installs(&world, &release, world.look_at(&folder, Manner::Honest).unwrap());
}

#[test]
fn a_release_in_a_folder_is_as_good_as_one_on_a_server() {
    let world = World::new();
    let release = Release::new(2);
    let folder = world.publish(&release);
    installs(&world, &release, world.look(&format!("file://{}/", folder.display())).unwrap());
}

#[test]
fn by_https_a_server_is_believed_that_a_certificate_of_the_folder_speaks_for_and_no_other() {
    let world = World::new();
    let release = Release::new(2);
    let folder = world.publish(&release);
    let web = |name: &str, address: &str| Web::start(&folder, world.folder(name), address);
    let (ours, elsewhere, others) =
        (web("ours", "127.0.0.1"), web("elsewhere", "127.0.0.2"), web("others", "127.0.0.1"));
    let trusted = world.folder("certificates");
    std::fs::create_dir(&trusted).unwrap();
    for (name, web) in [("ours.crt", &ours), ("elsewhere.crt", &elsewhere)] {
        std::fs::copy(web.authority(), trusted.join(name)).unwrap();
    }
    // The CA of the others has the same name as ours.
    for (web, word) in [(&others, "BadSignature"), (&elsewhere, "not valid for")] {
        let said = world.run(&web.url(), &trusted);
        assert!(said.contains("invalid peer certificate") && said.contains(word), "{said}");
        assert!(world.init.verbs().is_empty(), "{:?}", world.init.verbs());
    }
    assert_eq!(world.run(&ours.url(), &trusted), "2 is installed: the node reboots into it");
    installs(&world, &release, Look::Reboots("2".to_owned()));
}

/// A node of this release, whose other slot is empty.
fn slots() -> SlotsStatus {
    let slot = |name: &str, contents, state| SlotStatus { name: name.to_owned(), contents, state };
    let release =
        osbuild_protocol::Release { version: "1".to_owned(), sha256: "000000000000".to_owned() };
    SlotsStatus {
        why: "good".to_owned(),
        started: StartReason::Good,
        passed: None,
        running: slot("SLOT-A", Contents::Release(release), SlotState::Good),
        other: Some(slot("SLOT-B", Contents::Empty, SlotState::NotBootable)),
        is_outage: false,
    }
}

#[test]
fn a_node_whose_init_reports_fields_is_updated_too() {
    let world = World::new();
    world.init.reports(Slots::Known(slots()));
    let release = Release::new(2);
    let folder = world.publish(&release);
    installs(&world, &release, world.look_at(&folder, Manner::Honest).unwrap());
}

#[test]
fn a_node_with_an_unknown_slot_state_waits() {
    let world = World::new();
    let folder = world.publish(&Release::new(2));
    let mut unknown = slots();
    unknown.other.as_mut().unwrap().state = SlotState::Unknown;
    for slots in [Slots::Known(unknown), Slots::Unknown] {
        world.init.reports(slots);
        assert!(matches!(world.look_at(&folder, Manner::Honest), Ok(Look::Waits(_))));
    }
    let version_0 = "SLOT-A, version 1, sha256 000000000000: ";
    for (running, other) in [("frozen", "empty: not to be booted"), ("good", "empty: frozen")] {
        world.init.says(&format!("{version_0}{running}"), &format!("SLOT-B, {other}"));
        assert!(matches!(world.look_at(&folder, Manner::Honest), Ok(Look::Waits(_))), "{running}");
    }
    assert!(world.init.verbs().is_empty());
}

#[test]
fn what_runs_already_is_left_alone() {
    let world = World::new();
    let folder = world.publish(&Release::new(1));
    assert!(matches!(world.look_at(&folder, Manner::Honest), Ok(Look::Rests(_))));
    assert!(world.init.verbs().is_empty());
}

#[test]
fn a_node_on_trial_waits() {
    let world = World::new();
    world.init.says(
        "SLOT-A, version 1, sha256 000000000000: on trial, tries left: 2",
        "SLOT-B, empty: not to be booted",
    );
    let folder = world.publish(&Release::new(2));
    assert!(matches!(world.look_at(&folder, Manner::Honest), Ok(Look::Waits(_))));
    assert!(world.init.verbs().is_empty());
}

#[test]
fn expired() {
    let world = World::new();
    let folder =
        world.publish(&Release { valid: SignedDuration::from_secs(-60), ..Release::new(2) });
    refuses(&world, &folder, Manner::Honest, "expired");
}

#[test]
fn rolled_back() {
    let world = World::new();
    let (old, new) = (world.publish(&Release::new(2)), world.publish(&Release::new(3)));
    world
        .init
        .says("SLOT-A, version 3, sha256 000000000000: good", "SLOT-B, empty: not to be booted");
    assert!(matches!(world.look_at(&new, Manner::Honest), Ok(Look::Rests(_))));
    refuses(&world, &old, Manner::Honest, "version");
}

#[test]
fn a_key_that_was_replaced_is_worth_nothing_any_more() {
    let world = World::new();
    let new = world.keys.rotated(&world.folder("new keys"));
    world
        .init
        .says("SLOT-A, version 2, sha256 000000000000: good", "SLOT-B, empty: not to be booted");
    assert!(matches!(
        world.look_at(&world.publish_by(&new, &Release::new(2)), Manner::Honest),
        Ok(Look::Rests(_))
    ));
    // Whoever has stolen the old one hides that there is another.
    refuses(&world, &world.publish(&Release::new(3)), Manner::Honest, "keys");
}

#[test]
fn rolled_back_after_a_key_was_replaced() {
    let world = World::new();
    let new = world.keys.rotated(&world.folder("new keys"));
    let [old, newer] = [2, 3].map(|version| world.publish_by(&new, &Release::new(version)));
    world
        .init
        .says("SLOT-A, version 3, sha256 000000000000: good", "SLOT-B, empty: not to be booted");
    assert!(matches!(world.look_at(&newer, Manner::Honest), Ok(Look::Rests(_))));
    refuses(&world, &old, Manner::Honest, "older");
}

#[test]
fn mix_and_match() {
    let world = World::new();
    let (old, new) = (world.publish(&Release::new(2)), world.publish(&Release::new(3)));
    for role in ["snapshot", "targets"] {
        let (from, to) = (
            old.join(format!("metadata/2.{role}.json")),
            new.join(format!("metadata/3.{role}.json")),
        );
        let whole = std::fs::read(&to).unwrap();
        std::fs::copy(from, &to).unwrap();
        refuses(&world, &new, Manner::Honest, role);
        std::fs::write(to, whole).unwrap();
    }
    // And it was this that was wrong with it.
    assert!(matches!(world.look_at(&new, Manner::Honest), Ok(Look::Reboots(_))));
}

#[test]
fn wrong_key() {
    let world = World::new();
    let other = Keys::new(&world.folder("other keys"));
    let folder = world.folder("repository");
    Repository::of(&folder, &other).write(&Release::new(2));
    refuses(&world, &folder, Manner::Honest, "signature");
}

#[test]
fn endless_data() {
    for role in ["2.root.json", "timestamp.json", "snapshot.json", "targets.json", "stable"] {
        let world = World::new();
        let folder = world.publish(&Release::new(2));
        if role == "2.root.json" {
            std::fs::copy(folder.join("metadata/1.root.json"), folder.join("metadata/2.root.json"))
                .unwrap();
        }
        refuses(&world, &folder, Manner::Endless(role), "axi");
    }
    let world = World::new();
    leaves_the_slot_empty(
        &world,
        &world.publish(&Release::new(2)),
        Manner::Endless("node.efi"),
        "axi",
    );
}

#[test]
fn slow_server() {
    for role in ["timestamp.json", "targets.json"] {
        for manner in [Manner::Slow(role), Manner::Silent(role)] {
            let world = World::new();
            refuses(&world, &world.publish(&Release::new(2)), manner, "bytes a second");
        }
    }
    let world = World::new();
    leaves_the_slot_empty(
        &world,
        &world.publish(&Release::new(2)),
        Manner::Slow("node.efi"),
        "bytes a second",
    );
}

#[test]
fn damaged_on_the_way() {
    let world = World::new();
    leaves_the_slot_empty(
        &world,
        &world.publish(&Release::new(2)),
        Manner::Flipped("node.efi"),
        "node.efi",
    );
    let world = World::new();
    leaves_the_slot_empty(
        &world,
        &world.publish(&Release::new(2)),
        Manner::Short("node.efi"),
        "node.efi",
    );
    let world = World::new();
    refuses(&world, &world.publish(&Release::new(2)), Manner::Flipped("boot.efi"), "boot.efi");
}

#[test]
fn an_older_security_epoch_is_refused() {
    let world = World::new();
    refuses(
        &world,
        &world.publish(&Release { security_epoch: 1, ..Release::new(2) }),
        Manner::Honest,
        "epoch",
    );
}

#[test]
fn a_uki_of_another_security_epoch_than_its_release_is_refused() {
    let without = || std::fs::read("/usr/lib/systemd/boot/efi/linuxx64.efi.stub").unwrap();
    for node in [uki(1, b"a root"), uki(3, b"a root"), without()] {
        let world = World::new();
        leaves_the_slot_empty(
            &world,
            &world.publish(&Release { node, ..Release::new(2) }),
            Manner::Honest,
            "epoch",
        );
    }
}

#[test]
fn a_boot_program_of_another_security_epoch_than_its_release_is_refused() {
    for boot in [1, 3].map(Release::boot_program) {
        let world = World::new();
        refuses(
            &world,
            &world.publish(&Release { boot, ..Release::new(2) }),
            Manner::Honest,
            "boot.efi is of security epoch",
        );
    }
}

#[test]
fn a_server_without_the_uki_does_not_cost_the_node_its_other_slot() {
    let world = World::new();
    let folder = world.publish(&Release::new(2));
    let targets = folder.join("targets").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let node =
        targets.into_iter().find(|path| path.to_str().unwrap().ends_with("node.efi")).unwrap();
    std::fs::remove_file(node).unwrap();
    refuses(&world, &folder, Manner::Honest, "node.efi");
}

#[test]
fn a_release_that_is_larger_than_the_slot_is_refused() {
    let world = World::new();
    let node = vec![0; (1 << 20) - 4095];
    leaves_the_slot_empty(
        &world,
        &world.publish(&Release { node, ..Release::new(2) }),
        Manner::Honest,
        "room",
    );
}

#[test]
fn where_signatures_are_enforced_a_program_needs_one_that_the_firmware_trusts() {
    let ours = Certified::new(2020..2100);
    let world = World::new();
    ours.enrolled(&world.firmware(), &[]);
    let plain = Release::new(2);
    let signed = Release {
        node: ours.signed(&plain.node),
        boot: ours.signed(&plain.boot),
        ..Release::new(3)
    };
    refuses(&world, &world.publish(&plain), Manner::Honest, "boot.efi");
    let half = Release { boot: ours.signed(&plain.boot), ..plain };
    leaves_the_slot_empty(&world, &world.publish(&half), Manner::Honest, "node.efi");

    let world = World::new();
    ours.enrolled(&world.firmware(), &[]);
    installs(&world, &signed, world.look_at(&world.publish(&signed), Manner::Honest).unwrap());
}

#[test]
fn what_the_firmware_has_in_dbx_is_refused_though_db_trusts_it() {
    let ours = Certified::new(2020..2100);
    let plain = Release::new(2);
    let release =
        Release { node: ours.signed(&plain.node), boot: ours.signed(&plain.boot), ..plain };
    let image = |program: &[u8]| Listed::Image(authenticode::digest(program).unwrap());
    for revoked in [ours.listed(), image(&release.boot)] {
        let world = World::new();
        ours.enrolled(&world.firmware(), &[revoked]);
        refuses(&world, &world.publish(&release), Manner::Honest, "verify boot.efi: it is revoked");
    }
    let world = World::new();
    ours.enrolled(&world.firmware(), &[image(&release.node)]);
    leaves_the_slot_empty(
        &world,
        &world.publish(&release),
        Manner::Honest,
        "verify node.efi: it is revoked",
    );
}

#[test]
fn another_key_and_an_expired_certificate_are_refused() {
    let (ours, other, old) =
        (Certified::new(2020..2100), Certified::new(2020..2100), Certified::new(2015..2016));
    for (enrolled, signer, word) in [(&ours, &other, "boot.efi"), (&old, &old, "not valid today")] {
        let world = World::new();
        enrolled.enrolled(&world.firmware(), &[]);
        let plain = Release::new(2);
        let release =
            Release { node: signer.signed(&plain.node), boot: signer.signed(&plain.boot), ..plain };
        refuses(&world, &world.publish(&release), Manner::Honest, word);
    }
}

#[test]
fn what_another_pod_leaves_in_the_folder_of_what_was_seen_holds_up_no_update() {
    let world = World::new();
    let release = Release::new(2);
    let folder = world.publish(&release);
    for name in ["timestamp.json", "snapshot.json", "latest_known_time.json"] {
        fifo(&world.folder("seen").join(name));
    }
    std::os::unix::fs::symlink("/dev/zero", world.folder("seen").join("targets.json")).unwrap();
    installs(&world, &release, world.look_at(&folder, Manner::Honest).unwrap());
}

#[test]
fn a_fifo_in_the_folder_of_a_repository_is_an_error_and_not_waited_for() {
    let world = World::new();
    let folder = world.publish(&Release::new(2));
    std::fs::remove_file(folder.join("metadata/timestamp.json")).unwrap();
    fifo(&folder.join("metadata/timestamp.json"));
    let failure = world.look(&format!("file://{}/", folder.display())).unwrap_err().to_string();
    assert!(failure.contains("it is no file"), "{failure}");
}

fn fifo(path: &std::path::Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
}

//! Checks honest repositories, and repositories and servers that an attacker controls.

mod world;

use jiff::SignedDuration;
use osbuild_protocol::{Contents, SlotState, SlotStatus, Slots, SlotsStatus, StartReason};
use osbuild_signatures::authenticode;
use osbuild_signatures::efi::Listed;
use osbuild_slots::Header;
use updater::check::{CheckOutcome, Updater, check, check_or_resume};
use world::{ApiServer, Certified, Fault, Keys, Release, Repository, Web, World, uki};

/// The check must fail with this word, and must have requested nothing from `init`.
#[track_caller]
fn refuses(world: &World, folder: &std::path::Path, fault: Fault, word: &str) {
    let failure = world.check_server(folder, fault).expect_err(word).to_string();
    assert!(failure.contains(word), "{failure}");
    assert!(world.init.verbs().is_empty(), "{:?}", world.init.verbs());
}

/// The check must fail with this word after it opened the slot, which stays without a header.
#[track_caller]
fn leaves_the_slot_empty(world: &World, folder: &std::path::Path, fault: Fault, word: &str) {
    let failure = world.check_server(folder, fault).expect_err(word).to_string();
    assert!(failure.contains(word), "{failure}");
    assert_eq!(world.init.verbs(), ["slot"]);
    assert!(Header::parse(&world.init.slot()).is_err());
}

/// The check must wait.
#[track_caller]
fn waits(world: &World, folder: &std::path::Path) {
    let outcome = world.check_server(folder, Fault::None);
    assert!(matches!(outcome, Ok(CheckOutcome::Waits(_))), "{outcome:?}");
}

/// The check must have nothing to do.
#[track_caller]
fn is_idle(world: &World, folder: &std::path::Path) {
    let outcome = world.check_server(folder, Fault::None);
    assert!(matches!(outcome, Ok(CheckOutcome::Idle(_))), "{outcome:?}");
}

#[track_caller]
fn installs(world: &World, release: &Release, outcome: CheckOutcome) {
    assert_eq!(outcome, CheckOutcome::Reboots(release.version.to_string()));
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
    installs(&world, &release, world.check_server(&folder, Fault::None).unwrap());
}

#[test]
fn a_release_in_a_folder_is_as_good_as_one_on_a_server() {
    let world = World::new();
    let release = Release::new(2);
    let folder = world.publish(&release);
    installs(&world, &release, world.check(&format!("file://{}/", folder.display())).unwrap());
}

#[test]
fn an_https_server_needs_a_certificate_from_a_trusted_authority() {
    let world = World::new();
    let release = Release::new(2);
    let folder = world.publish(&release);
    let web = |name: &str, address: &str| Web::start(&folder, world.folder(name), address);
    let (ours, elsewhere, others) =
        (web("ours", "127.0.0.1"), web("elsewhere", "127.0.0.2"), web("others", "127.0.0.1"));
    // Those of the image, and those of settings.
    let folders = ["certificates", "trusted-roots"].map(|name| world.folder(name));
    for (folder, web) in folders.iter().zip([&elsewhere, &ours]) {
        std::fs::create_dir(folder).unwrap();
        std::fs::copy(web.authority(), folder.join("roots.crt")).unwrap();
    }
    let trusted = std::env::join_paths(&folders).unwrap();
    let trusted = std::path::Path::new(&trusted);
    // The other CA has the same name as ours.
    for (web, word) in [(&others, "BadSignature"), (&elsewhere, "not valid for")] {
        let line = world.run(&web.url(), trusted);
        assert!(line.contains("invalid peer certificate") && line.contains(word), "{line}");
        assert!(world.init.verbs().is_empty(), "{:?}", world.init.verbs());
    }
    assert_eq!(world.run(&ours.url(), trusted), "2 is installed: the node reboots into it");
    installs(&world, &release, CheckOutcome::Reboots("2".to_owned()));
}

/// The check must wait with this line, and must have requested nothing from `init`.
#[track_caller]
fn is_held(world: &World, release: &Release, word: &str) {
    let outcome = world.check_server(&world.publish(release), Fault::None).unwrap();
    let line = match outcome {
        CheckOutcome::Held(line) if word.contains("stopped") => line,
        CheckOutcome::AwaitsTurn(line) if !word.contains("stopped") => line,
        other => panic!("{other:?}"),
    };
    assert!(line.starts_with("2 ") && line.contains(word), "{line}");
    assert!(world.init.verbs().is_empty(), "{:?}", world.init.verbs());
}

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// A window that was open for an hour two days ago.
fn closed_window() -> String {
    let day = (jiff::Timestamp::now() - HOUR * 48).to_zoned(jiff::tz::TimeZone::UTC);
    format!("windows = [{{ days = ['{}'], start = '12:00', hours = 1 }}]", day.strftime("%a"))
        .to_lowercase()
}

#[test]
fn a_node_waits_for_its_wave_for_a_window_and_for_its_publisher() {
    let (new, world) = (|| Release::new(2), World::new);
    is_held(&world(), &new().rolled_out("", HOUR), "waits for its wave, which begins at 20");
    let late = "waves = [{ nodes = '0.01%' }, { nodes = '100%', after-hours = 2 }]";
    is_held(&world(), &new().rolled_out(late, -HOUR), "waits for its wave");
    is_held(&world(), &new().rolled_out(&closed_window(), -HOUR), "a maintenance window, which");
    is_held(&world(), &new().rolled_out("waves = [{ nodes = '0.01%' }]", -HOUR), "to 0.01% of");
}

#[test]
fn a_node_whose_wave_has_begun_updates() {
    let world = World::new();
    let release = Release::new(2).rolled_out("waves = [{ nodes = '100%' }]", -HOUR);
    let folder = world.publish(&release);
    installs(&world, &release, world.check_server(&folder, Fault::None).unwrap());
}

#[test]
fn a_release_that_is_installed_is_not_booted_after_a_stop() {
    let world = World::new();
    let mut release = Release::new(2).rolled_out("", -HOUR);
    release.rollout = release.rollout.map(osbuild_rollout::Rollout::stop);
    is_held(&world, &release, "was stopped by its publisher");
    world.init.reports(Slots::Known(holds_version_2(&release, SlotState::NotBootable)));
    is_held(&world, &release, "was stopped by its publisher");
}

#[test]
fn in_a_cluster_only_a_stop_counts() {
    let in_cluster = || {
        let world = World::new();
        // Nothing listens there: the node cannot ask for its reboot.
        world.joins("https://127.0.0.1:1");
        world
    };
    let (world, release) = (in_cluster(), Release::new(2).rolled_out(&closed_window(), HOUR));
    let outcome = world.check_server(&world.publish(&release), Fault::None);
    assert!(outcome.unwrap_err().to_string().contains("127.0.0.1"));
    assert_eq!(world.init.verbs(), ["slot", "boot-program"]);
    let stopped = release.rollout.clone().map(osbuild_rollout::Rollout::stop);
    is_held(&in_cluster(), &Release { rollout: stopped, ..release }, "was stopped");
}

const WANTED: &str = "osbuild.dev/reboot-wanted";
const GRANTED: &str = "osbuild.dev/reboot-granted";

#[test]
fn a_node_asks_its_cluster_and_reboots_without_the_server_of_releases() {
    let (world, api) = (World::new(), ApiServer::start(&[]));
    world.joins(api.url());
    let release = Release::new(2);
    let folder = world.publish(&release);
    let updater = world.updater(&format!("file://{}/", folder.display()));
    let Ok(CheckOutcome::Asks(document)) = world.wait(check(&updater)) else { panic!() };
    assert_eq!(api.annotations()[WANTED], "2");
    world.init.reports(Slots::Known(holds_version_2(&release, SlotState::NotBootable)));
    let mut asked = Some(*document);
    std::fs::remove_dir_all(&folder).unwrap();
    world.joins("http://127.0.0.1:1");
    assert!(world.wait(check_or_resume(&updater, &mut asked)).is_err());
    assert!(asked.is_some(), "it tries again");
    world.joins(api.url());
    let Ok(CheckOutcome::Asks(document)) = world.wait(check_or_resume(&updater, &mut asked)) else {
        panic!("it is not granted yet")
    };
    asked = Some(*document);
    api.annotate(GRANTED, "2");
    let reboots = world.wait(check_or_resume(&updater, &mut asked)).unwrap();
    assert_eq!((reboots, asked), (CheckOutcome::Reboots("2".to_owned()), None));
    assert!(world.wait(check_or_resume(&updater, &mut None)).is_err());
    assert_eq!(world.init.verbs(), ["slot", "boot-program", "try", "reboot"]);
}

#[test]
fn a_newer_release_that_fails_is_reported_although_the_node_waits() {
    let older_epoch = Release { security_epoch: 1, ..Release::new(3) };
    let refusal = "error: it is too old [code=3]\n";
    for (newer, refusal, word) in
        [(Release::new(3), Some(refusal), "it is too old"), (older_epoch, None, "security epoch 1")]
    {
        let (world, api) = (World::new(), ApiServer::start(&[]));
        world.joins(api.url());
        let release = Release::new(2);
        let check_of =
            |release| world.updater(&format!("file://{}/", world.publish(release).display()));
        let Ok(CheckOutcome::Asks(document)) = world.wait(check(&check_of(&release))) else {
            panic!("it is not granted yet")
        };
        world.init.reports(Slots::Known(holds_version_2(&release, SlotState::NotBootable)));
        api.annotate(GRANTED, "2");
        world.init.refuses_boot_programs(refusal);
        let (updater, mut asked) = (check_of(&newer), Some(*document));
        let failure = world.wait(check_or_resume(&updater, &mut asked)).unwrap_err().to_string();
        assert!(failure.contains(word), "{failure}");
        assert_eq!(asked, None, "the channel does not offer it any more");
        assert_eq!(api.annotations(), [].into(), "the node asks for it no more");
        assert!(!world.init.verbs().contains(&"reboot".to_owned()), "{:?}", world.init.verbs());
    }
}

#[test]
fn a_node_reports_its_result_without_another_check() {
    let (world, api) = (World::new(), ApiServer::start(&[(WANTED, "2"), (GRANTED, "2")]));
    world.joins(api.url());
    let updater = world.updater("file:///missing/");
    let mut trial = holds_version_2(&Release::new(2), SlotState::OnTrial { tries_left: 2 });
    trial.other = Some(std::mem::replace(&mut trial.running, trial.other.take().unwrap()));
    world.init.reports(Slots::Known(trial.clone()));
    assert!(world.wait(updater.has_to_report()), "it is on trial");
    assert_eq!(api.annotations()[WANTED], "2");
    trial.running.state = SlotState::Good;
    world.init.reports(Slots::Known(trial));
    assert!(!world.wait(updater.has_to_report()));
    let result = ("osbuild.dev/reboot-result".to_owned(), "2 succeeded".to_owned());
    assert_eq!(api.annotations(), [result].into());
    world.joins("http://127.0.0.1:1");
    assert!(world.wait(updater.has_to_report()), "the cluster cannot be asked");
}

#[test]
fn a_person_asks_for_a_check_while_the_cluster_does_not_answer() {
    let world = World::new();
    // It accepts connections, and answers none.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.joins(&format!("http://{}", silent.local_addr().unwrap()));
    world.init.asks_for_check();
    let updater = world.updater("file:///missing/");
    let begun = std::time::Instant::now();
    assert!(world.wait(updater.is_asked_to_check(std::time::Duration::from_secs(60))));
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}

#[test]
fn a_node_that_joins_its_cluster_again_does_not_reboot_without_a_grant() {
    let (world, release) = (World::new(), Release::new(2));
    let folder = world.publish(&release);
    for name in ["ca.crt", "client.pem"] {
        std::fs::write(world.folder(name), "").unwrap();
    }
    let failure = world.check_server(&folder, Fault::None).unwrap_err().to_string();
    assert!(failure.contains("joins its cluster again"), "{failure}");
    assert!(!world.init.verbs().contains(&"reboot".to_owned()), "{:?}", world.init.verbs());
    std::fs::remove_file(world.folder("client.pem")).unwrap();
    let first_time = world.check_server(&folder, Fault::None).unwrap();
    assert_eq!(first_time, CheckOutcome::Reboots("2".to_owned()));
}

#[test]
fn a_release_that_init_refuses_is_not_downloaded_again_and_again() {
    let (world, release) = (World::new(), Release::new(2));
    world.init.refuses_boot_programs(Some("error: it is too old [code=3]\n"));
    let updater = world.updater(&format!("file://{}/", world.publish(&release).display()));
    for _ in 0..3 {
        let failure = world.wait(check(&updater)).unwrap_err().to_string();
        assert!(failure.contains("it is too old"), "{failure}");
    }
    assert_eq!(world.init.verbs(), ["slot"]);
    let next = world.publish(&Release::new(3));
    let updater = Updater {
        refused: updater.refused,
        ..world.updater(&format!("file://{}/", next.display()))
    };
    assert!(world.wait(check(&updater)).is_err());
    assert_eq!(world.init.verbs(), ["slot"; 2], "another release is tried");
}

#[test]
fn a_release_that_a_busy_init_refuses_is_downloaded_again() {
    let (world, release) = (World::new(), Release::new(2));
    world.init.refuses_boot_programs(Some("error: `try-slot` is under way [code=4]\n"));
    let updater = world.updater(&format!("file://{}/", world.publish(&release).display()));
    let failure = world.wait(check(&updater)).unwrap_err().to_string();
    assert!(failure.contains("is under way"), "{failure}");
    world.init.refuses_boot_programs(None);
    let reboots = world.wait(check(&updater)).unwrap();
    assert_eq!(reboots, CheckOutcome::Reboots("2".to_owned()));
}

/// The slots of a node that runs version 1, whose other slot holds version 2.
fn holds_version_2(release: &Release, state: SlotState) -> SlotsStatus {
    let mut slots = slots();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &release.node);
    let sha256 = digest.as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    let written = osbuild_protocol::Release { version: "2".to_owned(), sha256 };
    let name = "SLOT-B".to_owned();
    slots.other = Some(SlotStatus { name, contents: Contents::Release(written), state });
    slots
}

/// The slots of a node that runs version 1, whose other slot is empty.
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
fn a_node_whose_init_reports_fields_is_updated() {
    let world = World::new();
    world.init.reports(Slots::Known(slots()));
    let release = Release::new(2);
    let folder = world.publish(&release);
    installs(&world, &release, world.check_server(&folder, Fault::None).unwrap());
}

#[test]
fn a_node_with_an_unknown_slot_state_waits() {
    let world = World::new();
    let folder = world.publish(&Release::new(2));
    let mut unknown = slots();
    unknown.other.as_mut().unwrap().state = SlotState::Unknown;
    for slots in [Slots::Known(unknown), Slots::Unknown] {
        world.init.reports(slots);
        waits(&world, &folder);
    }
    let version_0 = "SLOT-A, version 1, sha256 000000000000: ";
    for (running, other) in [("frozen", "empty: not to be booted"), ("good", "empty: frozen")] {
        world.init.reports_version_0(&format!("{version_0}{running}"), &format!("SLOT-B, {other}"));
        waits(&world, &folder);
    }
    assert!(world.init.verbs().is_empty());
}

#[test]
fn the_running_version_is_not_installed_again() {
    let world = World::new();
    let folder = world.publish(&Release::new(1));
    is_idle(&world, &folder);
    assert!(world.init.verbs().is_empty());
}

#[test]
fn a_node_on_trial_waits() {
    let world = World::new();
    world.init.reports_version_0(
        "SLOT-A, version 1, sha256 000000000000: on trial, tries left: 2",
        "SLOT-B, empty: not to be booted",
    );
    let folder = world.publish(&Release::new(2));
    waits(&world, &folder);
    assert!(world.init.verbs().is_empty());
}

#[test]
fn expired_metadata_are_refused() {
    let world = World::new();
    let folder =
        world.publish(&Release { valid: SignedDuration::from_secs(-60), ..Release::new(2) });
    refuses(&world, &folder, Fault::None, "expired");
}

#[test]
fn older_metadata_are_refused() {
    let world = World::new();
    let (old, new) = (world.publish(&Release::new(2)), world.publish(&Release::new(3)));
    world.init.runs(3);
    is_idle(&world, &new);
    refuses(&world, &old, Fault::None, "version");
}

#[test]
fn a_replaced_key_is_refused() {
    let world = World::new();
    let new = world.keys.rotated(&world.folder("new keys"));
    world.init.runs(2);
    is_idle(&world, &world.publish_by(&new, &Release::new(2)));
    // An attacker with the old key hides the rotation.
    refuses(&world, &world.publish(&Release::new(3)), Fault::None, "keys");
}

#[test]
fn older_metadata_are_refused_after_a_key_rotation() {
    let world = World::new();
    let new = world.keys.rotated(&world.folder("new keys"));
    let [old, newer] = [2, 3].map(|version| world.publish_by(&new, &Release::new(version)));
    world.init.runs(3);
    is_idle(&world, &newer);
    refuses(&world, &old, Fault::None, "older");
}

#[test]
fn mixed_metadata_of_two_versions_are_refused() {
    let world = World::new();
    let (old, new) = (world.publish(&Release::new(2)), world.publish(&Release::new(3)));
    for role in ["snapshot", "targets"] {
        let (from, to) = (
            old.join(format!("metadata/2.{role}.json")),
            new.join(format!("metadata/3.{role}.json")),
        );
        let whole = std::fs::read(&to).unwrap();
        std::fs::copy(from, &to).unwrap();
        refuses(&world, &new, Fault::None, role);
        std::fs::write(to, whole).unwrap();
    }
    // The mixed file was the only thing wrong with the repository.
    assert!(matches!(world.check_server(&new, Fault::None), Ok(CheckOutcome::Reboots(_))));
}

#[test]
fn metadata_signed_by_another_key_are_refused() {
    let world = World::new();
    let other = Keys::new(&world.folder("other keys"));
    let folder = world.folder("repository");
    Repository::of(&folder, &other).write(&Release::new(2));
    refuses(&world, &folder, Fault::None, "signature");
}

#[test]
fn endless_data_are_refused() {
    for role in ["2.root.json", "timestamp.json", "snapshot.json", "targets.json", "stable"] {
        let world = World::new();
        let folder = world.publish(&Release::new(2));
        if role == "2.root.json" {
            std::fs::copy(folder.join("metadata/1.root.json"), folder.join("metadata/2.root.json"))
                .unwrap();
        }
        refuses(&world, &folder, Fault::Endless(role), "axi");
    }
    let world = World::new();
    leaves_the_slot_empty(
        &world,
        &world.publish(&Release::new(2)),
        Fault::Endless("node.efi"),
        "axi",
    );
}

#[test]
fn a_slow_server_is_given_up_on() {
    for role in ["timestamp.json", "targets.json"] {
        for fault in [Fault::Slow(role), Fault::Silent(role)] {
            let world = World::new();
            refuses(&world, &world.publish(&Release::new(2)), fault, "bytes per second");
        }
    }
    let world = World::new();
    leaves_the_slot_empty(
        &world,
        &world.publish(&Release::new(2)),
        Fault::Slow("node.efi"),
        "bytes per second",
    );
}

#[test]
fn damaged_files_are_refused() {
    let world = World::new();
    leaves_the_slot_empty(
        &world,
        &world.publish(&Release::new(2)),
        Fault::Flipped("node.efi"),
        "node.efi",
    );
    let world = World::new();
    leaves_the_slot_empty(
        &world,
        &world.publish(&Release::new(2)),
        Fault::Short("node.efi"),
        "node.efi",
    );
    let world = World::new();
    refuses(&world, &world.publish(&Release::new(2)), Fault::Flipped("boot.efi"), "boot.efi");
}

#[test]
fn an_older_security_epoch_is_refused() {
    let world = World::new();
    refuses(
        &world,
        &world.publish(&Release { security_epoch: 1, ..Release::new(2) }),
        Fault::None,
        "epoch",
    );
}

#[test]
fn a_uki_of_another_epoch_than_its_release_is_refused() {
    let without = || std::fs::read("/usr/lib/systemd/boot/efi/linuxx64.efi.stub").unwrap();
    for node in [uki(1, b"a root"), uki(3, b"a root"), without()] {
        let world = World::new();
        leaves_the_slot_empty(
            &world,
            &world.publish(&Release { node, ..Release::new(2) }),
            Fault::None,
            "epoch",
        );
    }
}

#[test]
fn a_boot_program_of_another_epoch_than_its_release_is_refused() {
    for boot in [1, 3].map(Release::boot_program) {
        let world = World::new();
        refuses(
            &world,
            &world.publish(&Release { boot, ..Release::new(2) }),
            Fault::None,
            "boot.efi has security epoch",
        );
    }
}

#[test]
fn a_missing_uki_leaves_the_other_slot_unchanged() {
    let world = World::new();
    let folder = world.publish(&Release::new(2));
    let targets = folder.join("targets").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let node =
        targets.into_iter().find(|path| path.to_str().unwrap().ends_with("node.efi")).unwrap();
    std::fs::remove_file(node).unwrap();
    refuses(&world, &folder, Fault::None, "node.efi");
}

#[test]
fn a_release_larger_than_the_slot_is_refused() {
    let world = World::new();
    let node = vec![0; (1 << 20) - 4095];
    leaves_the_slot_empty(
        &world,
        &world.publish(&Release { node, ..Release::new(2) }),
        Fault::None,
        "does not fit",
    );
}

#[test]
fn with_secure_boot_programs_need_a_signature_that_db_trusts() {
    let ours = Certified::new(2020..2100);
    let world = World::new();
    ours.enrolled(&world.firmware(), &[]);
    let plain = Release::new(2);
    let signed = Release {
        node: ours.signed(&plain.node),
        boot: ours.signed(&plain.boot),
        ..Release::new(3)
    };
    refuses(&world, &world.publish(&plain), Fault::None, "boot.efi");
    let half = Release { boot: ours.signed(&plain.boot), ..plain };
    leaves_the_slot_empty(&world, &world.publish(&half), Fault::None, "node.efi");

    let world = World::new();
    ours.enrolled(&world.firmware(), &[]);
    installs(&world, &signed, world.check_server(&world.publish(&signed), Fault::None).unwrap());
}

#[test]
fn a_program_in_dbx_is_refused_though_db_trusts_it() {
    let ours = Certified::new(2020..2100);
    let plain = Release::new(2);
    let release =
        Release { node: ours.signed(&plain.node), boot: ours.signed(&plain.boot), ..plain };
    let image = |program: &[u8]| Listed::Image(authenticode::digest(program).unwrap());
    for revoked in [ours.listed(), image(&release.boot)] {
        let world = World::new();
        ours.enrolled(&world.firmware(), &[revoked]);
        refuses(&world, &world.publish(&release), Fault::None, "verify boot.efi: it is revoked");
    }
    let world = World::new();
    ours.enrolled(&world.firmware(), &[image(&release.node)]);
    leaves_the_slot_empty(
        &world,
        &world.publish(&release),
        Fault::None,
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
        refuses(&world, &world.publish(&release), Fault::None, word);
    }
}

#[test]
fn fifos_from_another_pod_in_the_metadata_folder_do_not_block() {
    let world = World::new();
    let release = Release::new(2);
    let folder = world.publish(&release);
    for name in ["timestamp.json", "snapshot.json", "latest_known_time.json"] {
        fifo(&world.folder("seen").join(name));
    }
    std::os::unix::fs::symlink("/dev/zero", world.folder("seen").join("targets.json")).unwrap();
    installs(&world, &release, world.check_server(&folder, Fault::None).unwrap());
}

#[test]
fn a_fifo_in_a_repository_folder_is_an_error_and_does_not_block() {
    let world = World::new();
    let folder = world.publish(&Release::new(2));
    std::fs::remove_file(folder.join("metadata/timestamp.json")).unwrap();
    fifo(&folder.join("metadata/timestamp.json"));
    let failure = world.check(&format!("file://{}/", folder.display())).unwrap_err().to_string();
    assert!(failure.contains("it is not a regular file"), "{failure}");
}

fn fifo(path: &std::path::Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
}

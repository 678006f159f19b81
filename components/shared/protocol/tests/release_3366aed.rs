//! Programs of this release and of commit `3366aed` understand each other. Bytes of that release
//! are pinned here, and so are its readers, as they were written.

use osbuild_protocol::{
    BootReport, ClockReport, Contents, NodeStatus, PassReason, ProcessState, ProcessStatus,
    Refusal, RefusalCode, Release, Reply, Request, Security, SlotState, SlotStatus, Slots,
    SlotsStatus, Socket, StartReason, UpdaterState,
};
use std::time::Duration;
use uuid::Uuid;

const DISK: &str = "881b7c28-2e50-5a7c-bdb6-f8aaeb4bbb06";

/// `init` of `3366aed`: `Booted::parse` and `variable::volatile`.
mod old_init {
    use uuid::Uuid;

    const MAX: usize = 512;
    const VOLATILE: u32 = 6;

    #[derive(Debug, PartialEq, Eq)]
    pub struct Booted {
        pub disk: Uuid,
        pub slot: &'static str,
        pub why: String,
    }

    pub fn volatile(bytes: &[u8]) -> Option<&[u8]> {
        let (attributes, value) = bytes.split_first_chunk()?;
        (u32::from_le_bytes(*attributes) == VOLATILE).then_some(value)
    }

    pub fn parse(text: &[u8]) -> Option<Booted> {
        let text = core::str::from_utf8(text).ok().filter(|text| text.len() <= MAX)?;
        let mut words = text.splitn(3, ' ');
        let disk = Uuid::try_parse(words.next()?).ok()?;
        let name = words.next()?;
        let slot = ["SLOT-A", "SLOT-B"].into_iter().find(|slot| *slot == name)?;
        let why = words
            .next()
            .filter(|why| !why.is_empty() && why.bytes().all(|byte| matches!(byte, b' '..=b'~')))?;
        Some(Booted { disk, slot, why: why.to_string() })
    }
}

/// The updater of `3366aed`: what it reads of `status`, and its guard against endless reboots.
mod old_updater {
    const NOT_COUNTED: &str = "its try cannot be counted";

    #[derive(Debug, PartialEq, Eq)]
    pub enum State {
        Good,
        OnTrial(u8),
        Unused,
    }

    /// Name, version, start of the SHA-256, state.
    pub type Held = (String, Option<(String, String)>, State);

    pub fn status(lines: &[&str]) -> Option<(String, Held, Held)> {
        let line = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key));
        let why = line("slot-why ").unwrap_or_default().to_owned();
        Some((why, held(line("slot-running ")?)?, held(line("slot-other ")?)?))
    }

    pub fn waits(why: &str, other: &str) -> bool {
        why.contains(&format!("passed over {other}: {NOT_COUNTED}"))
    }

    fn held(line: &str) -> Option<Held> {
        let (slot, rest) = line.split_once(", ")?;
        let parsed = rest.strip_prefix("version ").and_then(|rest| {
            let (version, rest) = rest.split_once(", sha256 ")?;
            let (sha256, state) = rest.split_once(": ")?;
            Some(((version.to_owned(), sha256.to_owned()), state))
        });
        let (release, state) = match parsed {
            Some((release, state)) => (Some(release), state),
            None => (None, rest.split_once(": ")?.1),
        };
        Some((slot.to_owned(), release, state_of(state)))
    }

    fn state_of(words: &str) -> State {
        match words.strip_prefix("on trial, tries left: ").and_then(|tries| tries.parse().ok()) {
            Some(tries) => State::OnTrial(tries),
            None if words == "good" => State::Good,
            None => State::Unused,
        }
    }
}

fn release() -> Contents {
    Contents::Release(Release { version: "1.35.8-2".to_owned(), sha256: "4e02fc8e70db".to_owned() })
}

fn slot(name: &str, contents: Contents, state: SlotState) -> SlotStatus {
    SlotStatus { name: name.to_owned(), contents, state }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_variable_of_its_slotboot_is_understood() {
    let trial = StartReason::OnTrial { tries_left: 2 };
    for (why, started, passed) in [
        ("good", StartReason::Good, None),
        ("on trial, tries left: 2", trial, None),
        (
            "good; passed over SLOT-B: it has no tries left",
            StartReason::Good,
            Some(PassReason::NoTries),
        ),
        (
            "good; passed over SLOT-B: its try cannot be counted: Device Error",
            StartReason::Good,
            Some(PassReason::NotCounted),
        ),
        (
            "good; passed over SLOT-B: its security epoch is 1, and this machine starts none \
             below 2",
            StartReason::Good,
            Some(PassReason::EpochTooOld),
        ),
        (
            "on trial, tries left: 2; passed over SLOT-B: the firmware refuses it: ACCESS DENIED",
            trial,
            Some(PassReason::Refused),
        ),
        (
            "good; passed over SLOT-B: the disk caught fire",
            StartReason::Good,
            Some(PassReason::Unknown),
        ),
        ("good; skipped SLOT-B", StartReason::Good, Some(PassReason::Unknown)),
        ("excellent", StartReason::Unknown, Some(PassReason::Unknown)),
    ] {
        let variable = format!("\x06\0\0\0{DISK} SLOT-A {why}").into_bytes();
        let report = BootReport::decode(&variable[4..]).unwrap();
        assert_eq!((report.slot, report.text.as_str()), ("SLOT-A", why));
        assert_eq!((report.started, report.passed), (started, passed), "{why}");
    }
}

#[test]
fn its_init_accepts_the_variable_of_this_slotboot() {
    for (passed, text) in [
        (None, "good".to_owned()),
        (Some(PassReason::NotCounted), format!("good; {}", "long ".repeat(200))),
    ] {
        let report = BootReport {
            disk: Uuid::parse_str(DISK).unwrap(),
            slot: "SLOT-A",
            started: StartReason::Good,
            passed,
            text,
        };
        let variable = [&[6, 0, 0, 0], report.to_string().as_bytes()].concat();
        let booted = old_init::parse(old_init::volatile(&variable).unwrap()).unwrap();
        assert_eq!((booted.disk, booted.slot), (report.disk, report.slot));
        assert!(booted.why.starts_with("good"), "{booted:?}");
    }
}

#[test]
fn the_variable_of_this_slotboot_has_these_bytes() {
    let report = BootReport {
        disk: Uuid::parse_str(DISK).unwrap(),
        slot: "SLOT-A",
        started: StartReason::OnTrial { tries_left: 2 },
        passed: Some(PassReason::NoTries),
        text: "on trial, tries left: 2; passed over SLOT-B: it has no tries left".to_owned(),
    };
    assert_eq!(
        report.to_string(),
        "881b7c28-2e50-5a7c-bdb6-f8aaeb4bbb06 SLOT-A on trial, tries left: 2; passed over SLOT-B: \
         it has no tries left [format=1 started=2 tries=2 passed=2]"
    );
}

#[test]
fn the_guard_of_its_updater_holds_with_this_slotboot() {
    let report = BootReport {
        disk: Uuid::parse_str(DISK).unwrap(),
        slot: "SLOT-A",
        started: StartReason::Good,
        passed: Some(PassReason::NotCounted),
        text: "good; passed over SLOT-B: its try cannot be counted: Device Error".to_owned(),
    };
    let booted = old_init::parse(report.to_string().as_bytes()).unwrap();
    assert!(old_updater::waits(&booted.why, "SLOT-B"), "{booted:?}");
}

/// The other slot's contents and states in replies of that release's `init`.
fn answers() -> Vec<(&'static str, Contents, SlotState)> {
    let version = "version 1.35.8-2, sha256 4e02fc8e70db";
    let damaged = "damaged (the checksum of its header is wrong)";
    assert_eq!(release().words(), version);
    vec![
        ("version 1.35.8-2, sha256 4e02fc8e70db: good", release(), SlotState::Good),
        (
            "version 1.35.8-2, sha256 4e02fc8e70db: on trial, tries left: 3",
            release(),
            SlotState::OnTrial { tries_left: 3 },
        ),
        ("empty: not to be booted", Contents::Empty, SlotState::NotBootable),
        (
            "damaged (the checksum of its header is wrong): good",
            Contents::Damaged(damaged[9..damaged.len() - 1].to_owned()),
            SlotState::Good,
        ),
        ("damaged (its header cannot be read): good", Contents::Unreadable, SlotState::Good),
        ("version 1.35.8-2, sha256 4e02fc8e70db: frozen", release(), SlotState::Unknown),
        ("on trial, tries left: 300", Contents::Unknown, SlotState::Unknown),
    ]
}

#[test]
fn the_answers_of_its_init_are_understood() {
    for (words, contents, state) in answers().into_iter().take(6) {
        let text = format!(
            "slot SLOT-A\nslot-why good; passed over SLOT-B: its try cannot be counted: x\n\
             slot-running SLOT-A, version 1.35.8-2, sha256 4e02fc8e70db: good\n\
             slot-other SLOT-B, {words}\n"
        );
        let status = SlotsStatus {
            why: "good; passed over SLOT-B: its try cannot be counted: x".to_owned(),
            started: StartReason::Good,
            passed: Some(PassReason::NotCounted),
            running: slot("SLOT-A", release(), SlotState::Good),
            other: Some(slot("SLOT-B", contents, state)),
            is_outage: false,
        };
        let reply = Reply::decode(&Request::SlotsStatus, &lines(&text));
        assert_eq!(reply, Ok(Reply::Slots(Slots::Known(status))), "{words}");
    }
    for (line, slots) in [
        ("slot unknown", Slots::Unknown),
        ("slot read /dev/sda: EIO", Slots::Unreadable("read /dev/sda: EIO".to_owned())),
    ] {
        assert_eq!(Slots::decode(&lines(line)), Ok(slots));
    }
}

#[test]
fn its_init_passes_on_the_reasons_of_this_slotboot() {
    let report = BootReport {
        disk: Uuid::parse_str(DISK).unwrap(),
        slot: "SLOT-A",
        started: StartReason::Good,
        passed: None,
        text: "good".to_owned(),
    };
    let booted = old_init::parse(report.to_string().as_bytes()).unwrap();
    let text = format!(
        "slot SLOT-A\nslot-why {}\nslot-running SLOT-A, version 1, sha256 4e02fc8e70db: good\n",
        booted.why
    );
    let Ok(Slots::Known(status)) = Slots::decode(&lines(&text)) else { panic!("{text}") };
    let read = (status.why.as_str(), status.started, status.passed);
    assert_eq!(read, ("good", StartReason::Good, None), "{text}");
}

#[test]
fn its_updater_understands_this_init() {
    let known = answers().into_iter().filter(|(_, contents, state)| {
        !matches!(contents, Contents::Unknown) && *state != SlotState::Unknown
    });
    for (_, contents, state) in known {
        let status = SlotsStatus {
            why: "good".to_owned(),
            started: StartReason::Good,
            passed: None,
            running: slot("SLOT-A", release(), SlotState::Good),
            other: Some(slot("SLOT-B", contents.clone(), state)),
            is_outage: true,
        };
        let text = Reply::Slots(Slots::Known(status)).encode();
        let lines: Vec<&str> = text.lines().collect();
        // It gives up on an answer of more than 16 lines.
        assert!(lines.len() <= 16 && lines.last() == Some(&"ok"), "{text}");
        let (why, running, other) = old_updater::status(&lines).unwrap();
        assert_eq!((why.as_str(), running.2), ("good", old_updater::State::Good));
        assert_eq!(other.0, "SLOT-B");
        let version = matches!(contents, Contents::Release(_)).then(|| "1.35.8-2".to_owned());
        assert_eq!(other.1.map(|(version, _)| version), version);
        assert_eq!(
            other.2,
            match state {
                SlotState::Good => old_updater::State::Good,
                SlotState::OnTrial { tries_left } => old_updater::State::OnTrial(tries_left),
                SlotState::NotBootable | SlotState::Unknown => old_updater::State::Unused,
            }
        );
    }
}

#[test]
fn its_updater_gets_no_line_about_a_state_that_is_unknown() {
    let status = SlotsStatus {
        why: "good".to_owned(),
        started: StartReason::Good,
        passed: None,
        running: slot("SLOT-A", release(), SlotState::Good),
        other: Some(slot("SLOT-B", release(), SlotState::Unknown)),
        is_outage: false,
    };
    let text = Slots::Known(status).encode();
    assert_eq!(old_updater::status(&text.lines().collect::<Vec<_>>()), None);
}

#[test]
fn its_requests_are_accepted() {
    let report = ClockReport { offset: 5, agreeing: 2, answered: 3 };
    for (socket, line, request) in [
        (Socket::Net, "hostname node-1", Request::HostName("node-1".to_owned())),
        (
            Socket::Net,
            "address 10.0.2.15/24 on eth0",
            Request::Addresses {
                addresses: vec!["10.0.2.15/24".to_owned()],
                link: "eth0".to_owned(),
            },
        ),
        (Socket::Net, "ntp", Request::TimeServers(vec![])),
        (Socket::Admin, "restart kubelet", Request::RestartKubelet),
        (Socket::Update, "slot", Request::OpenSlot),
        (Socket::Update, "boot-program", Request::ReplaceBootProgram),
        (Socket::Time, "set 5 by 2 of 3", Request::ClockSet(report)),
    ] {
        assert_eq!(Request::decode(socket, line), Ok(request), "{line}");
    }
}

#[test]
fn its_clients_still_know_a_refusal_and_a_success() {
    assert_eq!(Reply::Done.encode(), "ok\n");
    let refusal = Refusal::new(RefusalCode::OnTrial, "SLOT-A is on trial").encode();
    // They take all behind this for the reason.
    assert_eq!(refusal.strip_prefix("error: "), Some("SLOT-A is on trial [code=5]\n"));
    let old = Refusal::decode("error: SLOT-A is on trial").unwrap();
    assert_eq!(old, Refusal::new(RefusalCode::Unknown, "SLOT-A is on trial"));
}

#[test]
fn the_status_of_the_node_has_the_lines_that_it_had() {
    let text = "uptime 61.250\nhostname node-1\nnode-name node-1\nready 9.001\nsecure-boot on\n\
                watchdog none\nslot unknown\naddress 10.0.2.15/24 on eth0\n\
                containerd running pid 78 since 1.500\nkubelet failed 3 times in a row\n\
                images ended\n";
    let process = |name: &str, state| ProcessStatus { name: name.to_owned(), state };
    let status = NodeStatus {
        uptime: Duration::from_millis(61_250),
        host_name: "node-1".to_owned(),
        node_name: "node-1".to_owned(),
        ready: Some(Duration::from_millis(9001)),
        security: Security { secure_boot: "on".to_owned(), ..Security::default() },
        watchdog: "none".to_owned(),
        slots: Slots::Unknown,
        updater: UpdaterState::Unreported,
        addresses: vec!["10.0.2.15/24 on eth0".to_owned()],
        processes: vec![
            process(
                "containerd",
                ProcessState::Running { pid: 78, since: Duration::from_millis(1500) },
            ),
            process("kubelet", ProcessState::Failed { times: 3 }),
            process("images", ProcessState::Ended),
        ],
        problems: Vec::new(),
        cni: None,
        storage_drivers: None,
        bpf_programs: None,
        runtime_clients: None,
    };
    let reply = Reply::Node(Box::new(status));
    assert_eq!(reply.encode(), format!("{text}ok\n"));
    assert_eq!(Reply::decode(&Request::Status, &lines(text)), Ok(reply));
}

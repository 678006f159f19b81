//! `init`'s replies, which a client of another release may read.

use osbuild_protocol::{Contents, Refusal, Reply, Request, SlotState, Slots};

use crate::target::{Memory, Outcome, Target};

/// See the module. An input is the lines of a reply.
pub const TARGET: Target = Target { name: "replies", seeds, run, memory: Memory::per_byte(256) };

fn run(input: &[u8]) -> Outcome {
    let Ok(text) = str::from_utf8(input) else { return Outcome::Refused };
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut outcome = Outcome::Refused;
    for request in [
        Request::Status,
        Request::SlotsStatus,
        Request::OpenSlot,
        Request::OpenVolume { after: None },
        Request::LastSeen,
        Request::AwaitNetwork(0),
        Request::Reboot,
    ] {
        let Ok(reply) = Reply::decode(&request, &lines) else { continue };
        outcome = Outcome::Accepted;
        if let Reply::Slots(slots) = &reply {
            permits_only_known(slots);
        }
        round_trips(&request, &reply);
    }
    if let Some(refusal) = lines.first().and_then(|line| Refusal::decode(line)) {
        let written = refusal.encode();
        let read = Refusal::decode(written.trim_end()).expect("our own refusal can be read");
        assert_eq!(Refusal::decode(read.encode().trim_end()), Some(read));
    }
    outcome
}

/// A reply that this release wrote is read back unchanged.
fn round_trips(request: &Request, reply: &Reply) {
    let read = |reply: &Reply| {
        let text = reply.encode();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.pop().as_deref(), Some("ok"), "{text}");
        assert!(!lines.iter().any(|line| line == "ok" || line.starts_with("error: ")), "{text}");
        Reply::decode(request, &lines).expect("our own reply can be read")
    };
    // The first encoding removes what cannot be written, such as control characters.
    let once = read(reply);
    assert_eq!(read(&once), once);
}

/// A status with an unknown part does not permit an installation.
fn permits_only_known(slots: &Slots) {
    let Slots::Known(status) = slots else { return };
    if status.permit_install().is_err() {
        return;
    }
    assert_eq!(status.running.state, SlotState::Good);
    for slot in [Some(&status.running), status.other.as_ref()] {
        let slot = slot.expect("both slots are known");
        assert_ne!(slot.state, SlotState::Unknown);
        assert!(!matches!(slot.contents, Contents::Unknown | Contents::Unreadable), "{slot:?}");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let version_0 = "slot SLOT-A\nslot-why good; passed over SLOT-B: it has no tries left\n\
        slot-running SLOT-A, version 1.35.8, sha256 4e02fc8e70db: good\n\
        slot-other SLOT-B, damaged (the checksum of its header is wrong): \
        on trial, tries left: 3\n";
    let fields = "slot SLOT-A\nslot-why good\n\
        running-slot name=SLOT-A state=good holds=release version=1.35.8 sha256=4e02fc8e70db\n\
        other-slot name=SLOT-B state=on-trial tries=3 holds=empty\n\
        slot-boot format=1 started=1 passed=3\n";
    let node = "uptime 61.250\nhostname node\nnode-name node\nready no\nsecure-boot on\n\
        lockdown integrity\nsecurity-epoch 2\nwatchdog none\nslot unknown\n\
        updater 2 runs [phase=idle offered=2 next=7 reported=5 running=yes]\n\
        address 10.0.2.15/24 on eth0\n\
        containerd running pid 78 since 1.500\nkubelet failed 3 times in a row\nimages ended\n";
    let texts = [
        version_0,
        fields,
        node,
        "seen 1790000000\nkept yes\n",
        "length 1048576\n",
        "error: SLOT-A is on trial [code=5]\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

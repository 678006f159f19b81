//! Frames of fixed states, compared with the files in `expected` and the picture in the docs.
//!
//! `WRITE_SCREENS=1 cargo test --package osctl screens` writes them in the place of comparing them.

use super::{MIN_SIZE, draw};
use crate::cli::Cli;
use crate::dashboard::action::{Action, Scroll, View};
use crate::dashboard::log::Line;
use crate::dashboard::network::Resources;
use crate::dashboard::network::tests::resource;
use crate::dashboard::node::Node;
use crate::dashboard::reading::Reading;
use crate::dashboard::state::Dashboard;
use crate::dashboard::theme::Theme;
use crate::error::is_deceptive;
use crate::rates::Sample;
use clap::CommandFactory;
use jiff::Timestamp;
use osbuild_cosi::v1::process::State;
use osbuild_cosi::v1::{
    FileSystemUsage, GetStatusResponse, GetTryResponse, GetUsageResponse, HostProcess,
    KernelMessage, LinkUsage, LogLine, Pressure, Process, Slot,
};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use serde_json::json;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Has the tests write the expected files.
const WRITE: &str = "WRITE_SCREENS";

/// The marks around the picture in the docs.
const BEGIN: &str = "<!-- dashboard: begin -->\n```text\n";
const END: &str = "```\n<!-- dashboard: end -->";

/// When the fixed node was read for the first time.
const START: &str = "2026-11-27T10:00:00Z";

fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = START.parse().unwrap();
    start + jiff::SignedDuration::from_secs(seconds)
}

fn status() -> GetStatusResponse {
    let slot = Slot {
        name: "SLOT-A".into(),
        version: "1.35.8".into(),
        state: "good".into(),
        ..Slot::default()
    };
    GetStatusResponse {
        node_name: "edge-1".into(),
        uptime_milliseconds: 11_400_000,
        ready_milliseconds: Some(12_513),
        addresses: vec!["10.0.2.15/24 on eth0".into()],
        slots: vec![slot],
        processes: vec![Process {
            name: "kubelet".into(),
            state: State::Running.into(),
            ..Process::default()
        }],
        ..GetStatusResponse::default()
    }
}

/// The counters of a node at a step of two seconds, in which its processors are ever busier.
fn sample(step: u64) -> Sample {
    let process = |pid: i32, name: &str, pod: &str, megabytes: u64, share: u64| HostProcess {
        pid,
        name: name.into(),
        pod: pod.into(),
        memory_bytes: megabytes << 20,
        processor_milliseconds: share * step,
        ..HostProcess::default()
    };
    let pressure = |resource: &str, percent| Pressure {
        resource: resource.into(),
        percent_10_seconds: percent,
        ..Pressure::default()
    };
    let link = |name: &str, received, sent, dropped| LinkUsage {
        name: name.into(),
        received_bytes: step * received,
        sent_bytes: step * sent,
        dropped,
        ..LinkUsage::default()
    };
    let usage = GetUsageResponse {
        read_milliseconds: 2000 * step,
        processors: 2,
        busy_milliseconds: step * step * 50,
        idle_milliseconds: 4000 * step - step * step * 50,
        load_1_minute: 1.24,
        memory_bytes: 1967 << 20,
        available_memory_bytes: (1367 - step * 10) << 20,
        pressures: vec![
            pressure("processor", step as f64),
            pressure("memory", 0.0),
            pressure("disk", 1.3),
        ],
        data: Some(FileSystemUsage {
            bytes: 7936 << 20,
            free_bytes: 6093 << 20,
            ..FileSystemUsage::default()
        }),
        links: vec![link("eth0", 25_400, 8_000, 3), link("cni0", 900, 4_000_000, 0)],
        ..GetUsageResponse::default()
    };
    let processes = vec![
        process(1, "init", "", 7, 2),
        process(88, "containerd", "", 58, 30),
        process(97, "kubelet", "", 92, 90),
        process(201, "etcd", "kube-system/etcd-edge-1", 61, 120),
        process(202, "kube-apiserver", "kube-system/kube-apiserver-edge-1", 288, 400),
        process(203, "kube-scheduler", "kube-system/kube-scheduler-edge-1", 49, 20),
        process(210, "osd", "kube-system/osd-edge-1", 6, 4),
        process(211, "dhcp", "kube-system/dhcp-edge-1", 2, 0),
    ];
    Sample { usage, processes }
}

/// The resources that a node observes. It booted at `boot_time` by its own clock.
fn observed(boot_time: &str) -> Resources {
    let kernel = format!("{{ release: 6.18.2, bootTime: '{boot_time}' }}\n");
    Resources {
        kernels: vec![resource("node", &kernel)],
        links: vec![
            resource("lo", "type: loopback\n"),
            resource(
                "eth0",
                "{ type: ether, carrier: true, state: up, mtu: 1500, \
                 hardwareAddress: '52:54:00:12:34:56' }\n",
            ),
            resource("eth1", "{ type: ether, carrier: false, state: down, mtu: 1500 }\n"),
            resource(
                "cni0",
                "{ type: ether, kind: bridge, carrier: true, state: up, mtu: 1450 }\n",
            ),
        ],
        addresses: vec![
            resource("1", "{ link: eth0, address: 10.0.2.15/24, scope: global }\n"),
            resource("2", "{ link: eth0, address: 'fe80::5054:ff:fe12:3456/64', scope: link }\n"),
            resource("3", "{ link: cni0, address: 10.244.0.1/24, scope: global }\n"),
        ],
        routes: vec![resource(
            "1",
            "{ destination: 0.0.0.0/0, gateway: 10.0.2.2, link: eth0, metric: 100 }\n",
        )],
        resolvers: vec![resource("node", "{ nameserver: [10.0.2.3], nameserverSource: dhcp }\n")],
    }
}

fn lines() -> Vec<Reading> {
    let kernel = |level, time_microseconds, text: &str| {
        Line::of_kernel(&KernelMessage { level, time_microseconds, text: text.into() })
    };
    let daemon = |log: &str, text: &str| {
        Line::of_daemon(log, &LogLine { text: text.into(), ..LogLine::default() })
    };
    let mut all: Vec<Reading> =
        ["kubelet", "kernel", "init"].map(|log| Reading::LogBegins(log.into())).into();
    all.extend((1..=20).map(|second| {
        let text = format!(
            "I1127 09:59:{second:02}.512033 97 kubelet_pods.go:890] the pod etcd-edge-1 has the \
             same status"
        );
        Reading::Lines(daemon("kubelet", &text))
    }));
    all.extend([
        Reading::Lines(daemon("init", "phase kubelet 4.805")),
        Reading::Lines(kernel(6, 11_702_113, "eth0: link becomes ready")),
        Reading::Lines(daemon("init", "READY 12.513")),
        Reading::Lines(kernel(4, 913_400_113, "eth1: link is not ready")),
        Reading::Lines(kernel(3, 914_100_027, "nvme0n1: I/O error, sector 81920")),
    ]);
    all
}

/// A node that is well, and what it was in the half minute before.
fn node(name: &str) -> Node {
    let mut node = Node::new(name, "10.0.2.15:50000");
    node.take(Reading::Connected, at(0));
    for step in 0..16 {
        node.take(Reading::Usage(Ok(sample(step))), at(2 * i64::try_from(step).unwrap()));
    }
    node.take(Reading::Observed(Ok(observed("2026-11-27T06:50:30Z"))), at(30));
    node.take(Reading::Status(Ok(status())), at(30));
    node.take(Reading::Try(Ok(GetTryResponse::default())), at(30));
    lines().into_iter().for_each(|reading| node.take(reading, at(30)));
    node
}

/// A node whose kubelet fails while somebody tries settings.
fn sick_node(name: &str) -> Node {
    let mut node = node(name);
    let kubelet = Process {
        name: "kubelet".into(),
        state: State::Failed.into(),
        failures: 4,
        ..Process::default()
    };
    let status =
        GetStatusResponse { ready_milliseconds: None, processes: vec![kubelet], ..status() };
    node.take(Reading::Observed(Ok(observed("2026-11-27T05:50:30Z"))), at(30));
    node.take(Reading::Status(Ok(status)), at(30));
    let caller = "admin \"eve\"".into();
    let tried = GetTryResponse { running: true, remaining_seconds: 90, caller, number: 1 };
    node.take(Reading::Try(Ok(tried)), at(30));
    node.take(Reading::Usage(Err("the container `inspect` does not run".into())), at(30));
    node
}

fn frame(dashboard: &Dashboard, theme: Theme, size: (u16, u16), now: Timestamp) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal.draw(|frame| draw(frame, dashboard, theme, now)).unwrap();
    terminal.backend().buffer().clone()
}

/// The lines of the frame, without blanks at their ends.
fn text(buffer: &Buffer) -> String {
    let rows = buffer.content.chunks(usize::from(buffer.area.width));
    rows.fold(String::new(), |mut text, row| {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        writeln!(text, "{}", line.trim_end()).unwrap();
        text
    })
}

fn screen(dashboard: &Dashboard, size: (u16, u16), now: Timestamp) -> String {
    text(&frame(dashboard, Theme::Plain, size, now))
}

fn of(nodes: Vec<Node>, actions: &[Action]) -> Dashboard {
    let mut dashboard = Dashboard::new(nodes);
    for action in actions {
        assert!(dashboard.act(*action).is_continue());
    }
    dashboard
}

fn compare(path: &Path, expected: impl FnOnce(&str) -> Option<String>, found: &str) {
    let is_written = std::env::var_os(WRITE).is_some();
    let text = fs::read_to_string(path).unwrap_or_default();
    let expected = expected(&text);
    if is_written {
        let text = match &expected {
            Some(expected) if !expected.is_empty() => text.replacen(expected, found, 1),
            _ => found.to_owned(),
        };
        return fs::write(path, text).unwrap();
    }
    assert_eq!(expected.as_deref(), Some(found), "{} differs: {WRITE}=1", path.display());
}

fn expected_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard/drawing/expected").join(name)
}

#[test]
fn screens_are_the_expected_ones() {
    let all = || vec![node("edge-1"), sick_node("edge-2"), Node::new("edge-3", "10.0.2.17:50000")];
    let lost = || {
        let mut node = node("edge-1");
        let why = "cannot connect to 10.0.2.15:50000: connection refused";
        node.take(Reading::Lost(why.into()), at(40));
        vec![node]
    };
    let write = |text: &'static str| text.chars().map(Action::Write);
    let filter: Vec<Action> = [Action::Show(View::Log), Action::EditFilter]
        .into_iter()
        .chain(write("KUBELET_PODS"))
        .chain([Action::KeepFilter, Action::Scroll(Scroll::Up(3))])
        .collect();
    let (small, large) = ((80, 24), (120, 40));
    for (name, dashboard, size) in [
        ("overview-80x24", of(vec![node("edge-1")], &[]), small),
        ("overview-120x40", of(vec![node("edge-1")], &[]), large),
        ("sick-80x24", of(all(), &[Action::NextNode]), small),
        ("opening-80x24", of(all(), &[Action::PreviousNode]), small),
        ("lost-80x24", of(lost(), &[]), small),
        ("pods-80x24", of(vec![node("a")], &[Action::Show(View::Pods), Action::SortOther]), small),
        ("network-120x40", of(vec![node("a")], &[Action::Show(View::Network)]), large),
        ("log-80x24", of(vec![node("a")], &filter), small),
    ] {
        let found = screen(&dashboard, size, at(52));
        compare(&expected_file(&format!("{name}.txt")), |text| Some(text.to_owned()), &found);
    }
}

#[test]
fn screens_in_the_docs_are_drawn() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/osctl.md");
    let picture = |page: &str| {
        let (picture, _) = page.split_once(BEGIN)?.1.split_once(END)?;
        Some(picture.to_owned())
    };
    let found = screen(&of(vec![node("edge-1")], &[]), (80, 24), at(31));
    compare(&path, picture, &found);
}

#[test]
fn a_small_screen_says_so_and_any_size_is_drawn() {
    let mut dashboard = of(vec![node("a"), sick_node("b")], &[]);
    assert!(screen(&dashboard, (30, 10), at(31)).starts_with("needs 40 × 12 characters"));
    for view in View::ALL {
        assert!(dashboard.act(Action::Show(view)).is_continue());
        for size in [(1, 1), (40, 12), (41, 13), (79, 50), (109, 12), (110, 12), (300, 100)] {
            frame(&dashboard, Theme::Colours, size, at(31));
        }
    }
}

#[test]
fn no_colours_are_drawn_without_them() {
    let dashboard = of(vec![sick_node("a"), node("b")], &[]);
    let has_colour = |theme| {
        let buffer = frame(&dashboard, theme, (80, 24), at(31));
        buffer.content.iter().any(|cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset))
    };
    assert!(has_colour(Theme::Colours));
    assert!(!has_colour(Theme::Plain));
}

#[test]
fn a_lost_node_keeps_its_values_and_they_are_dim() {
    let mut lost = node("a");
    lost.take(Reading::Lost("connection refused".into()), at(40));
    let dashboard = of(vec![lost], &[]);
    let buffer = frame(&dashboard, Theme::Colours, (80, 24), at(52));
    let text = text(&buffer);
    assert!(text.contains("LOST for 22 s, since 10:00:30 UTC: connection refused"), "{text}");
    assert!(text.contains("kube-system/kube-apiserver-edge-1"), "{text}");
    let row = |row: u16| (0..80).map(move |column| (column, row));
    let is_dim = |place: (u16, u16)| buffer[place].fg == Color::DarkGray;
    assert!((2..23).flat_map(row).all(is_dim), "everything between the head and the help");
}

#[test]
fn a_part_without_a_new_answer_is_dim_and_says_why() {
    let dashboard = of(vec![sick_node("a")], &[]);
    let buffer = frame(&dashboard, Theme::Colours, (80, 24), at(31));
    let is_dim = |text: &str| {
        let row = self::text(&buffer).lines().position(|line| line.contains(text)).unwrap();
        buffer[(2, u16::try_from(row).unwrap())].fg == Color::DarkGray
    };
    assert!(is_dim("memory") && is_dim("etcd-edge-1"));
    assert!(!is_dim("the container `inspect` does not run") && !is_dim("gateway"));
}

#[test]
fn the_newest_values_are_at_the_right_end_of_any_screen() {
    let dashboard = of(vec![node("a")], &[]);
    for width in [80, 81, 100, 133] {
        let text = screen(&dashboard, (width, 24), at(31));
        let line = text.lines().find(|line| line.contains("CPU")).unwrap();
        assert_eq!((line.chars().count(), line.chars().last()), (width.into(), Some('▂')));
    }
}

#[test]
fn the_selected_node_is_on_the_screen_of_many() {
    let nodes = (0..100).map(|number| Node::new(&format!("node-{number}"), "x:50000")).collect();
    let mut dashboard = of(nodes, &[]);
    for number in 0..100 {
        let text = screen(&dashboard, (80, 24), at(0));
        let first = format!("{} ", text.lines().next().unwrap());
        assert!(first.contains(&format!("…node-{number} ")), "{number}: {first}");
        assert!(dashboard.act(Action::NextNode).is_continue());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Every text of a node, wherever it is shown.
    #[test]
    fn no_text_of_a_node_reaches_the_terminal_as_it_is(text in "(?s).{0,40}", tail in "\\PC{0,5}") {
        let evil = format!("\u{1b}[2J\u{9b}H\u{202e}{text}\u{7}\r\n\u{200f}{tail}\u{85}");
        let quoted = json!(evil).to_string();
        let mut node = Node::new(&evil, &evil);
        node.take(Reading::Connected, at(0));
        let mut status = status();
        status.node_name = evil.clone();
        status.addresses = vec![evil.clone()];
        status.slots_error = evil.clone();
        status.slots[0] = Slot {
            name: evil.clone(),
            contents: evil.clone(),
            version: evil.clone(),
            state: evil.clone(),
        };
        status.processes[0].name = evil.clone();
        status.processes[0].set_state(State::Failed);
        for step in 0..2 {
            let mut sample = sample(step);
            sample.usage.links[0].name = evil.clone();
            sample.usage.pressures[0].resource = evil.clone();
            for process in &mut sample.processes {
                (process.name, process.pod) = (evil.clone(), evil.clone());
            }
            node.take(Reading::Usage(Ok(sample)), at(0));
        }
        let caller = evil.clone();
        let tried =
            GetTryResponse { running: true, remaining_seconds: u32::MAX, caller, number: u64::MAX };
        node.take(Reading::Try(Ok(tried)), at(0));
        let spec = format!(
            "{{ type: {quoted}, kind: {quoted}, state: {quoted}, carrier: true, link: {quoted}, \
             address: {quoted}, destination: 0.0.0.0/0, gateway: {quoted}, \
             nameserver: [{quoted}], nameserverSource: {quoted}, release: {quoted}, \
             bootTime: {quoted} }}\n"
        );
        let all = || vec![resource(&evil, &spec)];
        let resources = Resources {
            links: all(),
            addresses: all(),
            routes: all(),
            resolvers: all(),
            kernels: all(),
        };
        node.take(Reading::Observed(Ok(resources)), at(0));
        node.take(Reading::Status(Ok(status)), at(0));
        let line = LogLine { text: evil.clone(), ..LogLine::default() };
        node.take(Reading::Lines(Line::of_daemon(&evil, &line)), at(0));
        let mut dashboard = of(vec![node], &[Action::NextLog]);
        for step in 0..3 {
            for view in View::ALL {
                prop_assert!(dashboard.act(Action::Show(view)).is_continue());
                let buffer = frame(&dashboard, Theme::Colours, (130, 40), at(1));
                let odd = buffer.content.iter().find(|cell| cell.symbol().contains(is_deceptive));
                prop_assert!(odd.is_none(), "{:?}", odd);
            }
            let reading = match step {
                0 => Reading::Observed(Err(evil.clone())),
                _ => Reading::Lost(evil.clone()),
            };
            dashboard.take(0, reading, at(1));
        }
    }
}

#[test]
fn the_help_names_the_smallest_screen() {
    let (width, height) = MIN_SIZE;
    let command = Cli::command();
    let dashboard = command.find_subcommand("dashboard").unwrap();
    let help = dashboard.get_long_about().unwrap().to_string();
    assert!(help.contains(&format!(" {width} columns and {height} lines ")), "{help}");
}

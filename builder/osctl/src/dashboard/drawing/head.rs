//! The first lines, and the last one.

use super::Scene;
use super::columns::{duration, ends};
use crate::cli::Sorted;
use crate::dashboard::facts::Facts;
use crate::dashboard::node::{Connection, Node, Try};
use crate::dashboard::theme::Theme;
use jiff::Timestamp;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// By how many seconds a clock may differ: the node knows the time of its boot to the second, and
/// an answer takes its time.
const MAX_CLOCK_DIFFERENCE: u64 = 3;

/// The state of a slot that needs no attention.
const GOOD: &str = "good";

/// The names of all nodes, with the one that is shown in the middle if they do not all fit.
pub fn nodes(scene: Scene, width: u16) -> Line<'static> {
    let (nodes, selected) = (scene.dashboard.nodes(), scene.dashboard.selected());
    let cell = |node: &Node| format!(" {}{} ", mark(node), node.name);
    let widths: Vec<usize> = nodes.iter().map(|node| Span::raw(cell(node)).width()).collect();
    let middle = usize::from(width) / 2;
    let before = |first: usize| widths[first..selected].iter().sum::<usize>();
    let all: usize = widths.iter().sum();
    let mut first = 0;
    while first < selected && all > usize::from(width) && before(first) > middle {
        first += 1;
    }
    let spans = nodes.iter().enumerate().skip(first).map(|(index, node)| {
        let style = match (&node.connection, index == selected) {
            (_, true) => scene.theme.title(),
            (Connection::Lost { .. }, false) => scene.theme.bad(),
            _ => Style::new(),
        };
        Span::styled(cell(node), style)
    });
    Line::from_iter(spans)
}

/// The mark before a node's name, which shows the node's state without colour.
fn mark(node: &Node) -> &'static str {
    let is_well = |facts: &Facts| facts.is_ready && facts.problems.is_empty();
    match (&node.connection, &node.facts.value) {
        (Connection::Lost { .. }, _) => "✗",
        (Connection::Open, Some(facts)) if is_well(facts) => "✓",
        (Connection::Open, Some(_)) => "!",
        (Connection::Open, None) if node.facts.error.is_some() => "!",
        _ => "…",
    }
}

/// The node, its address and its releases, and how long it runs.
pub fn title(scene: Scene, width: u16) -> Line<'static> {
    let node = scene.dashboard.node();
    let Some(facts) = &node.facts.value else {
        let left = format!(" {}  {}", node.name, node.address);
        return Line::styled(ends(&left, "", width), scene.theme.title());
    };
    let mut left = format!(" {}", node.name);
    if facts.name != node.name && !facts.name.is_empty() {
        left += &format!(" ({})", facts.name);
    }
    let address = facts.addresses.first().unwrap_or(&node.address);
    left += &format!("  {address}");
    if !facts.slot.is_empty() {
        left += format!("  {} {}", facts.slot, facts.release).trim_end();
    }
    if !facts.kernel.is_empty() {
        left += &format!("  Linux {}", facts.kernel);
    }
    let right = format!(" up {} ", duration(facts.uptime_milliseconds / 1000));
    Line::styled(ends(&left, &right, width), scene.theme.title())
}

/// Whether the node is connected, ready, and has the right time, and whether a try runs: what is
/// wrong comes first.
pub fn state(scene: Scene) -> Line<'static> {
    let Scene { dashboard, theme, now } = scene;
    let node = dashboard.node();
    let mut words = match &node.connection {
        Connection::Opening => {
            vec![Span::styled(format!("connects to {} …", node.address), theme.warning())]
        }
        Connection::Lost { since, why } => {
            let seconds = now.duration_since(*since).as_secs().unsigned_abs();
            let (clock, lost) = (since.strftime("%H:%M:%S UTC"), duration(seconds));
            vec![Span::styled(format!("LOST for {lost}, since {clock}: {why}"), theme.bad())]
        }
        Connection::Open => readiness(node, theme),
    };
    if let Some(Some(tried)) = &node.tried.value {
        words.push(Span::styled(words_of_try(tried, now), theme.warning()));
    }
    if node.connection == Connection::Open {
        words.extend(circumstances(node, theme));
    }
    let gaps = std::iter::repeat_n(Span::raw("  "), words.len());
    Line::from_iter(words.into_iter().zip(gaps).flat_map(|(word, gap)| [word, gap]))
}

/// Whether a connected node is ready, and what is wrong.
fn readiness(node: &Node, theme: Theme) -> Vec<Span<'static>> {
    let error = node.facts.error.iter().map(|error| Span::styled(error.clone(), theme.bad()));
    let mut words: Vec<Span> = error.collect();
    if let Some(facts) = &node.facts.value {
        words.push(match (facts.is_ready, facts.problems.is_empty()) {
            (true, true) => Span::styled("ready", theme.good()),
            (true, false) => Span::styled("ready", theme.warning()),
            (false, _) => Span::styled("NOT READY", theme.bad()),
        });
        let problems = facts.problems.iter();
        words.extend(problems.map(|problem| Span::styled(problem.clone(), theme.bad())));
    }
    words
}

/// The slot, the clock, and that no try runs.
fn circumstances(node: &Node, theme: Theme) -> Vec<Span<'static>> {
    let mut words = Vec::new();
    let facts = node.facts.value.as_ref();
    if let Some(facts) = facts.filter(|facts| !facts.slot_state.is_empty()) {
        let style = if facts.slot_state == GOOD { Style::new() } else { theme.warning() };
        words.push(Span::styled(format!("slot {}", facts.slot_state), style));
    }
    if let Some(seconds) = facts.and_then(|facts| facts.clock_ahead_seconds) {
        let is_right = seconds.unsigned_abs() <= MAX_CLOCK_DIFFERENCE;
        let style = if is_right { Style::new() } else { theme.bad() };
        words.push(Span::styled(words_of_clock(seconds), style));
    }
    if let Some(None) = &node.tried.value {
        words.push(Span::raw("no try"));
    }
    words
}

fn words_of_try(Try { caller, end }: &Try, now: Timestamp) -> String {
    let left = end.duration_since(now).as_secs().max(0).unsigned_abs();
    // Nobody knows the caller of a try that `osd` has found when it was started.
    let caller = if caller.is_empty() { String::new() } else { format!(" of {caller}") };
    format!("TRY{caller}, taken back in {}", duration(left))
}

fn words_of_clock(ahead_seconds: i64) -> String {
    let difference = ahead_seconds.unsigned_abs();
    match difference <= MAX_CLOCK_DIFFERENCE {
        true => "clock as here".to_owned(),
        false => {
            let way = if ahead_seconds > 0 { "ahead of" } else { "behind" };
            format!("clock {} {way} here", duration(difference))
        }
    }
}

/// The keys.
pub fn help(scene: Scene) -> Line<'static> {
    let Scene { dashboard, theme, .. } = scene;
    if dashboard.is_writing {
        let text = format!(" filter: {}_   Enter keeps it, Esc clears it", dashboard.choice.text);
        return Line::styled(text, theme.warning());
    }
    let other = if dashboard.sort == Sorted::Cpu { "memory" } else { "CPU" };
    let node = if dashboard.nodes().len() > 1 { "  n node" } else { "" };
    let end = if dashboard.lines_below > 0 { "  End follow" } else { "" };
    let text =
        format!(" q quit  1-4 Tab view{node}  ↑↓ scroll{end}  / filter  l log  m by {other}");
    Line::styled(text, theme.dim())
}

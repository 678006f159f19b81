//! The load: processors, memory and disk, with their last values.

use super::columns::used;
use super::{Scene, grey_if_old, part};
use crate::dashboard::history::History;
use crate::dashboard::node::{Node, Usage, percent_used};
use osbuild_cosi::v1::GetUsageResponse;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};

/// The columns of a name, a value, a share, and a share of the time.
const NAME: usize = 8;
const VALUE: usize = 27;
const SHARE: usize = 7;
const WAIT: usize = 12;

/// The blanks in a line.
const BLANKS: usize = 5;

/// From which share on something is short, in percent.
const HIGH_USE: f64 = 90.0;
const HIGH_WAIT: f64 = 20.0;

/// A line: what is used, and for how long processes waited for it.
struct Row<'a> {
    name: &'static str,
    value: String,
    percent: f64,
    history: &'a History,
    /// The name of its pressure.
    resource: &'static str,
    wait_history: &'a History,
}

/// Draws the load.
pub fn draw(frame: &mut Frame, scene: Scene, area: Rect) {
    let node = scene.dashboard.node();
    let inner = part(frame, scene, area, "load", node.usage.error.as_deref());
    let Some(Usage { usage, .. }) = &node.usage.value else { return };
    let lines = rows(node, usage).map(|row| line(&row, usage, scene, inner.width));
    frame.render_widget(Text::from_iter(lines), inner);
    grey_if_old(frame, scene, inner, &node.usage);
}

fn rows<'a>(node: &'a Node, usage: &GetUsageResponse) -> [Row<'a>; 3] {
    let rates = node.usage.value.as_ref().and_then(|usage| usage.rates.as_ref());
    let processor = rates.map(|rates| rates.processor_percent);
    let share = processor.map_or("…".to_owned(), |percent| format!("{percent:.1}"));
    let load = format!("load {:.2}", usage.load_1_minute);
    let data = usage.data.unwrap_or_default();
    let in_use = match data.bytes {
        0 => "unknown".to_owned(),
        bytes => used(bytes, data.free_bytes),
    };
    let (histories, memory) = (&node.histories, usage.memory_bytes);
    [
        Row {
            name: "CPU",
            value: format!("{share} % of {}, {load}", usage.processors),
            percent: processor.unwrap_or_default(),
            history: &histories.processor,
            resource: "processor",
            wait_history: &histories.wait_for_processor,
        },
        Row {
            name: "memory",
            value: used(memory, usage.available_memory_bytes),
            percent: percent_used(memory, usage.available_memory_bytes),
            history: &histories.memory,
            resource: "memory",
            wait_history: &histories.wait_for_memory,
        },
        Row {
            name: "DATA",
            value: in_use,
            percent: percent_used(data.bytes, data.free_bytes),
            history: &histories.data,
            resource: "disk",
            wait_history: &histories.wait_for_disk,
        },
    ]
}

fn line(row: &Row, usage: &GetUsageResponse, scene: Scene, width: u16) -> Line<'static> {
    let theme = scene.theme;
    let pressure = usage.pressures.iter().find(|one| one.resource == row.resource);
    let wait = pressure.map(|one| one.percent_10_seconds);
    let words = wait.map_or("wait unknown".to_owned(), |percent| format!("wait {percent:.1} %"));
    let bars = usize::from(width).saturating_sub(NAME + VALUE + SHARE + WAIT + BLANKS);
    let wait_bars = bars * 2 / 5;
    let bars = bars - wait_bars;
    let style = |is_high| if is_high { theme.bad() } else { Style::new() };
    let share = format!("{:>1$.1} %", row.percent, SHARE - 2);
    Line::from(vec![
        Span::styled(format!(" {:<NAME$}", row.name), theme.name()),
        Span::raw(format!("{:<VALUE$}", row.value)),
        Span::styled(share, style(row.percent >= HIGH_USE)),
        Span::raw(" "),
        Span::styled(row.history.bars(bars), theme.line()),
        Span::styled(
            format!("  {words:>WAIT$} "),
            style(wait.is_some_and(|percent| percent >= HIGH_WAIT)),
        ),
        Span::styled(row.wait_history.bars(wait_bars), theme.line()),
    ])
}

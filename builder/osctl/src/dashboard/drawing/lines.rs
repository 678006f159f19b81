//! The newest lines of the logs, the newest at the bottom.

use super::columns::wrapped;
use super::{Scene, part};
use crate::dashboard::action::View;
use crate::dashboard::log::{Line as LogLine, Severity};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use std::collections::VecDeque;

/// The columns of a log's name.
const NAME: usize = 11;

/// Draws the lines that the user has chosen.
pub fn draw(frame: &mut Frame, scene: Scene, area: Rect) {
    let dashboard = scene.dashboard;
    let (log, choice) = (&dashboard.node().log, &dashboard.choice);
    let chosen = log.chosen(choice);
    let end = chosen.len().saturating_sub(dashboard.lines_below);
    let mut title = format!("4 log: {}", choice.log.as_deref().unwrap_or("all"));
    if !choice.text.is_empty() {
        title += &format!(", with `{}`: {} found", choice.text, chosen.len());
    }
    if dashboard.lines_below > 0 {
        title += &format!(", {} newer lines below", dashboard.lines_below);
    }
    let inner = part(frame, scene, area, &title, None);
    let height = usize::from(inner.height);
    // From the newest line upwards, until the screen is full.
    let mut rows = VecDeque::new();
    for one in chosen[..end].iter().rev() {
        for row in self::rows(one, scene, usize::from(inner.width)).into_iter().rev() {
            rows.push_front(row);
        }
        if rows.len() >= height {
            break;
        }
    }
    let cut = rows.len().saturating_sub(height);
    frame.render_widget(Text::from_iter(rows.into_iter().skip(cut)), inner);
}

/// A line of a log. The view of the log has all of it; otherwise it is cut.
fn rows<'a>(line: &'a LogLine, scene: Scene, width: usize) -> Vec<Line<'a>> {
    let LogLine { log, text, severity } = line;
    let style = match severity {
        Severity::Error => scene.theme.bad(),
        Severity::Warning => scene.theme.warning(),
        Severity::Other => Style::new(),
    };
    let parts = match scene.dashboard.view {
        View::Log => wrapped(text, width.saturating_sub(NAME + 2)),
        _ => vec![text.as_str()],
    };
    let row = |(index, part)| {
        let name = if index == 0 { log.as_str() } else { "" };
        Line::from(vec![
            Span::styled(format!(" {name:<NAME$} "), scene.theme.dim()),
            Span::styled(part, style),
        ])
    };
    parts.into_iter().enumerate().map(row).collect()
}

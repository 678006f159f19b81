//! The frame: what the screen shows of a dashboard at one moment.

mod columns;
mod head;
mod lines;
mod load;
mod network;
mod pods;
#[cfg(test)]
mod tests;

use super::action::View;
use super::node::{Connection, Part};
use super::state::Dashboard;
use super::theme::Theme;
use crate::error::is_deceptive;
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};

/// The smallest screen on which anything can be read.
const MIN_SIZE: (u16, u16) = (40, 12);

/// The columns from which pods and network are beside each other.
const WIDE: u16 = 120;

/// The lines of the load, with its title.
const LOAD_LINES: u16 = 4;

/// The input for drawing each part of the screen.
#[derive(Clone, Copy)]
struct Scene<'a> {
    dashboard: &'a Dashboard,
    theme: Theme,
    now: Timestamp,
}

/// Draws the dashboard as it is at `now`.
pub fn draw(frame: &mut Frame, dashboard: &Dashboard, theme: Theme, now: Timestamp) {
    let area = frame.area();
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        let (width, height) = MIN_SIZE;
        frame.render_widget(Line::from(format!("needs {width} × {height} characters")), area);
        return;
    }
    let scene = Scene { dashboard, theme, now };
    let words = head::state(scene);
    // The state lists all problems, which may need a second line.
    let state_lines = if words.width() > usize::from(area.width - 2) { 2 } else { 1 };
    let node_lines = u16::from(dashboard.nodes().len() > 1);
    let [nodes, head, state, body, help] = Layout::vertical([
        Constraint::Length(node_lines),
        Constraint::Length(1),
        Constraint::Length(state_lines),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    if node_lines > 0 {
        frame.render_widget(head::nodes(scene, nodes.width), nodes);
    }
    frame.render_widget(head::title(scene, head.width), head);
    let state = state.inner(Margin::new(1, 0));
    frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), state);
    draw_body(frame, scene, body);
    frame.render_widget(head::help(scene), help);
    if !matches!(dashboard.node().connection, Connection::Open) {
        frame.buffer_mut().set_style(body, theme.dim());
    }
    replace_deceptive(frame.buffer_mut());
}

fn draw_body(frame: &mut Frame, scene: Scene, area: Rect) {
    let [load, rest] =
        Layout::vertical([Constraint::Length(LOAD_LINES), Constraint::Fill(1)]).areas(area);
    load::draw(frame, scene, load);
    match scene.dashboard.view {
        View::Overview if area.width >= WIDE => {
            let [middle, log] =
                Layout::vertical([Constraint::Percentage(40), Constraint::Fill(1)]).areas(rest);
            let [pods, network] =
                Layout::horizontal([Constraint::Percentage(45), Constraint::Fill(1)])
                    .spacing(1)
                    .areas(middle);
            pods::draw_pods(frame, scene, pods);
            network::draw_overview(frame, scene, network);
            lines::draw(frame, scene, log);
        }
        View::Overview => {
            let [pods, network, log] = Layout::vertical([
                Constraint::Length((rest.height * 3 / 10).clamp(2, 12)),
                Constraint::Length((rest.height / 4).clamp(2, 8)),
                Constraint::Fill(1),
            ])
            .areas(rest);
            pods::draw_pods(frame, scene, pods);
            network::draw_overview(frame, scene, network);
            lines::draw(frame, scene, log);
        }
        View::Pods => {
            let [pods, processes] =
                Layout::vertical([Constraint::Percentage(40), Constraint::Fill(1)]).areas(rest);
            pods::draw_pods(frame, scene, pods);
            pods::draw_processes(frame, scene, processes);
        }
        View::Network => network::draw(frame, scene, rest),
        View::Log => lines::draw(frame, scene, rest),
    }
}

/// A part with a title over it, and why it is not newer if it is old. Returns what is left of the
/// area.
fn part(frame: &mut Frame, scene: Scene, area: Rect, title: &str, error: Option<&str>) -> Rect {
    let mut spans = vec![Span::styled(format!("{title} "), scene.theme.name())];
    let is_open = scene.dashboard.node().connection == Connection::Open;
    if let Some(error) = error.filter(|_| is_open) {
        spans.push(Span::styled(format!("{error} "), scene.theme.bad()));
    }
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(scene.theme.line())
        .title(Line::from(spans));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

/// Greys the values of a part whose last call has failed.
fn grey_if_old<T>(frame: &mut Frame, scene: Scene, area: Rect, part: &Part<T>) {
    if part.error.is_some() {
        frame.buffer_mut().set_style(area, scene.theme.dim());
    }
}

/// Replaces what a terminal might obey, wherever it came from. Texts of a node have none of it, as
/// they are cleaned when they are taken.
fn replace_deceptive(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if cell.symbol().contains(is_deceptive) {
            cell.set_symbol("?");
        }
    }
}

//! The network: gateways, name servers and links with their rates.

use super::columns::rate;
use super::{Scene, grey_if_old, part};
use crate::dashboard::network::{Link, Network};
use crate::dashboard::untrusted::clean;
use osbuild_cosi::v1::LinkUsage;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Row, Table};

/// Draws the gateways, the name servers and the first links.
pub fn draw_overview(frame: &mut Frame, scene: Scene, area: Rect) {
    let node = scene.dashboard.node();
    let inner = part(frame, scene, area, "3 network", node.network.error.as_deref());
    let Some(network) = &node.network.value else { return };
    let [first, rest] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(inner);
    frame.render_widget(ways(network, scene), first);
    let rows = network.links.iter().take(usize::from(rest.height)).map(|link| {
        let [received, sent] = rates(link, scene);
        let first = link.addresses.first().cloned().unwrap_or_default();
        Row::new([
            Text::raw(format!(" {}", link.name)),
            Text::styled(state(link), state_style(link, scene)),
            Text::raw(first),
            Text::raw(format!("↓ {received}")).right_aligned(),
            Text::raw(format!("↑ {sent}")).right_aligned(),
        ])
    });
    let widths = [
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Fill(1),
        Constraint::Length(13),
        Constraint::Length(13),
    ];
    frame.render_widget(Table::new(rows, widths), rest);
    grey_if_old(frame, scene, inner, &node.network);
}

/// Draws all of it, from the link to which the user has scrolled.
pub fn draw(frame: &mut Frame, scene: Scene, area: Rect) {
    let node = scene.dashboard.node();
    let inner = part(frame, scene, area, "3 network", node.network.error.as_deref());
    let Some(network) = &node.network.value else { return };
    let mut lines = Text::from(ways(network, scene));
    for link in network.links.iter().skip(scene.dashboard.rows_above) {
        if lines.height() >= usize::from(inner.height) {
            break;
        }
        lines.extend(lines_of(link, scene));
    }
    frame.render_widget(lines, inner);
    grey_if_old(frame, scene, inner, &node.network);
}

/// The default gateways and the name servers.
fn ways(network: &Network, scene: Scene) -> Line<'static> {
    let Network { gateways, name_servers, name_servers_source: source, .. } = network;
    let name = |text: &'static str| Span::styled(text, scene.theme.name());
    let list = |all: &[String]| match all.is_empty() {
        true => Span::styled("none", scene.theme.bad()),
        false => Span::raw(all.join(", ")),
    };
    let mut spans = vec![name(" gateway "), list(gateways), name("  DNS "), list(name_servers)];
    if !source.is_empty() {
        spans.push(Span::raw(format!(" from {source}")));
    }
    Line::from(spans)
}

/// A link with its addresses and counters.
fn lines_of(link: &Link, scene: Scene) -> Vec<Line<'static>> {
    let [received, sent] = rates(link, scene);
    let kind = if link.kind.is_empty() { String::new() } else { format!(", {}", link.kind) };
    let first = Line::from(vec![
        Span::styled(format!(" {}  ", link.name), scene.theme.name()),
        Span::styled(state(link), state_style(link, scene)),
        Span::raw(format!("{kind}, MTU {}  {}", link.mtu, link.hardware_address)),
        Span::raw(format!("  {received} in, {sent} out")),
    ]);
    let mut lines = vec![first];
    lines.extend(link.addresses.iter().map(|address| Line::from(format!("     {address}"))));
    if let Some(counters) = counters(link, scene).filter(|one| one.errors.max(one.dropped) > 0) {
        let LinkUsage { errors, dropped, .. } = counters;
        let text = format!("     {errors} packets with errors, {dropped} dropped since boot");
        lines.push(Line::styled(text, scene.theme.warning()));
    }
    lines
}

fn counters<'a>(link: &Link, scene: Scene<'a>) -> Option<&'a LinkUsage> {
    let usage = scene.dashboard.node().usage.value.as_ref()?;
    usage.usage.links.iter().find(|one| clean(&one.name) == link.name)
}

/// The rates at which a link receives and sends; `…` while they are unknown.
fn rates(link: &Link, scene: Scene) -> [String; 2] {
    let usage = scene.dashboard.node().usage.value.as_ref();
    let rates = usage.and_then(|usage| usage.rates.as_ref());
    let found =
        rates.and_then(|rates| rates.links.iter().find(|one| clean(&one.name) == link.name));
    found.map_or(["…", "…"].map(str::to_owned), |one| {
        [rate(one.received_bytes_per_second), rate(one.sent_bytes_per_second)]
    })
}

fn state(link: &Link) -> String {
    match link.has_carrier {
        true => link.state.clone(),
        false => "no carrier".to_owned(),
    }
}

fn state_style(link: &Link, scene: Scene) -> Style {
    match link.has_carrier {
        true => scene.theme.good(),
        false => scene.theme.warning(),
    }
}

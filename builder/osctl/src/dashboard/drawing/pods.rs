//! Pods and processes, with what uses most first.

use super::columns::order;
use super::{Scene, grey_if_old, part};
use crate::cli::Sorted;
use crate::dashboard::action::View;
use crate::dashboard::untrusted::clean;
use crate::rates::{PodUse, ProcessUse, Rates};
use crate::verbs::mebibytes;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Text;
use ratatui::widgets::{Row, Table};

/// Draws the pods.
pub fn draw_pods(frame: &mut Frame, scene: Scene, area: Rect) {
    let title = format!("2 pods {}", order(scene.dashboard.sort));
    // The error of the load is the same.
    let inner = part(frame, scene, area, &title, None);
    let Some(rates) = rates(scene) else { return };
    let rows = rates.pods.iter().take(usize::from(inner.height)).map(|one| {
        let PodUse { pod, processor_percent, memory_bytes } = one;
        Row::new([
            Text::raw(format!(" {}", name(pod))),
            percent(*processor_percent),
            size(*memory_bytes),
        ])
    });
    let widths = [Constraint::Fill(1), Constraint::Length(8), Constraint::Length(11)];
    frame.render_widget(Table::new(rows, widths), inner);
    grey_if_old(frame, scene, inner, &scene.dashboard.node().usage);
}

/// Draws the processes, from the row to which the user has scrolled.
pub fn draw_processes(frame: &mut Frame, scene: Scene, area: Rect) {
    let inner = part(frame, scene, area, "processes", None);
    let Some(rates) = rates(scene) else { return };
    let above = if scene.dashboard.view == View::Pods { scene.dashboard.rows_above } else { 0 };
    let header = ["    PID", "NAME", "      CPU", "      MEMORY", " POD"];
    let rows = rates.processes.iter().skip(above).take(usize::from(inner.height)).map(|one| {
        let ProcessUse { pid, name: process, pod, processor_percent, memory_bytes } = one;
        Row::new([
            Text::raw(pid.to_string()).right_aligned(),
            Text::raw(clean(process)),
            percent(*processor_percent),
            size(*memory_bytes),
            Text::raw(format!(" {}", clean(pod))),
        ])
    });
    let widths = [
        Constraint::Length(7),
        Constraint::Length(16),
        Constraint::Length(9),
        Constraint::Length(12),
        Constraint::Fill(1),
    ];
    let header = Row::new(header).style(scene.theme.name());
    frame.render_widget(Table::new(rows, widths).header(header), inner);
    grey_if_old(frame, scene, inner, &scene.dashboard.node().usage);
}

/// The use, in the order that the user wants.
fn rates(scene: Scene) -> Option<Rates> {
    let usage = scene.dashboard.node().usage.value.as_ref()?;
    let mut rates = usage.rates.clone()?;
    if scene.dashboard.sort == Sorted::Memory {
        rates.sort_by_memory();
    }
    Some(rates)
}

fn name(pod: &str) -> String {
    match pod.is_empty() {
        true => "(no pod)".to_owned(),
        false => clean(pod),
    }
}

fn percent(percent: f64) -> Text<'static> {
    Text::raw(format!("{percent:.1} %")).right_aligned()
}

fn size(bytes: u64) -> Text<'static> {
    Text::raw(mebibytes(bytes)).right_aligned()
}

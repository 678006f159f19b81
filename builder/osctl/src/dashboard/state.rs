//! The nodes, and what the user wants to see of them.

use super::action::{Action, Scroll, View};
use super::log::{Choice, Line};
use super::node::Node;
use super::reading::Reading;
use crate::cli::Sorted;
use jiff::Timestamp;
use std::ops::ControlFlow;

/// The characters of a filter.
const MAX_FILTER: usize = 60;

/// The content of the screen.
#[derive(Debug)]
pub struct Dashboard {
    /// The nodes, at least one.
    nodes: Vec<Node>,
    /// The index of the one that is shown.
    selected: usize,
    /// The view of that node.
    pub view: View,
    /// The order of pods and processes.
    pub sort: Sorted,
    /// Which lines of the log are shown.
    pub choice: Choice,
    /// Whether the filter of the log is being written.
    pub is_writing: bool,
    /// How many chosen lines are newer than the last one on the screen.
    pub lines_below: usize,
    /// How many rows of a list are above the first one on the screen.
    pub rows_above: usize,
}

impl Dashboard {
    /// The dashboard of these nodes, at least one.
    pub fn new(nodes: Vec<Node>) -> Dashboard {
        assert!(!nodes.is_empty(), "a dashboard has a node");
        Dashboard {
            nodes,
            selected: 0,
            view: View::Overview,
            sort: Sorted::Cpu,
            choice: Choice::default(),
            is_writing: false,
            lines_below: 0,
            rows_above: 0,
        }
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The index of the node that is shown.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// The node that is shown.
    pub fn node(&self) -> &Node {
        &self.nodes[self.selected]
    }

    /// Takes a reading of the node with this index.
    pub fn take(&mut self, index: usize, reading: Reading, now: Timestamp) {
        if let (Reading::Lines(lines), true) = (&reading, index == self.selected) {
            self.hold(lines);
        }
        self.nodes[index].take(reading, now);
        if index == self.selected {
            self.clamp();
        }
    }

    /// Keeps the lines on the screen where they are if the user has scrolled up.
    fn hold(&mut self, new: &[Line]) {
        if self.lines_below > 0 {
            self.lines_below += new.iter().filter(|line| self.choice.has(line)).count();
        }
    }

    /// Does what a key does. Breaks if the user leaves.
    pub fn act(&mut self, action: Action) -> ControlFlow<()> {
        match action {
            Action::Quit => return ControlFlow::Break(()),
            Action::Show(view) => self.show(view),
            Action::NextView => self.show(self.view.after(1)),
            Action::PreviousView => self.show(self.view.after(View::ALL.len() - 1)),
            Action::NextNode => self.select(1),
            Action::PreviousNode => self.select(self.nodes.len() - 1),
            Action::Scroll(scroll) => self.scroll(scroll),
            Action::SortOther => {
                self.sort = if self.sort == Sorted::Cpu { Sorted::Memory } else { Sorted::Cpu };
            }
            Action::NextLog => self.choose_next_log(),
            Action::EditFilter => self.is_writing = true,
            Action::Write(character) => {
                if self.choice.text.chars().count() < MAX_FILTER && !character.is_control() {
                    self.choice.text.push(character);
                }
            }
            Action::Erase => drop(self.choice.text.pop()),
            Action::KeepFilter => self.is_writing = false,
            Action::ClearFilter => {
                self.is_writing = false;
                self.choice.text.clear();
            }
        }
        self.clamp();
        ControlFlow::Continue(())
    }

    fn show(&mut self, view: View) {
        (self.view, self.rows_above) = (view, 0);
    }

    fn select(&mut self, steps: usize) {
        self.selected = (self.selected + steps) % self.nodes.len();
        (self.lines_below, self.rows_above) = (0, 0);
    }

    fn scroll(&mut self, scroll: Scroll) {
        let (up, down) = match scroll {
            Scroll::Up(lines) => (lines, 0),
            Scroll::Down(lines) => (0, lines),
            Scroll::Start => (usize::MAX, 0),
            Scroll::End => (0, usize::MAX),
        };
        match self.view {
            View::Overview | View::Log => {
                self.lines_below = self.lines_below.saturating_add(up).saturating_sub(down);
            }
            View::Pods | View::Network => {
                self.rows_above = self.rows_above.saturating_add(down).saturating_sub(up);
            }
        }
    }

    fn choose_next_log(&mut self) {
        let names = self.node().log.names();
        let next = match &self.choice.log {
            None => names.first(),
            Some(log) => names.iter().find(|name| **name > log.as_str()),
        };
        self.choice.log = next.map(|name| (*name).to_owned());
    }

    /// Keeps a line and a row on the screen.
    fn clamp(&mut self) {
        self.rows_above = self.rows_above.min(self.rows().saturating_sub(1));
        if self.lines_below == 0 {
            return;
        }
        let lines = self.node().log.chosen(&self.choice).len().saturating_sub(1);
        self.lines_below = self.lines_below.min(lines);
    }

    /// The rows of the list that is scrolled.
    fn rows(&self) -> usize {
        let node = self.node();
        match self.view {
            View::Overview | View::Log => 0,
            View::Pods => {
                let rates = node.usage.value.as_ref().and_then(|usage| usage.rates.as_ref());
                rates.map_or(0, |rates| rates.processes.len())
            }
            View::Network => node.network.value.as_ref().map_or(0, |one| one.links.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_cosi::v1::LogLine;

    fn dashboard() -> Dashboard {
        Dashboard::new(["a", "b"].map(|name| Node::new(name, "127.0.0.1:50000")).into())
    }

    fn write(dashboard: &mut Dashboard, log: &str, lines: std::ops::Range<usize>) {
        for number in lines {
            let line = LogLine { text: format!("line {number}"), ..LogLine::default() };
            let lines = Line::of_daemon(log, &line);
            dashboard.take(0, Reading::Lines(lines), Timestamp::UNIX_EPOCH);
        }
    }

    fn act(dashboard: &mut Dashboard, actions: &[Action]) {
        for action in actions {
            assert_eq!(dashboard.act(*action), ControlFlow::Continue(()));
        }
    }

    #[test]
    fn a_screen_that_was_scrolled_up_stays_and_the_end_is_followed() {
        let mut dashboard = dashboard();
        write(&mut dashboard, "init", 0..50);
        assert_eq!(dashboard.lines_below, 0);
        act(&mut dashboard, &[Action::Scroll(Scroll::Up(10))]);
        write(&mut dashboard, "init", 50..55);
        assert_eq!(dashboard.lines_below, 15);
        act(&mut dashboard, &[Action::Scroll(Scroll::Start)]);
        assert_eq!(dashboard.lines_below, 54);
        act(&mut dashboard, &[Action::Scroll(Scroll::End)]);
        write(&mut dashboard, "init", 55..60);
        assert_eq!(dashboard.lines_below, 0);
    }

    #[test]
    fn only_chosen_lines_count() {
        let mut dashboard = dashboard();
        write(&mut dashboard, "init", 0..20);
        write(&mut dashboard, "kubelet", 0..5);
        act(&mut dashboard, &[Action::NextLog, Action::NextLog]);
        assert_eq!(dashboard.choice.log.as_deref(), Some("kubelet"));
        act(&mut dashboard, &[Action::Scroll(Scroll::Start)]);
        assert_eq!(dashboard.lines_below, 4);
        write(&mut dashboard, "init", 20..30);
        assert_eq!(dashboard.lines_below, 4);
        act(&mut dashboard, &[Action::NextLog]);
        assert_eq!(dashboard.choice.log, None);
    }

    #[test]
    fn a_filter_is_written_kept_and_cleared() {
        let mut dashboard = dashboard();
        write(&mut dashboard, "init", 0..20);
        act(&mut dashboard, &[Action::EditFilter, Action::Write('1'), Action::Write('x')]);
        act(&mut dashboard, &[Action::Erase, Action::KeepFilter]);
        assert_eq!((dashboard.choice.text.as_str(), dashboard.is_writing), ("1", false));
        assert_eq!(dashboard.node().log.chosen(&dashboard.choice).len(), 11);
        act(&mut dashboard, &[Action::ClearFilter]);
        assert_eq!(dashboard.node().log.chosen(&dashboard.choice).len(), 20);
        (0..500).for_each(|_| act(&mut dashboard, &[Action::Write('a')]));
        assert_eq!(dashboard.choice.text.len(), MAX_FILTER);
    }

    #[test]
    fn a_log_that_begins_again_leaves_a_line_on_the_screen() {
        let mut dashboard = dashboard();
        write(&mut dashboard, "init", 0..50);
        write(&mut dashboard, "kubelet", 0..2);
        act(&mut dashboard, &[Action::Scroll(Scroll::Start)]);
        dashboard.take(0, Reading::LogBegins("init".into()), Timestamp::UNIX_EPOCH);
        assert_eq!(dashboard.lines_below, 1);
    }

    #[test]
    fn nodes_go_round() {
        let mut dashboard = dashboard();
        act(&mut dashboard, &[Action::NextNode]);
        assert_eq!(dashboard.node().name, "b");
        act(&mut dashboard, &[Action::NextNode]);
        assert_eq!(dashboard.node().name, "a");
        act(&mut dashboard, &[Action::PreviousNode]);
        assert_eq!(dashboard.node().name, "b");
        assert_eq!(dashboard.act(Action::Quit), ControlFlow::Break(()));
    }
}

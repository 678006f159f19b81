//! The keys of the dashboard and their actions.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A view: the content of the screen below its first lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Something of everything.
    #[default]
    Overview,
    /// Pods and processes.
    Pods,
    /// The network.
    Network,
    /// The log.
    Log,
}

impl View {
    /// All views, in order of their keys from `1` on.
    pub const ALL: [View; 4] = [View::Overview, View::Pods, View::Network, View::Log];

    /// The view that is so many after this one.
    pub fn after(self, steps: usize) -> View {
        let at = View::ALL.iter().position(|view| *view == self).unwrap_or_default();
        View::ALL[(at + steps) % View::ALL.len()]
    }
}

/// Where the lines that are shown move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scroll {
    /// To older lines, or up in a list, by so many.
    Up(usize),
    /// To newer lines, or down, by so many.
    Down(usize),
    /// To the oldest line, or the start of a list.
    Start,
    /// To the newest line, which is followed, or the end of a list.
    End,
}

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leaves.
    Quit,
    /// Shows a view.
    Show(View),
    /// Shows the next view.
    NextView,
    /// Shows the view before.
    PreviousView,
    /// Shows the next node.
    NextNode,
    /// Shows the node before.
    PreviousNode,
    /// Moves.
    Scroll(Scroll),
    /// Sorts by the other use, of processors or memory.
    SortOther,
    /// Shows the next log alone, and after the last one all of them.
    NextLog,
    /// Begins to write the filter of the log.
    EditFilter,
    /// Adds a character to it.
    Write(char),
    /// Removes its last character.
    Erase,
    /// Ends writing it.
    KeepFilter,
    /// Removes it.
    ClearFilter,
}

/// The lines by which the keys for pages move.
const PAGE: usize = 10;

/// The action of a key, if it has one. `is_writing` means that the user writes the filter, so a
/// character is text.
pub fn action(key: KeyEvent, is_writing: bool) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        // In raw mode a terminal sends no SIGINT.
        KeyCode::Char('c') if with_control => Some(Action::Quit),
        KeyCode::Char(_) if with_control || key.modifiers.contains(KeyModifiers::ALT) => None,
        code if is_writing => match code {
            KeyCode::Char(character) => Some(Action::Write(character)),
            KeyCode::Backspace => Some(Action::Erase),
            KeyCode::Enter => Some(Action::KeepFilter),
            KeyCode::Esc => Some(Action::ClearFilter),
            _ => None,
        },
        code => command(code),
    }
}

fn command(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Char(digit @ '1'..='4') => {
            Action::Show(View::ALL[usize::try_from(u32::from(digit) - u32::from('1')).ok()?])
        }
        KeyCode::Tab => Action::NextView,
        KeyCode::BackTab => Action::PreviousView,
        KeyCode::Char('n') | KeyCode::Right => Action::NextNode,
        KeyCode::Char('p') | KeyCode::Left => Action::PreviousNode,
        KeyCode::Char('m') => Action::SortOther,
        KeyCode::Char('l') => Action::NextLog,
        KeyCode::Char('/') => Action::EditFilter,
        KeyCode::Esc => Action::ClearFilter,
        KeyCode::Up | KeyCode::Char('k') => Action::Scroll(Scroll::Up(1)),
        KeyCode::Down | KeyCode::Char('j') => Action::Scroll(Scroll::Down(1)),
        KeyCode::PageUp => Action::Scroll(Scroll::Up(PAGE)),
        KeyCode::PageDown => Action::Scroll(Scroll::Down(PAGE)),
        KeyCode::Home => Action::Scroll(Scroll::Start),
        KeyCode::End => Action::Scroll(Scroll::End),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_text_while_the_filter_is_written() {
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        assert_eq!(action(key(KeyCode::Char('q')), false), Some(Action::Quit));
        assert_eq!(action(key(KeyCode::Char('q')), true), Some(Action::Write('q')));
        assert_eq!(action(key(KeyCode::Char('3')), false), Some(Action::Show(View::Network)));
        assert_eq!(action(key(KeyCode::Char('5')), false), None);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(control_c, false), Some(Action::Quit));
        assert_eq!(action(control_c, true), Some(Action::Quit));
        let control_q = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::CONTROL);
        assert_eq!(action(control_q, false), None);
    }

    #[test]
    fn views_go_round() {
        assert_eq!(View::Log.after(1), View::Overview);
        assert_eq!(View::Overview.after(3), View::Log);
    }
}

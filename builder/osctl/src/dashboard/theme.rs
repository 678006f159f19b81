//! The colours of the screen, or none.

use ratatui::style::{Color, Modifier, Style};

/// How the screen is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// With the colours of the terminal.
    Colours,
    /// Without colours: bold, dim and reversed text alone.
    Plain,
}

impl Theme {
    /// The theme that the user wants: without colours if `NO_COLOR` is set and not empty.
    pub fn of_user() -> Theme {
        match std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            true => Theme::Plain,
            false => Theme::Colours,
        }
    }

    fn coloured(self, colour: Color, plain: Modifier) -> Style {
        match self {
            Theme::Colours => Style::new().fg(colour),
            Theme::Plain => Style::new().add_modifier(plain),
        }
    }

    /// The style of a good state.
    pub fn good(self) -> Style {
        self.coloured(Color::Green, Modifier::empty())
    }

    /// The style of an error or a bad state.
    pub fn bad(self) -> Style {
        self.coloured(Color::Red, Modifier::BOLD).add_modifier(Modifier::BOLD)
    }

    /// The style of a warning.
    pub fn warning(self) -> Style {
        self.coloured(Color::Yellow, Modifier::BOLD)
    }

    /// Bars and lines.
    pub fn line(self) -> Style {
        self.coloured(Color::Cyan, Modifier::empty())
    }

    /// The first line.
    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    /// The names of parts and columns.
    pub fn name(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The style of old values and of explanations.
    pub fn dim(self) -> Style {
        self.coloured(Color::DarkGray, Modifier::DIM)
    }
}

//! The last values of a share, and their picture in one line of text.

use std::collections::VecDeque;

/// The values that are kept: more than a wide terminal shows.
const MAX_VALUES: usize = 300;

/// The pictures of an eighth to the whole.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The last values, in percent.
#[derive(Debug, Default)]
pub struct History(VecDeque<f64>);

impl History {
    /// Adds the newest value.
    pub fn push(&mut self, percent: f64) {
        if self.0.len() == MAX_VALUES {
            self.0.pop_front();
        }
        self.0.push_back(percent);
    }

    /// The newest values as bars, of which the last one is at the right end of `width` characters.
    pub fn bars(&self, width: usize) -> String {
        let shown = self.0.len().min(width);
        let bars = self.0.iter().skip(self.0.len() - shown).map(|percent| bar(*percent));
        std::iter::repeat_n(' ', width - shown).chain(bars).collect()
    }
}

fn bar(percent: f64) -> char {
    // A node may send anything, such as infinity; the cast saturates.
    let level = (percent / 100.0 * BARS.len() as f64) as usize;
    BARS[level.min(BARS.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_is_at_the_right_end() {
        let mut history = History::default();
        assert_eq!(history.bars(3), "   ");
        [0.0, 50.0, 100.0].into_iter().for_each(|percent| history.push(percent));
        assert_eq!(history.bars(5), "  ▁▅█");
        assert_eq!(history.bars(2), "▅█");
        assert_eq!(history.bars(0), "");
    }

    #[test]
    fn no_value_of_a_node_is_out_of_range() {
        let mut history = History::default();
        for percent in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -5.0, 1e300] {
            history.push(percent);
        }
        assert_eq!(history.bars(5), "▁█▁▁█");
    }

    #[test]
    fn old_values_are_forgotten() {
        let mut history = History::default();
        (0..10_000).for_each(|_| history.push(1.0));
        assert_eq!(history.0.len(), MAX_VALUES);
    }
}

//! Texts of a certain width, and numbers in words.

use crate::cli::Sorted;
use ratatui::text::Span;

/// The two texts at the ends of a line. The left one is cut if both do not fit.
pub fn ends(left: &str, right: &str, width: u16) -> String {
    let room = usize::from(width).saturating_sub(columns(right));
    let mut cut = String::new();
    for character in left.chars() {
        cut.push(character);
        if columns(&cut) > room {
            cut.pop();
            break;
        }
    }
    let gap = room.saturating_sub(columns(&cut));
    format!("{cut}{}{right}", " ".repeat(gap))
}

/// The text in parts of at most `width` columns, at least one.
pub fn wrapped(text: &str, width: usize) -> Vec<&str> {
    let (mut parts, mut start, mut filled) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        let columns = columns(character.encode_utf8(&mut [0; 4]));
        if filled + columns > width && at > start {
            parts.push(&text[start..at]);
            (start, filled) = (at, 0);
        }
        filled += columns;
    }
    parts.push(&text[start..]);
    parts
}

/// The columns that a terminal needs for a text.
pub fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// A time in its two largest units.
pub fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// How much of all is used, in a unit that fits all.
pub fn used(all: u64, free: u64) -> String {
    let used = all.saturating_sub(free);
    match all >> 30 {
        0..10 => format!("{} of {} MiB", used >> 20, all >> 20),
        _ => {
            let gibibytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            format!("{:.1} of {:.1} GiB", gibibytes(used), gibibytes(all))
        }
    }
}

/// Bytes a second.
pub fn rate(bytes: f64) -> String {
    match bytes {
        0.0..1_048_576.0 => format!("{:.1} KiB/s", bytes / 1024.0),
        _ => format!("{:.1} MiB/s", bytes / 1_048_576.0),
    }
}

/// The label for the order of a list.
pub fn order(sort: Sorted) -> &'static str {
    match sort {
        Sorted::Cpu => "by CPU",
        Sorted::Memory => "by memory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_two_units() {
        let times = [59, 60, 3600, 86_399, 86_400, 90_000].map(duration);
        let words = ["59 s", "1 min 0 s", "1 h 0 min", "23 h 59 min", "1 d 0 h", "1 d 1 h"];
        assert_eq!(times, words);
    }

    #[test]
    fn the_left_text_gives_way() {
        assert_eq!(ends("ab", "c", 5), "ab  c");
        assert_eq!(ends("abcdef", "xy", 5), "abcxy");
        // These take two columns each.
        assert_eq!(ends("日本", "xy", 5), "日 xy");
        assert_eq!(ends("ab", "long", 3), "long");
    }

    #[test]
    fn a_long_text_is_wrapped_by_columns() {
        assert_eq!(wrapped("abcde", 2), ["ab", "cd", "e"]);
        assert_eq!(wrapped("a日本", 3), ["a日", "本"]);
        assert_eq!(wrapped("日本", 1), ["日", "本"]);
        assert_eq!(wrapped("", 5), [""]);
        assert_eq!(wrapped("ab", 0), ["a", "b"]);
    }

    #[test]
    fn sizes_have_a_unit_that_fits() {
        assert_eq!(used(8 << 30, 7 << 30), "1024 of 8192 MiB");
        assert_eq!(used(64 << 30, 65 << 29), "31.5 of 64.0 GiB");
        assert_eq!(used(0, 5), "0 of 0 MiB");
        assert_eq!(rate(f64::INFINITY), "inf MiB/s");
        assert_eq!(rate(2048.0), "2.0 KiB/s");
    }
}

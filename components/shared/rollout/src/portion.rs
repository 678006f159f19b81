//! A part of all nodes.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::PLACES;

/// A percentage of the nodes, above 0 % and up to `100%`, such as `0.25%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Portion(u16);

impl Portion {
    /// All nodes.
    pub const ALL: Portion = Portion(PLACES);

    /// How many of the [`PLACES`] it has.
    pub fn places(self) -> u16 {
        self.0
    }
}

impl TryFrom<String> for Portion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse(&text)
            .filter(|places| (1..=PLACES).contains(places))
            .map(Portion)
            .ok_or_else(|| format!("`{text}` is not a percentage from `0.01%` to `100%`"))
    }
}

/// Hundredths of a percent.
fn parse(text: &str) -> Option<u16> {
    let (whole, fraction) = match text.strip_suffix('%')?.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (text.strip_suffix('%')?, "0"),
    };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = (1..=3).contains(&whole.len()) && (1..=2).contains(&fraction.len());
    if !is_short || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let hundredths: u32 = format!("{fraction:0<2}").parse().ok()?;
    u16::try_from(whole.parse::<u32>().ok()? * 100 + hundredths).ok()
}

impl From<Portion> for String {
    fn from(portion: Portion) -> String {
        portion.to_string()
    }
}

impl Display for Portion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (whole, hundredths) = (self.0 / 100, self.0 % 100);
        match hundredths {
            0 => write!(f, "{whole}%"),
            _ if hundredths % 10 == 0 => write!(f, "{whole}.{}%", hundredths / 10),
            _ => write!(f, "{whole}.{hundredths:02}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_has_at_most_two_decimals() {
        for (text, places) in [("0.01%", 1), ("0.5%", 50), ("0.25%", 25), ("100%", 10_000)] {
            let portion = Portion::try_from(text.to_owned()).unwrap();
            assert_eq!((portion.places(), portion.to_string().as_str()), (places, text));
        }
    }

    #[test]
    fn what_is_no_percentage_is_refused() {
        for wrong in [
            "", "%", "1", "0%", "0.00%", "100.01%", "101%", "999%", "1.%", ".5%", "-1%", "+1%",
            "1.234%", "1 %", "1,5%", "1e1%", "65536%",
        ] {
            assert!(Portion::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_percentage_reads_back() {
        for places in 1..=PLACES {
            let text = Portion(places).to_string();
            assert_eq!(Portion::try_from(text.clone()), Ok(Portion(places)), "{text}");
        }
    }
}

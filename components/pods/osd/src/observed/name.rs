//! Names for the kernel's numbers.

/// The name of a number; the number itself if it has none here.
pub fn of(number: u32, names: &[(u32, &str)]) -> String {
    let found = names.iter().find(|(known, _)| *known == number);
    found.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

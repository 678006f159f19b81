//! The options of mounts, by the names of mount(8).

use std::fmt;

use crate::Refusal;

/// The memory that a tmpfs takes at most if no option says so: 64 MiB.
const DEFAULT_SIZE: TmpfsSize = TmpfsSize(64 << 20);
/// The highest size that can be asked for: 1 TiB.
const MAX_SIZE: u64 = 1 << 40;
/// The maximum number of options that are read.
const MAX_OPTIONS: usize = 16;
/// The units of sizes, largest first.
const UNITS: [(&str, u32); 4] = [("g", 30), ("m", 20), ("k", 10), ("", 0)];

/// The memory that a tmpfs takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmpfsSize(u64);

/// The options of a mount. None of them allows set-user-ID programs or device files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Whether nothing can be written.
    pub read_only: bool,
    /// Whether programs on it can be executed.
    pub exec: bool,
}

impl TmpfsSize {
    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// Reads digits, and perhaps a unit of 1024 bytes to its power: `k`, `m` or `g`.
    fn parse(text: &str) -> Result<Self, Refusal> {
        let lower = text.to_ascii_lowercase();
        let unit = UNITS.iter().find_map(|(unit, bits)| Some((lower.strip_suffix(unit)?, bits)));
        let is_number = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = unit.and_then(|(digits, bits)| {
            Some(digits).filter(is_number)?.parse::<u64>().ok()?.checked_mul(1 << bits)
        });
        match bytes.filter(|bytes| (1..=MAX_SIZE).contains(bytes)) {
            Some(bytes) => Ok(Self(bytes)),
            None => {
                let reason = format!("`size={text}` is not a size up to 1024g, such as `size=64m`");
                Err(Refusal::malformed(reason))
            }
        }
    }
}

impl Default for TmpfsSize {
    fn default() -> Self {
        DEFAULT_SIZE
    }
}

impl fmt::Display for TmpfsSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, bits)| self.0.is_multiple_of(1 << bits));
        let (unit, bits) = unit.unwrap_or(&("", 0));
        write!(f, "{}{unit}", self.0 >> bits)
    }
}

/// Reads options, each of which may be several with commas between. The size is that of a tmpfs.
///
/// # Errors
/// An option is not known, is given twice, or contradicts another one.
pub(super) fn parse<'a>(
    options: impl IntoIterator<Item = &'a str>,
) -> Result<(MountOptions, Option<TmpfsSize>), Refusal> {
    let (mut read_only, mut exec, mut size) = (None, None, None);
    let words = options.into_iter().flat_map(|option| option.split(','));
    for (index, word) in words.enumerate() {
        let is_new = index < MAX_OPTIONS
            && match word {
                "ro" | "rw" => read_only.replace(word == "ro").is_none(),
                "exec" | "noexec" => exec.replace(word == "exec").is_none(),
                // Every mount has them.
                "nodev" | "nosuid" => true,
                "dev" | "suid" => {
                    let reason = format!("a mount cannot have the option `{word}`");
                    return Err(Refusal::malformed(reason));
                }
                _ => match word.strip_prefix("size=") {
                    Some(text) => size.replace(TmpfsSize::parse(text)?).is_none(),
                    None => return Err(unknown(word)),
                },
            };
        if !is_new {
            return Err(Refusal::malformed(format!("the option `{word}` is one too many")));
        }
    }
    let options =
        MountOptions { read_only: read_only.unwrap_or(false), exec: exec.unwrap_or(false) };
    Ok((options, size))
}

fn unknown(word: &str) -> Refusal {
    let start: String = word.chars().take(32).collect();
    Refusal::malformed(format!(
        "`{start}` is not an option of a mount: `ro`, `rw`, `exec`, `noexec`, `size=SIZE`, \
         `nodev` and `nosuid` are"
    ))
}

/// The options that differ from those of a mount without any.
pub(super) fn words(options: MountOptions, size: Option<TmpfsSize>) -> Vec<String> {
    let MountOptions { read_only, exec } = options;
    let size = size.filter(|size| *size != DEFAULT_SIZE).map(|size| format!("size={size}"));
    let flags = [(read_only, "ro"), (exec, "exec")];
    let flags = flags.into_iter().filter(|(is_on, _)| *is_on).map(|(_, word)| word.to_owned());
    flags.chain(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_largest_unit_that_divides_it() {
        for (text, bytes, written) in [
            ("64m", 64 << 20, "64m"),
            ("65536K", 64 << 20, "64m"),
            ("1G", 1 << 30, "1g"),
            ("4097", 4097, "4097"),
            ("1024g", MAX_SIZE, "1024g"),
        ] {
            let size = TmpfsSize::parse(text).unwrap();
            assert_eq!((size.bytes(), size.to_string().as_str()), (bytes, written), "{text}");
        }
        for text in ["", "0", "m", "1t", "1025g", "-1", "+1", "10%", "18446744073709551615g"] {
            assert!(TmpfsSize::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn neither_set_user_id_bits_nor_devices_can_be_asked_for() {
        for word in ["suid", "dev", "rw,suid", "nodev,dev", "mode=4755", "loop", "", "ro,"] {
            assert!(parse([word]).is_err(), "{word}");
        }
    }

    #[test]
    fn an_option_is_given_once() {
        assert!(parse(["ro", "rw"]).is_err());
        assert!(parse(["size=1m,size=2m"]).is_err());
        assert!(parse(["nodev,nosuid", "nodev"]).is_ok());
        assert!(parse(vec!["nodev"; MAX_OPTIONS + 1]).is_err());
    }
}

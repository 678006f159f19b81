//! `vm.nr_hugepages`: its writer waits while the kernel makes room for each page. So PID 1 asks for
//! a few at a time, and for none that the machine cannot do without. The kernel makes as many as it
//! finds room for, and reports no error.

use osbuild_protocol::{ParameterKey, ParameterValue, Refusal, RefusalCode};

const KEY: &str = "vm.nr_hugepages";

/// The size of a page in bytes, on both architectures: our command lines choose no other one.
const SIZE: u64 = 2 << 20;

/// The memory in bytes that huge pages leave to everything else.
const REST: u64 = 1 << 30;

/// How many pages to ask for at once, or to give back.
const STEP: u64 = 64;

/// Checks the value, on a machine with so many bytes of memory. Any value of another key passes.
///
/// # Errors
/// It is not a number, or leaves too little memory.
pub fn check(key: &ParameterKey, value: &ParameterValue, memory: u64) -> Result<(), Refusal> {
    if key.as_str() != KEY {
        return Ok(());
    }
    let Some(wanted) = number(value.as_str()) else {
        return Err(malformed(format!("`{KEY}` is a number of pages, not `{value}`")));
    };
    let most = memory.saturating_sub(REST) / SIZE;
    if wanted > most {
        return Err(malformed(format!(
            "`{KEY}` is at most {most} on this machine, as {} of its {} MiB of memory are for \
             everything else",
            REST >> 20,
            memory >> 20
        )));
    }
    Ok(())
}

/// The value to write next to get from the one that the kernel shows to `wanted`. Any other key
/// gets there at once.
pub fn step(key: &ParameterKey, shown: &str, wanted: &str) -> String {
    let numbers = number(shown).zip(number(wanted)).filter(|_| key.as_str() == KEY);
    let Some((shown, wanted)) = numbers else { return wanted.to_owned() };
    wanted.clamp(shown.saturating_sub(STEP), shown.saturating_add(STEP)).to_string()
}

/// Why there are fewer pages than there shall be.
pub fn shortage(shown: &str, wanted: &str) -> String {
    format!("the kernel had room for {shown} of {wanted} pages")
}

fn malformed(reason: String) -> Refusal {
    Refusal::new(RefusalCode::Malformed, reason)
}

/// Reads a number in the form in which the kernel shows it.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_to(shown: &str, wanted: &str) -> String {
        step(&ParameterKey::parse(KEY).unwrap(), shown, wanted)
    }

    fn check_of(value: &str, memory: u64) -> Result<(), String> {
        let value = ParameterValue::parse(value).unwrap();
        check(&ParameterKey::parse(KEY).unwrap(), &value, memory).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn pages_are_asked_for_and_given_back_in_steps() {
        assert_eq!(step_to("0", "32"), "32");
        assert_eq!(step_to("0", "1000000"), "64");
        assert_eq!(step_to("960", "1000"), "1000");
        assert_eq!(step_to("1000", "0"), "936");
        assert_eq!(step_to("7", "7"), "7");
        assert_eq!(step(&ParameterKey::parse("vm.swappiness").unwrap(), "0", "100"), "100");
    }

    #[test]
    fn a_gibibyte_is_left_to_everything_else() {
        assert_eq!(check_of("512", 2 << 30), Ok(()));
        let reason = "`vm.nr_hugepages` is at most 512 on this machine, as 1024 of its 2048 MiB of \
                      memory are for everything else";
        assert_eq!(check_of("513", 2 << 30), Err(reason.to_owned()));
        assert_eq!(check_of("0", 1 << 29), Ok(()));
        assert!(check_of("1", 1 << 29).is_err());
        assert!(check_of(&u64::MAX.to_string(), u64::MAX).is_err());
    }

    #[test]
    fn a_value_that_the_kernel_would_not_show_again_is_refused() {
        for value in ["032", "0x20", "-1", "+1", "32 32", "many", "99999999999999999999"] {
            assert_eq!(
                check_of(value, u64::MAX),
                Err(format!("`vm.nr_hugepages` is a number of pages, not `{value}`"))
            );
        }
    }
}

//! The processor time of a process on this machine.

use osbuild::error::{Context, Error, Result};
use std::fmt::Display;
use std::fs;
use std::time::Duration;

/// The unit of the times of a process in `/proc` (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// Fields of `/proc/PID/stat` after the name of the program: the times in user and kernel mode.
const TIMES: [usize; 2] = [11, 12];

/// The processor time that a process has used, with its identifier.
pub fn processor_time(process: impl Display) -> Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).or_build(|| format!("cannot read `{path}`"))?;
    let ticks = ticks(&stat);
    let ticks = ticks.ok_or_else(|| Error::build(format!("`{path}` has no times")).cause(&stat))?;
    Ok(TICK * ticks)
}

/// The processor time in a line of `/proc/PID/stat`, in ticks. The program's name may contain
/// spaces and is in parentheses.
fn ticks(stat: &str) -> Option<u32> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    TIMES.iter().map(|index| fields.get(*index)?.parse::<u32>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_is_that_in_both_modes() {
        let stat = "7 (qemu) system) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 99";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("7 (qemu) S 1"), None);
    }
}

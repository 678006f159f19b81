//! The `updater` pod. `updater [--settings FILE] [--root FILE] [--socket PATH] [--seen DIR]
//! [--firmware DIR]`: looks for a release again and again, each path being that of the node if it
//! is not named. One line an event on stderr; it ends only by a signal.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use osbuild_abi::paths;
use osbuild_failure::{Explain, Outcome};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::time::sleep;
use updater::firmware::Firmware;
use updater::look::{Look, Updater, look};
use updater::pace::Pace;
use updater::settings::Settings;

const USAGE: &str =
    "usage: updater [--settings FILE] [--root FILE] [--socket PATH] [--seen DIR] [--firmware DIR]";

/// How long to wait after the first failure. Each further one doubles that, up to the interval.
const FIRST_WAIT: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let Some(paths) = Paths::read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(paths) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Where things are.
struct Paths {
    settings: PathBuf,
    root: PathBuf,
    socket: PathBuf,
    seen: PathBuf,
    firmware: PathBuf,
}

impl Paths {
    fn read(mut words: impl Iterator<Item = String>) -> Option<Paths> {
        let mut paths = Paths {
            settings: paths::UPDATE_SETTINGS.into(),
            root: paths::UPDATE_ROOT.into(),
            socket: paths::UPDATE_SOCKET.into(),
            seen: paths::UPDATE_SEEN.into(),
            firmware: paths::FIRMWARE_VARIABLES.into(),
        };
        while let Some(word) = words.next() {
            let place = match word.as_str() {
                "--settings" => &mut paths.settings,
                "--root" => &mut paths.root,
                "--socket" => &mut paths.socket,
                "--seen" => &mut paths.seen,
                "--firmware" => &mut paths.firmware,
                _ => return None,
            };
            *place = words.next()?.into();
        }
        Some(paths)
    }
}

fn run(paths: Paths) -> Outcome {
    let settings = Settings::read(&paths.settings, &paths.root)?;
    eprintln!("follows {} of {} at {}", settings.channel, settings.recipe, settings.url);
    let Paths { socket, seen, firmware, .. } = paths;
    let updater =
        Updater { settings, socket, seen, firmware: Firmware::new(&firmware), pace: Pace::USUAL };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().explain("start")?;
    runtime.block_on(keep_looking(&updater));
    Ok(())
}

async fn keep_looking(updater: &Updater) {
    let interval = Duration::from_secs(updater.settings.interval_s);
    let (mut wait, mut last) = (FIRST_WAIT, String::new());
    loop {
        let (said, rests) = match look(updater).await {
            Ok(Look::Rests(why)) => (why, true),
            Ok(Look::Waits(why)) => (why, false),
            Ok(Look::Reboots(version)) => {
                (format!("{version} is installed: the node reboots into it"), true)
            }
            Err(failure) => (failure.to_string(), false),
        };
        // The same again and again is no news.
        if said != last {
            eprintln!("{said}");
            last = said;
        }
        let pause = if rests { interval } else { wait.min(interval) };
        wait = if rests { FIRST_WAIT } else { wait.saturating_mul(2).min(interval) };
        sleep(scattered(pause, random())).await;
    }
}

/// The pause, a tenth longer or shorter, by chance: nodes that were switched on together do not ask
/// together for ever.
fn scattered(pause: Duration, chance: u32) -> Duration {
    pause.mul_f64(0.9 + 0.2 * f64::from(chance) / f64::from(u32::MAX))
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    // It keeps no secret, and if it were not random at all that would only be impolite.
    let _ = getrandom(&mut bytes, GetRandomFlags::INSECURE);
    u32::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_a_tenth_longer_or_shorter_at_most() {
        let pause = Duration::from_secs(3600);
        assert_eq!(scattered(pause, 0).as_secs(), 3240);
        assert_eq!(scattered(pause, u32::MAX).as_secs(), 3960);
    }
}

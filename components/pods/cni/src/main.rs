//! The `cni` pod: installs its image's plugins in /opt/cni/bin and the recipe's network
//! configurations in /etc/cni/net.d, and waits.
//!
//! Installed as `nft`, the same program starts the `nft` in the folder next to it.

use std::path::Path;
use std::process::ExitCode;

use osbuild_abi::{paths, payload};
use osbuild_failure::{Explain, Outcome};
use pod_cni::install::{Sources, install};
use pod_cni::launch::Installed;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome {
    let own = std::env::current_exe().explain("find this program")?;
    if let Some(installed) = Installed::beside(&own) {
        return Err(installed.exec(std::env::args_os().skip(1)))
            .explain(format_args!("start the program of the launcher {}", own.display()));
    }
    let mut signals = Signals::new([SIGTERM, SIGINT]).explain("wait for signals")?;
    let sources = Sources {
        programs: Path::new(payload::PROGRAMS),
        dynamic: Path::new(payload::DYNAMIC),
        launcher: &own,
        configurations: Path::new(paths::CNI),
    };
    let changed =
        install(&sources, Path::new(paths::CNI_PLUGINS), Path::new(paths::CNI_CONFIGURATIONS))?;
    for path in &changed {
        eprintln!("installed {}", path.display());
    }
    if changed.is_empty() {
        eprintln!("everything is up to date");
    }
    signals.forever().next();
    Ok(())
}

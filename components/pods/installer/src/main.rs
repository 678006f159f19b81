//! `installer --erase-a-disk`: installs the machine that it runs on. See the library for what it
//! does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use installer::console::Console;
use installer::install::{Places, install};
use osbuild_abi::console::INSTALLER_STOPPED;
use osbuild_abi::paths::{ADMIN_SOCKET, INSTALL_CERTIFICATE, INSTALL_IMAGE, INSTALL_SETTINGS};

/// The word without which nothing is done.
const WORD: &str = "--erase-a-disk";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words != [WORD] {
        eprintln!(
            "installer: this erases a disk of the machine that it runs on, and does nothing \
             without `{WORD}`"
        );
        return ExitCode::from(2);
    }
    let places = Places {
        image: INSTALL_IMAGE.into(),
        certificate: INSTALL_CERTIFICATE.into(),
        settings: INSTALL_SETTINGS.into(),
        firmware: PathBuf::from("/firmware"),
        admin: ADMIN_SOCKET.into(),
        data: PathBuf::from("/data"),
    };
    let mut console = Console::open();
    if let Err(failure) = install(&places, &mut console) {
        console.line(&format!("{INSTALLER_STOPPED}{failure}"));
    }
    // The node stays as it is, for whoever reads its console: a pod that ends would be started
    // anew, and begin again.
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

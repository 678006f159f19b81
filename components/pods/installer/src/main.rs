//! `installer --erase-a-disk` installs the machine that it runs on. See the library.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use installer::console::Console;
use installer::install::{Paths, install};
use osbuild_abi::console::INSTALLER_STOPPED;
use osbuild_abi::paths::{ADMIN_SOCKET, INSTALL_CERTIFICATE, INSTALL_IMAGE, INSTALL_SETTINGS};

/// The flag without which the program does nothing.
const FLAG: &str = "--erase-a-disk";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words != [FLAG] {
        eprintln!(
            "installer: this erases a disk of the machine that it runs on, and requires `{FLAG}`"
        );
        return ExitCode::from(2);
    }
    let paths = Paths {
        image: INSTALL_IMAGE.into(),
        certificate: INSTALL_CERTIFICATE.into(),
        settings: INSTALL_SETTINGS.into(),
        firmware: PathBuf::from("/firmware"),
        admin: ADMIN_SOCKET.into(),
        data: PathBuf::from("/data"),
    };
    let mut console = Console::open();
    if let Err(failure) = install(&paths, &mut console) {
        console.line(&format!("{INSTALLER_STOPPED}{failure}"));
    }
    // The kubelet would restart a pod that ends, and the installation would start again.
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

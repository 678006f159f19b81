//! UEFI firmware for a machine: the user's, the distribution's, or a downloaded one.

use crate::engine::fs_error::{self, IoContext};
use crate::error::{Context, Error, Result};
use crate::plan::Architecture;
use crate::ship::keys::{Trust, enrolled};
use ovmf_prebuilt::{Arch, FileType, Prebuilt, Source};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Firmware in two flash chips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// The code, which is read-only.
    pub code: PathBuf,
    /// The variables, which the machine writes, so it gets its own copy.
    pub variables: PathBuf,
}

/// The Secure Boot mode of the firmware.
#[derive(Clone, Debug)]
pub enum SecureBoot {
    /// The firmware starts any program, without verifying it.
    Off,
    /// Setup mode: the firmware starts any program until keys are enrolled.
    Setup,
    /// The firmware starts only programs that are trusted.
    Enforced(Box<Trust>),
}

/// Whether firmware may be downloaded if none is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Download {
    /// No.
    Refused,
    /// Into this folder.
    Into(PathBuf),
}

/// The paths of the code and the variables in distributions, in order of preference: Debian's
/// packages `ovmf` and `qemu-efi-aarch64`, Fedora's `edk2-ovmf` and `edk2-aarch64`, then Arch
/// Linux.
const AMD64: [(&str, &str); 3] = [
    ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),
    ("/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"),
];
const ARM64: [(&str, &str); 3] = [
    ("/usr/share/AAVMF/AAVMF_CODE.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"),
    (
        "/usr/share/edk2/aarch64/QEMU_EFI-pflash.raw",
        "/usr/share/edk2/aarch64/vars-template-pflash.raw",
    ),
    ("/usr/share/edk2/aarch64/QEMU_EFI.fd", "/usr/share/edk2/aarch64/QEMU_VARS.fd"),
];

/// The same for firmware with Secure Boot.
const SECURE_AMD64: [(&str, &str); 3] = [
    ("/usr/share/OVMF/OVMF_CODE_4M.secboot.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("/usr/share/edk2/ovmf/OVMF_CODE.secboot.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),
    ("/usr/share/edk2/x64/OVMF_CODE.secboot.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"),
];
const SECURE_ARM64: [(&str, &str); 1] =
    [("/usr/share/AAVMF/AAVMF_CODE.ms.fd", "/usr/share/AAVMF/AAVMF_VARS.snakeoil.fd")];

/// The same without keys. Debian's variables without keys for arm64 are an empty file, into which
/// keys cannot be enrolled from outside, so `SECURE_ARM64` has those with Debian's test keys, which
/// enrollment replaces.
const SETUP_ARM64: [(&str, &str); 1] =
    [("/usr/share/AAVMF/AAVMF_CODE.ms.fd", "/usr/share/AAVMF/AAVMF_VARS.fd")];

impl SecureBoot {
    /// Secure Boot with the keys of `trust`.
    pub fn enforced(trust: Trust) -> Self {
        SecureBoot::Enforced(Box::new(trust))
    }

    /// Whether the firmware supports Secure Boot.
    pub fn verifies(&self) -> bool {
        !matches!(self, SecureBoot::Off)
    }
}

impl Firmware {
    /// Finds firmware: `explicit` if the user named one, then the distribution's. Otherwise, if
    /// `download` allows it, the crate `ovmf-prebuilt` fetches one without Secure Boot, and checks
    /// its digest.
    pub fn find(
        architecture: Architecture,
        secure_boot: &SecureBoot,
        explicit: Option<&Path>,
        download: &Download,
    ) -> Result<Self> {
        if let Some(code) = explicit {
            return Self::named(code);
        }
        match (Self::installed(architecture, secure_boot), download) {
            (Some(firmware), _) => Ok(firmware),
            (None, _) if secure_boot.verifies() => {
                Err(without_secure_boot(architecture, secure_boot))
            }
            (None, Download::Into(folder)) => Self::download(architecture, folder),
            (None, Download::Refused) => Err(missing(architecture)),
        }
    }

    /// Whether the distribution's firmware is on this machine.
    pub fn is_installed(architecture: Architecture, secure_boot: &SecureBoot) -> bool {
        Self::installed(architecture, secure_boot).is_some()
    }

    fn installed(architecture: Architecture, secure_boot: &SecureBoot) -> Option<Self> {
        Self::known(architecture, secure_boot)
            .into_iter()
            .find(|firmware| firmware.code.exists() && firmware.variables.exists())
    }

    /// Whether [`Firmware::find`] has downloaded firmware into this folder, so that it needs no
    /// network.
    pub fn is_downloaded(folder: &Path) -> bool {
        // As the crate notes it.
        let found = std::fs::read_to_string(folder.join("sha256"));
        found.is_ok_and(|found| found == Source::LATEST.sha256)
    }

    /// The Debian package with firmware for this architecture.
    pub fn package(architecture: Architecture) -> &'static str {
        match architecture {
            Architecture::Amd64 => "ovmf",
            Architecture::Arm64 => "qemu-efi-aarch64",
        }
    }

    /// The paths of the distributions' firmware.
    pub fn known(architecture: Architecture, secure_boot: &SecureBoot) -> Vec<Self> {
        let paths = match (architecture, secure_boot) {
            (Architecture::Amd64, SecureBoot::Off) => &AMD64[..],
            (Architecture::Amd64, _) => &SECURE_AMD64,
            (Architecture::Arm64, SecureBoot::Off) => &ARM64,
            (Architecture::Arm64, SecureBoot::Setup) => &SETUP_ARM64,
            (Architecture::Arm64, SecureBoot::Enforced(_)) => &SECURE_ARM64,
        };
        paths
            .iter()
            .map(|(code, variables)| Firmware { code: code.into(), variables: variables.into() })
            .collect()
    }

    /// Returns the firmware with its variables at `path`, which are copied if `path` does not
    /// exist.
    pub fn with_variables(self, path: PathBuf) -> Result<Self> {
        if !path.exists() {
            replace(&path, |mut part| {
                let template = File::open(&self.variables);
                template
                    .and_then(|mut template| io::copy(&mut template, &mut part))
                    .or_build(|| format!("cannot copy `{}`", self.variables.display()))
            })?;
        }
        Ok(Firmware { code: self.code, variables: path })
    }

    /// Enrolls `trust` in the variables, in place of all other keys.
    pub fn enroll(&self, trust: &Trust) -> Result<()> {
        let path = &self.variables;
        let before = std::fs::read(path).at("read", path)?;
        let after = enrolled(before, trust).map_err(|error| {
            error.hint(
                "name firmware that has Secure Boot with `--firmware`, or boot with \
                `--insecure`",
            )
        })?;
        replace(path, |mut part| part.write_all(&after).at("write", path))
    }

    /// Firmware with the code at `code`, and the variables beside it, named the same but with
    /// `VARS` for `CODE`.
    ///
    /// # Errors
    /// One of the files does not exist.
    pub fn named(code: &Path) -> Result<Self> {
        if !code.exists() {
            return Err(Error::usage(format!("the firmware `{}` does not exist", code.display())));
        }
        let name = code.file_name().unwrap_or_default().to_string_lossy();
        let variables = code.with_file_name(name.replace("CODE", "VARS").replace("code", "vars"));
        if variables == code || !variables.exists() {
            return Err(Error::usage(format!(
                "the firmware `{}` has no variable store next to it",
                code.display()
            ))
            .hint(
                "name a file with `CODE` in its name, and put its variables beside it with \
            `VARS`",
            ));
        }
        Ok(Firmware { code: code.to_owned(), variables })
    }

    fn download(architecture: Architecture, folder: &Path) -> Result<Self> {
        let arch = match architecture {
            Architecture::Amd64 => Arch::X64,
            Architecture::Arm64 => Arch::Aarch64,
        };
        let prebuilt = Prebuilt::fetch(Source::LATEST, folder)
            .or_build(|| "cannot download UEFI firmware".to_owned())?;
        Ok(Firmware {
            code: prebuilt.get_file(arch, FileType::Code),
            variables: prebuilt.get_file(arch, FileType::Vars),
        })
    }
}

/// Writes the file `path` beside its place and renames it. An interrupted run must not leave a part
/// of the variables: a kept machine would not start again, or start without its keys.
fn replace<T>(path: &Path, write: impl FnOnce(&File) -> Result<T>) -> Result<()> {
    let part = path.with_added_extension("part");
    fs_error::remove(&part)?;
    write(&File::create_new(&part).at("write", &part)?)?;
    std::fs::rename(&part, path).at("write", path)
}

fn missing(architecture: Architecture) -> Error {
    Error::build(format!("no UEFI firmware for {architecture} is installed")).hint(format!(
        "apt-get install {}, or allow the download with `--download-firmware`",
        Firmware::package(architecture)
    ))
}

fn without_secure_boot(architecture: Architecture, mode: &SecureBoot) -> Error {
    let package = Firmware::package(architecture);
    let cause = match mode {
        SecureBoot::Enforced(_) => "the image is signed, so the firmware must verify it",
        _ => "only such firmware can be in setup mode",
    };
    Error::build(format!("no UEFI firmware with Secure Boot for {architecture} is installed"))
        .cause(cause)
        .hint(format!("apt-get install {package}, or boot without: `--insecure`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn firmware_that_the_user_named_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let code = dir.path().join("MY_CODE.fd");
        for name in ["MY_CODE.fd", "MY_VARS.fd"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        let firmware =
            Firmware::find(Architecture::Amd64, &SecureBoot::Off, Some(&code), &Download::Refused)
                .unwrap();
        assert_eq!(firmware, Firmware { code, variables: dir.path().join("MY_VARS.fd") });
    }

    #[test]
    fn firmware_without_variables_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let code = dir.path().join("bios.fd");
        std::fs::write(&code, "").unwrap();
        assert!(
            Firmware::find(Architecture::Amd64, &SecureBoot::Off, Some(&code), &Download::Refused)
                .unwrap_err()
                .to_string()
                .contains("no variable store")
        );
        let error = Firmware::find(
            Architecture::Amd64,
            &SecureBoot::Off,
            Some(&dir.path().join("CODE.fd")),
            &Download::Refused,
        )
        .unwrap_err();
        assert!(error.to_string().contains("does not exist"));
    }

    #[test]
    fn missing_firmware_is_not_downloaded_by_default() {
        let error = missing(Architecture::Arm64).to_string();
        assert_eq!(
            error,
            "error: no UEFI firmware for arm64 is installed\nhint: apt-get install \
             qemu-efi-aarch64, or allow the download with `--download-firmware`"
        );
    }

    #[test]
    fn each_machine_writes_to_its_own_copy_of_the_variables() {
        let dir = tempfile::tempdir().unwrap();
        let template = dir.path().join("template");
        std::fs::write(&template, "empty").unwrap();
        let firmware = Firmware { code: "/code".into(), variables: template.clone() };
        let own = firmware.clone().with_variables(dir.path().join("own")).unwrap();
        std::fs::write(&own.variables, "written").unwrap();
        let again = firmware.with_variables(own.variables.clone()).unwrap();
        assert_eq!(std::fs::read_to_string(again.variables).unwrap(), "written");
        assert_eq!(std::fs::read_to_string(template).unwrap(), "empty");
    }

    #[test]
    fn variables_that_cannot_be_written_stay_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.variables");
        // The kernel refuses to read the memory at 0.
        let unreadable = Firmware { code: "/code".into(), variables: "/proc/self/mem".into() };
        for _ in 0..2 {
            unreadable.clone().with_variables(path.clone()).unwrap_err();
            assert!(!path.exists());
        }
        std::fs::write(&path, "whole").unwrap();
        let written = replace(&path, |mut part| {
            part.write_all(b"half").unwrap();
            Err::<(), _>(Error::build("the disk is full"))
        });
        written.unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
    }

    #[test]
    fn a_machine_can_write_its_copy_of_read_only_variables() {
        let dir = tempfile::tempdir().unwrap();
        let template = dir.path().join("template");
        std::fs::write(&template, "empty").unwrap();
        std::fs::set_permissions(&template, PermissionsExt::from_mode(0o444)).unwrap();
        let firmware = Firmware { code: "/code".into(), variables: template };
        let own = firmware.with_variables(dir.path().join("own")).unwrap().variables;
        assert_eq!(std::fs::metadata(own).unwrap().permissions().mode() & 0o200, 0o200);
    }
}

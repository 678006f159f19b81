//! UEFI firmware for a machine: the user's, the distribution's, or one to download.

use crate::engine::fs_error::IoContext;
use crate::error::{Context, Error, Result};
use crate::plan::Architecture;
use crate::ship::keys::{Trust, enrolled};
use ovmf_prebuilt::{Arch, FileType, Prebuilt, Source};
use std::path::{Path, PathBuf};

/// Firmware in two flash chips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// The code, which the machine only reads.
    pub code: PathBuf,
    /// The variables, which the machine writes: before it starts they are copied.
    pub variables: PathBuf,
}

/// What firmware starts from a disk.
#[derive(Clone, Debug)]
pub enum SecureBoot {
    /// Anything: it cannot verify.
    Off,
    /// Anything, until a system gives it keys: it is in setup mode.
    Setup,
    /// What these trust, and nothing else.
    Enforced(Box<Trust>),
}

/// Whether firmware may be downloaded when there is none on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Download {
    /// No.
    Refused,
    /// Into this folder.
    Into(PathBuf),
}

/// Where distributions put the code and the variables, the best first. Debian's are `ovmf` and
/// `qemu-efi-aarch64`, then Fedora's `edk2-ovmf` and `edk2-aarch64`, then Arch Linux's.
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

/// The same for firmware that can verify what it starts.
const SECURE_AMD64: [(&str, &str); 3] = [
    ("/usr/share/OVMF/OVMF_CODE_4M.secboot.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("/usr/share/edk2/ovmf/OVMF_CODE.secboot.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),
    ("/usr/share/edk2/x64/OVMF_CODE.secboot.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"),
];
const SECURE_ARM64: [(&str, &str); 1] =
    [("/usr/share/AAVMF/AAVMF_CODE.ms.fd", "/usr/share/AAVMF/AAVMF_VARS.snakeoil.fd")];

/// The same without keys. Debian's variables of that kind for arm64 are an empty file, into which
/// nothing can be enrolled from outside: that is done with those of a test, whose keys are
/// replaced.
const SETUP_ARM64: [(&str, &str); 1] =
    [("/usr/share/AAVMF/AAVMF_CODE.ms.fd", "/usr/share/AAVMF/AAVMF_VARS.fd")];

impl SecureBoot {
    /// Firmware that starts what these trust.
    pub fn enforced(trust: Trust) -> Self {
        SecureBoot::Enforced(Box::new(trust))
    }

    /// Whether the firmware can verify what it starts.
    pub fn verifies(&self) -> bool {
        !matches!(self, SecureBoot::Off)
    }
}

impl Firmware {
    /// The first firmware that is there: `explicit` if the user named one, then the distribution's,
    /// then, where `download` allows it, the one that the crate `ovmf-prebuilt` fetches and checks
    /// against the digest in it. That one cannot verify what it starts.
    pub fn find(
        architecture: Architecture,
        secure_boot: &SecureBoot,
        explicit: Option<&Path>,
        download: &Download,
    ) -> Result<Self> {
        if let Some(code) = explicit {
            return Self::named(code);
        }
        let known = Self::known(architecture, secure_boot).into_iter();
        let known = known
            .into_iter()
            .find(|firmware| firmware.code.exists() && firmware.variables.exists());
        match (known, download) {
            (Some(firmware), _) => Ok(firmware),
            (None, _) if secure_boot.verifies() => {
                Err(without_secure_boot(architecture, secure_boot))
            }
            (None, Download::Into(folder)) => Self::download(architecture, folder),
            (None, Download::Refused) => Err(missing(architecture)),
        }
    }

    /// The Debian package with firmware for this architecture.
    pub fn package(architecture: Architecture) -> &'static str {
        match architecture {
            Architecture::Amd64 => "ovmf",
            Architecture::Arm64 => "qemu-efi-aarch64",
        }
    }

    /// Where distributions put it.
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

    /// The same code with its own copy of the variables at `path`. A copy that is there already is
    /// used as it is.
    pub fn with_variables(self, path: PathBuf) -> Result<Self> {
        if !path.exists() {
            std::fs::copy(&self.variables, &path)
                .or_build(|| format!("cannot copy `{}`", self.variables.display()))?;
        }
        Ok(Firmware { code: self.code, variables: path })
    }

    /// Writes into its variables whom it trusts, and nobody else.
    pub fn enroll(&self, trust: &Trust) -> Result<()> {
        let path = &self.variables;
        let before = std::fs::read(path).at("read", path)?;
        let after = enrolled(before, trust).map_err(|error| {
            error
                .hint("name firmware with Secure Boot with `--firmware`, or boot with `--insecure`")
        })?;
        std::fs::write(path, after).at("write", path)
    }

    /// The user's code, with the variables that stand beside it under the same name with `VARS` for
    /// `CODE`.
    ///
    /// # Errors
    /// One of both does not exist.
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
            .hint("name the file with `CODE` in its name that has one with `VARS` beside it"));
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

fn missing(architecture: Architecture) -> Error {
    Error::build(format!("no UEFI firmware for {architecture} is installed")).hint(format!(
        "apt-get install {}, or allow the download with `--download-firmware`",
        Firmware::package(architecture)
    ))
}

fn without_secure_boot(architecture: Architecture, wanted: &SecureBoot) -> Error {
    let package = Firmware::package(architecture);
    let cause = match wanted {
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
    fn missing_firmware_is_not_downloaded_unasked() {
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
}

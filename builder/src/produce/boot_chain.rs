//! The programs that the firmware verifies, one after the other, and their signatures.

use super::build::Build;
use super::draft::Draft;
use super::out::{BOOT, INITRAMFS, INITRAMFS_SIGNATURE, Out, TO_SIGN, UKI};
use super::parts::Parts;
use super::sign::{DetachedSignature, EfiFile, EfiProgram, Signable, Signed, to_sign};
use crate::engine::fs_error::{IoContext, remove};
use crate::error::{Context, Error, Result, both};
use crate::report::Outcome;
use osbuild_formats::epoch;
use std::path::PathBuf;

/// Slotboot, the UKI that it starts, and the initramfs for firmware that fetches it on its own.
pub struct BootChain {
    /// The program that the firmware starts.
    pub slotboot: EfiProgram,
    /// The UKI, in its file.
    pub uki: EfiFile,
    /// The signature of the initramfs; empty for an unsigned one.
    pub initramfs: DetachedSignature,
}

impl BootChain {
    /// The unsigned programs. Slotboot gets the security epoch of the plan: a node never replaces
    /// its slotboot with one of a lower epoch.
    ///
    /// # Errors
    /// Slotboot is gone from the store, or it has no place for the epoch.
    pub fn unsigned(
        build: &Build<'_>,
        parts: &Parts,
        uki: &Draft,
        initramfs: &mut Draft,
    ) -> Result<Self> {
        let slotboot = build.options.store.read(&parts.slotboot)?;
        let slotboot = epoch::stamp(&slotboot, build.plan.security_epoch)
            .or_build(|| format!("cannot make `{BOOT}`"))?;
        Ok(BootChain {
            slotboot: EfiProgram(slotboot),
            uki: EfiFile::new(uki.reopen()?, uki.path()),
            initramfs: DetachedSignature::of_digest(initramfs.digest()?),
        })
    }

    /// The programs with signatures, if the build has a signer.
    ///
    /// # Errors
    /// Every program that the signer cannot sign.
    pub fn sign(self, build: &Build<'_>) -> Result<Self> {
        let Some(signer) = build.options.signer else { return Ok(self) };
        let step = build.options.report.step("signature");
        let why = |name| move |error: Error| error.cause(format!("while signing `{name}`"));
        let slotboot = Signed::by(signer, self.slotboot).map_err(why(BOOT));
        let uki = Signed::by(signer, self.uki).map_err(why(UKI));
        let initramfs = Signed::by(signer, self.initramfs).map_err(why(INITRAMFS));
        let ((slotboot, uki), initramfs) = both(both(slotboot, uki), initramfs)?;
        step.done(&signer.certificate().name(), None, Outcome::Ran);
        Ok(BootChain {
            slotboot: slotboot.into_inner(),
            uki: uki.into_inner(),
            initramfs: initramfs.into_inner(),
        })
    }

    /// Writes the signature of the initramfs into `out`, or for an unsigned build the digests that
    /// have to be signed. Returns the files.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn leave(&self, build: &Build<'_>, out: &Out) -> Result<Vec<PathBuf>> {
        let (signature, folder) = (out.path(INITRAMFS_SIGNATURE), out.path(TO_SIGN));
        if build.options.signer.is_none() {
            remove(&signature)?;
            let products: [(&str, &dyn Signable); 3] =
                [(BOOT, &self.slotboot), (UKI, &self.uki), (INITRAMFS, &self.initramfs)];
            return to_sign::write(&folder, &products);
        }
        remove(&folder)?;
        std::fs::write(&signature, self.initramfs.signature()).at("write", &signature)?;
        Ok(vec![signature])
    }
}

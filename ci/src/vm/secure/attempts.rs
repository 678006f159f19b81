//! The attempts: a claim's name, and a function that makes the UKI and the firmware's keys.

use super::lab::{Lab, signed};
use osbuild::error::{Context, Result};
use osbuild::plan::Date;
use osbuild::ship::keys::{Role, Terms, Trust, revoke, rotate};
use osbuild_formats::pe;
use osbuild_signatures::authenticode;
use osbuild_signatures::efi::Listed;

/// Makes a UKI, and the keys that the firmware trusts.
pub type Attempt = fn(&Lab) -> Result<(Vec<u8>, Trust)>;

/// An attempt and the name of its claim.
pub type Named = (&'static str, Attempt);

/// UKIs that must not start.
pub const REFUSED: &[Named] = &[
    ("unsigned_uki_is_refused", unsigned),
    ("uki_signed_by_another_key_is_refused", by_another_key),
    ("uki_by_a_revoked_certificate_is_refused", by_a_revoked_certificate),
    ("uki_with_a_revoked_hash_is_refused", with_a_revoked_hash),
    ("slotboot_with_a_flipped_bit_is_refused", slotboot_with_a_flipped_bit),
];

/// UKIs that must not start although one of two keys is trusted.
pub const REFUSED_OF_TWO: &[Named] = &[(
    "uki_with_a_revoked_signature_beside_a_good_one_is_refused",
    by_a_revoked_certificate_and_a_good_one,
)];

/// UKIs that must start.
pub const STARTED: &[Named] =
    &[("uki_by_an_expired_certificate_starts", by_an_expired_certificate)];

/// UKIs that must start although there is a newer key.
pub const STARTED_OF_TWO: &[Named] =
    &[("uki_by_the_key_before_a_rotation_starts", by_the_key_before_a_rotation)];

fn unsigned(lab: &Lab) -> Result<(Vec<u8>, Trust)> {
    Ok((lab.unsigned.clone(), lab.keys("ours", lab.terms())?.trust()?))
}

fn by_another_key(lab: &Lab) -> Result<(Vec<u8>, Trust)> {
    let (ours, other) = (lab.keys("ours", lab.terms())?, lab.keys("other", lab.terms())?);
    Ok((signed(&lab.unsigned, &other)?, ours.trust()?))
}

fn by_the_key_before_a_rotation(lab: &Lab) -> Result<(Vec<u8>, Trust)> {
    let keys = lab.keys("rotated", lab.terms())?;
    let uki = signed(&lab.unsigned, &keys)?;
    rotate(&keys, lab.terms(), None)?;
    Ok((uki, keys.trust()?))
}

fn by_a_revoked_certificate(lab: &Lab) -> Result<(Vec<u8>, Trust)> {
    let keys = lab.keys("revoked", lab.terms())?;
    let (uki, certificate) = (signed(&lab.unsigned, &keys)?, keys.certificate(Role::Db)?);
    rotate(&keys, lab.terms(), None)?;
    revoke(&keys, certificate.clone().into())?;
    // Without this the certificate would be unknown, and dbx would not matter.
    let mut trust = keys.trust()?;
    trust.db.push(certificate);
    Ok((uki, trust))
}

fn by_a_revoked_certificate_and_a_good_one(lab: &Lab) -> Result<(Vec<u8>, Trust)> {
    let keys = lab.keys("both", lab.terms())?;
    let (uki, certificate) = (signed(&lab.unsigned, &keys)?, keys.certificate(Role::Db)?);
    rotate(&keys, lab.terms(), None)?;
    revoke(&keys, certificate.into())?;
    Ok((signed(&uki, &keys)?, keys.trust()?))
}

fn with_a_revoked_hash(lab: &Lab) -> Result<(Vec<u8>, Trust)> {
    let keys = lab.keys("hash", lab.terms())?;
    let digest =
        authenticode::digest(&lab.unsigned).or_build(|| "cannot digest the UKI".to_owned())?;
    revoke(&keys, Listed::Image(digest))?;
    Ok((signed(&lab.unsigned, &keys)?, keys.trust()?))
}

fn slotboot_with_a_flipped_bit(lab: &Lab) -> Result<(Vec<u8>, Trust)> {
    let keys = lab.keys("ours", lab.terms())?;
    let mut program = lab.slotboot()?;
    pe::detach(&mut program).or_build(|| "cannot remove the signature of slotboot".to_owned())?;
    let mut program = signed(&program, &keys)?;
    let middle = program.len() / 2;
    program[middle] ^= 1;
    Ok((program, keys.trust()?))
}

fn by_an_expired_certificate(lab: &Lab) -> Result<(Vec<u8>, Trust)> {
    let keys =
        lab.keys("expired", Terms { since: Date { year: 2015, month: 1, day: 1 }, years: 1 })?;
    Ok((signed(&lab.unsigned, &keys)?, keys.trust()?))
}

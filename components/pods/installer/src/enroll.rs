//! Enrolls keys in the firmware of a machine in setup mode: those that `osbuild keys enroll` wrote
//! to the stick's folder `keys`.

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::efi::{Listed, Variable, read_list};

use crate::firmware::Firmware;
use crate::stick::Stick;

/// Bytes of `EFI_TIME` at the start of a signed update. The length of its signature follows (UEFI
/// 2.10, 8.2.2).
const TIME: usize = 16;
/// The attributes of these variables: non-volatile, boot service access, runtime access,
/// time-based authenticated write access.
const ATTRIBUTES: u32 = 0x27;

/// Signed updates, in the order in which a machine in setup mode needs them: the last one ends
/// setup mode.
pub struct Keys {
    updates: Vec<(Variable, Vec<u8>)>,
}

impl Keys {
    /// Reads `keys/db.auth`, `keys/KEK.auth` and `keys/PK.auth`.
    ///
    /// # Errors
    /// A file is missing, or a machine with these keys would not start what `signer` has signed.
    pub fn read(stick: &Stick, signer: Option<&Certificate>) -> Outcome<Keys> {
        let read = |variable: Variable| {
            let bytes = stick.file(&format!("keys/{}.auth", variable.name()))?;
            Ok((variable, bytes.to_vec()))
        };
        let updates: Vec<_> = Variable::ENROLLED.into_iter().map(read).collect::<Outcome<_>>()?;
        let db = updates.iter().find(|(variable, _)| *variable == Variable::Db);
        let trusts = db.map_or(Ok(false), |(_, update)| trusts(update, signer))?;
        if !trusts {
            return Err(Failure::new("a machine with the stick's keys would not start the image"));
        }
        Ok(Keys { updates })
    }

    /// Writes the keys to the firmware's variables.
    pub fn enroll(&self, firmware: &Firmware) -> Outcome {
        let variable = |(variable, update): &(Variable, Vec<u8>)| {
            (format!("{}-{}", variable.name(), variable.vendor()), ATTRIBUTES, update.clone())
        };
        firmware.write_all(&self.updates.iter().map(variable).collect::<Vec<_>>())
    }
}

/// Whether a signed update of db has the certificate of the image's signer.
fn trusts(update: &[u8], signer: Option<&Certificate>) -> Outcome<bool> {
    let length = update
        .get(TIME..)
        .and_then(|rest| rest.first_chunk())
        .map(|length| u32::from_le_bytes(*length) as usize);
    let list = length.and_then(|length| update.get(TIME.checked_add(length)?..));
    let list = list.ok_or_else(|| Failure::new("`keys/db.auth` is not a signed update"))?;
    let listed = read_list(list).explain("read `keys/db.auth`")?;
    Ok(listed.iter().any(|listed| match (listed, signer) {
        (Listed::Certificate(certificate), Some(signer)) => certificate.der() == signer.der(),
        _ => false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = trusts(&bytes, None);
        }
    }

    #[test]
    fn a_truncated_update_is_refused() {
        assert!(trusts(&[0; 18], None).is_err());
        assert!(trusts(&[0xFF; 20], None).is_err());
    }
}

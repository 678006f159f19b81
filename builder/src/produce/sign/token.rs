//! A key in a PKCS#11 token: a smart card, an HSM, SoftHSM. The token signs, and the key never
//! leaves it.

use super::private_key::is_shared;
use super::single_part::SinglePart;
use super::{RsaKey, TokenUri};
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Error, Result};
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::RvError;
use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, AttributeType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use der::Encode;
use der::asn1::UintRef;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::sync::Mutex;
use zeroize::Zeroizing;

/// The bytes of `DigestInfo` before a SHA-256 (RFC 8017, 9.2). Tokens do not add them.
const DIGEST_INFO: [u8; 19] = [
    0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05,
    0x00, 0x04, 0x20,
];

/// The length of a key in bits, the only one that all firmware must accept (UEFI 2.10, 32.4.1).
const KEY_BITS: usize = 2048;

/// An RSA key in a token, after the login.
pub struct TokenKey {
    session: Mutex<Session>,
    key: ObjectHandle,
    public: Vec<u8>,
    /// Set for a key that requires the PIN at each use.
    each_use: Option<EachUse>,
}

/// Signs with a key that requires the PIN at each use (`CKA_ALWAYS_AUTHENTICATE`), such as the one
/// in the signature slot of a YubiKey.
struct EachUse {
    pin: Option<AuthPin>,
    single: SinglePart,
}

impl TokenKey {
    /// Logs into the token, and finds the key.
    ///
    /// # Errors
    /// The module, the token or the key does not exist; several match; the PIN is wrong; the key is
    /// not an RSA key of 2048 bits. No error quotes the PIN.
    pub fn open(uri: &TokenUri) -> Result<Self> {
        let module = || format!("cannot use the PKCS#11 module `{}`", uri.module.display());
        let library = Pkcs11::new(&uri.module).or_build(module)?;
        allow(
            library.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)),
            RvError::CryptokiAlreadyInitialized,
        )
        .or_build(module)?;
        let session = library
            .open_ro_session(slot(&library, uri)?)
            .or_build(|| "cannot open the token".to_owned())?;
        let pin = pin(uri)?;
        if let Some(pin) = &pin {
            let login = session.login(UserType::User, Some(pin));
            allow(login, RvError::UserAlreadyLoggedIn)
                .or_build(|| "cannot log into the token".to_owned())?;
        }
        let key = key(&session, uri)?;
        let public = public(&session, key)?;
        let each_use = match requires_pin_at_each_use(&session, key) {
            true => Some(EachUse { pin, single: SinglePart::of(&uri.module).or_build(module)? }),
            false => None,
        };
        Ok(TokenKey { session: Mutex::new(session), key, public, each_use })
    }
}

impl RsaKey for TokenKey {
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn sign(&self, digest: &Digest) -> Result<Vec<u8>> {
        let info = [&DIGEST_INFO[..], digest.hash()].concat();
        let session = self.session.lock().expect("no thread panics while it signs");
        let signed = match &self.each_use {
            None => session.sign(&Mechanism::RsaPkcs, self.key, &info),
            Some(each_use) => each_use.sign(&session, self.key, &info),
        };
        signed.or_build(|| "the token does not sign".to_owned())
    }
}

impl EachUse {
    /// Starts the operation, gives the PIN for it, and signs. Without a PIN the token asks for it
    /// on its own keypad.
    fn sign(
        &self,
        session: &Session,
        key: ObjectHandle,
        info: &[u8],
    ) -> cryptoki::error::Result<Vec<u8>> {
        session.sign_init(&Mechanism::RsaPkcs, key)?;
        session.login(UserType::ContextSpecific, self.pin.as_ref())?;
        self.single.sign(session, info)
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey")
    }
}

/// Whether the key requires the PIN at each use. A token without this attribute has no such keys.
fn requires_pin_at_each_use(session: &Session, key: ObjectHandle) -> bool {
    let found =
        session.get_attributes(key, &[AttributeType::AlwaysAuthenticate]).unwrap_or_default();
    found.contains(&Attribute::AlwaysAuthenticate(true))
}

/// Ignores the error `already`, which means that another key of the same module did this before.
fn allow(done: cryptoki::error::Result<()>, already: RvError) -> cryptoki::error::Result<()> {
    match done {
        Err(cryptoki::error::Error::Pkcs11(found, _)) if found == already => Ok(()),
        other => other,
    }
}

/// The one slot with the token that the URI names.
fn slot(library: &Pkcs11, uri: &TokenUri) -> Result<Slot> {
    let cannot = || "cannot list the tokens".to_owned();
    let mut found = Vec::new();
    for slot in library.get_slots_with_initialized_token().or_build(cannot)? {
        let token = library.get_token_info(slot).or_build(cannot)?;
        let is =
            |named: &Option<String>, value: &str| named.as_ref().is_none_or(|named| named == value);
        if is(&uri.token, token.label()) && is(&uri.serial, token.serial_number()) {
            found.push(slot);
        }
    }
    one(found, "token")
}

/// The one private RSA key that the URI names.
fn key(session: &Session, uri: &TokenUri) -> Result<ObjectHandle> {
    let mut attributes = vec![Attribute::Class(ObjectClass::PRIVATE_KEY)];
    attributes
        .extend(uri.object.as_ref().map(|label| Attribute::Label(label.clone().into_bytes())));
    attributes.extend(uri.id.as_ref().map(|id| Attribute::Id(id.clone())));
    one(
        session.find_objects(&attributes).or_build(|| "cannot look for the key".to_owned())?,
        "private key",
    )
}

fn one<T>(found: Vec<T>, what: &str) -> Result<T> {
    let count = found.len();
    let [one] = <[T; 1]>::try_from(found).map_err(|_| {
        let why = if count == 0 {
            "there is none, or the PIN is missing".to_owned()
        } else {
            format!("there are {count}")
        };
        Error::build(format!("the PKCS#11 URI does not name one {what}"))
            .cause(why)
            .hint("pkcs11-tool --list-objects --login")
    })?;
    Ok(one)
}

/// An `RSAPublicKey` in DER (RFC 8017).
fn public(session: &Session, key: ObjectHandle) -> Result<Vec<u8>> {
    let no_rsa = || Error::build("the key in the token is not an RSA key");
    let attributes = [AttributeType::Modulus, AttributeType::PublicExponent];
    let found = session
        .get_attributes(key, &attributes)
        .or_build(|| "cannot read the public half of the key".to_owned())?;
    let (mut modulus, mut exponent) = (None, None);
    for attribute in found {
        match attribute {
            Attribute::Modulus(bytes) => modulus = Some(bytes),
            Attribute::PublicExponent(bytes) => exponent = Some(bytes),
            _ => {}
        }
    }
    let (modulus, exponent) = (modulus.ok_or_else(no_rsa)?, exponent.ok_or_else(no_rsa)?);
    let length = bits(&modulus);
    if length != KEY_BITS {
        return Err(Error::build(format!("the key in the token is not one of {KEY_BITS} bits"))
            .cause(format!("it has {length} bits")));
    }
    let encode = || [UintRef::new(&modulus)?, UintRef::new(&exponent)?].to_der();
    encode().or_build(|| "the key in the token is not an RSA key".to_owned())
}

/// The length in bits of a number, whose most significant byte is the first.
fn bits(number: &[u8]) -> usize {
    let first = number.iter().position(|byte| *byte != 0);
    first.map_or(0, |at| (number.len() - at) * 8 - number[at].leading_zeros() as usize)
}

/// The PIN, from its file.
fn pin(uri: &TokenUri) -> Result<Option<AuthPin>> {
    let Some(path) = &uri.pin_source else { return Ok(None) };
    let mut file = File::open(path).at("read", path)?;
    if is_shared(&file.metadata().at("read", path)?) {
        let shown = path.display();
        return Err(Error::build(format!("the PIN in `{shown}` can be read by other users")).hint(
            format!("chmod 600 {shown}, and change the PIN if another user may have read it"),
        ));
    }
    let mut text = Zeroizing::new(String::new());
    file.read_to_string(&mut text).at("read", path)?;
    Ok(Some(AuthPin::from(text.trim_end_matches(['\r', '\n']))))
}

//! The place of a key in a token: a PKCS#11 URI (RFC 7512).

use crate::error::{Error, Result};
use std::path::PathBuf;
use std::str::FromStr;

const SCHEME: &str = "pkcs11:";

/// A PKCS#11 URI, reduced to the attributes that a signer needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenUri {
    /// The token's label.
    pub token: Option<String>,
    /// The token's serial number.
    pub serial: Option<String>,
    /// The key's label.
    pub object: Option<String>,
    /// The key's ID.
    pub id: Option<Vec<u8>>,
    /// The PKCS#11 library of the token.
    pub module: PathBuf,
    /// The file with the PIN, if the token requires one.
    pub pin_source: Option<PathBuf>,
}

impl FromStr for TokenUri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: String| {
            let example = "pkcs11:token=TOKEN;object=KEY?\
                           module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/run/pin";
            Error::usage("the PKCS#11 URI cannot be used")
                .cause(why)
                .hint(format!("for example {example}"))
        };
        let rest = text
            .trim()
            .strip_prefix(SCHEME)
            .ok_or_else(|| wrong(format!("it does not begin with `{SCHEME}`")))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = TokenUri::default();
        for part in path.split(';').chain(query.split('&')).filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| wrong("a part of it has no `=`".to_owned()))?;
            let bytes = decoded(value)
                .ok_or_else(|| wrong(format!("`{name}` has a `%` without two digits")))?;
            uri.set(name, bytes).map_err(wrong)?;
        }
        match () {
            () if uri.module.as_os_str().is_empty() => {
                Err(wrong("it has no `module-path`".to_owned()))
            }
            () if uri.object.is_none() && uri.id.is_none() => {
                Err(wrong("it has neither `object` nor `id` to name a key".to_owned()))
            }
            () => Ok(uri),
        }
    }
}

impl TokenUri {
    fn set(&mut self, name: &str, bytes: Vec<u8>) -> std::result::Result<(), String> {
        if name == "id" {
            self.id = Some(bytes);
            return Ok(());
        }
        let text = String::from_utf8(bytes).map_err(|_| format!("`{name}` is not UTF-8"))?;
        match name {
            "token" => self.token = Some(text),
            "serial" => self.serial = Some(text),
            "object" => self.object = Some(text),
            // The key's class is always `private`.
            "type" if text == "private" => {}
            "module-path" => self.module = text.into(),
            "pin-source" => {
                self.pin_source = Some(text.strip_prefix("file:").unwrap_or(&text).into())
            }
            "pin-value" => {
                return Err("a PIN must not be in it: name a file with the PIN with `pin-source`"
                    .to_owned());
            }
            _ => return Err(format!("`{name}` is not supported")),
        }
        Ok(())
    }
}

/// Decodes `%` and two hexadecimal digits into a byte each.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, more)) = rest.split_first() {
        rest = more;
        match byte {
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?)
                    .ok()
                    .filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()))?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            byte => bytes.push(*byte),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_uri_has_token_key_module_and_pin_source() {
        let text = "pkcs11:token=My%20token;object=db;id=%01%FF?\
                    module-path=/usr/lib/m.so&pin-source=file:/run/pin\n";
        let uri: TokenUri = text.parse().unwrap();
        assert_eq!(
            (uri.token.as_deref(), uri.object.as_deref(), uri.id),
            (Some("My token"), Some("db"), Some(vec![1, 255]))
        );
        assert_eq!(
            (uri.module, uri.pin_source, uri.serial),
            ("/usr/lib/m.so".into(), Some("/run/pin".into()), None)
        );
    }

    #[test]
    fn an_incomplete_uri_or_one_with_a_pin_is_refused() {
        for (text, why) in [
            ("file:/db.key", "it does not begin with `pkcs11:`"),
            ("pkcs11:object=db", "it has no `module-path`"),
            ("pkcs11:token=t?module-path=/m.so", "it has neither `object` nor `id`"),
            ("pkcs11:object=db;slot-id=1?module-path=/m.so", "`slot-id` is not supported"),
            ("pkcs11:object=%zz?module-path=/m.so", "`object` has a `%` without two digits"),
            ("pkcs11:object=db?module-path=/m.so&pin-value=4711", "a PIN must not be in it"),
        ] {
            let error = text.parse::<TokenUri>().unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("4711"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text: String) {
            let _ = text.parse::<TokenUri>();
            let _ = format!("{SCHEME}{text}").parse::<TokenUri>();
        }
    }
}

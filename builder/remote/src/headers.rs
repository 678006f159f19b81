//! The headers of every call: those of the configuration, and those of a credential helper.

use crate::credentials::{CredentialProgram, Credentials};
use crate::{Access, Address, Fault};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use std::time::SystemTime;
use tokio::sync::Mutex;

/// The headers. Those of a credential helper are made when the first call needs them, and again
/// before their time is over.
pub(crate) struct Headers {
    fixed: HeaderMap,
    helper: Option<CredentialProgram>,
    made: Mutex<Option<Credentials>>,
}

impl Headers {
    pub(crate) fn new(address: &Address, access: &Access) -> Result<Self, Fault> {
        let pairs = access.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fixed = parse(pairs).map_err(Fault::Refused)?;
        let helper = access.credential_helper.clone().map(|program| {
            let uri = format!("{}/", address.origin());
            CredentialProgram { program, uri }
        });
        Ok(Headers { fixed, helper, made: Mutex::default() })
    }

    /// The headers of a call that is made now.
    pub(crate) async fn get(&self) -> Result<HeaderMap, Fault> {
        let mut headers = self.fixed.clone();
        if let Some(helper) = &self.helper {
            let mut made = self.made.lock().await;
            let made = match made.take_if(|made| made.until > SystemTime::now()) {
                Some(current) => made.insert(current),
                None => made.insert(helper.get().await?),
            };
            headers.extend(made.headers.clone());
        }
        Ok(headers)
    }
}

/// Reads headers. The error of a parser could contain a value, so it names the header alone.
pub(crate) fn parse<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let wrong = || format!("`{name}` is no header, or its value is none");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

//! A region of AWS, and the addresses in it.

use super::Service;
use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A region: `eu-central-1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region(String);

impl Region {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Where a service is in it.
    pub fn address(&self, service: Service) -> String {
        let domain = if self.0.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        format!("https://{}.{}.{domain}", service.name(), self.0)
    }
}

impl FromStr for Region {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let ends_in_a_number = text
            .rsplit('-')
            .next()
            .is_some_and(|end| end.bytes().all(|byte| byte.is_ascii_digit()));
        match text.split('-').all(part) && text.split('-').count() >= 3 && ends_in_a_number {
            true => Ok(Region(text.to_owned())),
            false => Err(Error::usage(format!("`{text}` is no region of AWS"))
                .hint("for example `--region eu-central-1`")),
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_lead_to_another_host_is_no_region() {
        for wrong in [
            "",
            "eu",
            "eu-central",
            "eu-central-1.example.com/",
            "eu-central-1/x-1",
            "EU-CENTRAL-1",
            "eu--1",
            "a-b-c",
        ] {
            assert!(wrong.parse::<Region>().is_err(), "{wrong}");
        }
        let address = |region: &str| region.parse::<Region>().unwrap().address(Service::Ebs);
        assert_eq!(address("eu-central-1"), "https://ebs.eu-central-1.amazonaws.com");
        assert_eq!(address("us-gov-west-1"), "https://ebs.us-gov-west-1.amazonaws.com");
        assert_eq!(address("cn-north-1"), "https://ebs.cn-north-1.amazonaws.com.cn");
    }
}

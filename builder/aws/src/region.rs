//! A region, and the endpoints in it.

use super::Service;
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

    /// The address of a service in it.
    pub(crate) fn endpoint(&self, service: Service) -> String {
        let domain = if self.0.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        format!("https://{}.{}.{domain}", service.name(), self.0)
    }
}

impl FromStr for Region {
    type Err = InvalidRegion;

    fn from_str(text: &str) -> Result<Self, InvalidRegion> {
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
            false => Err(InvalidRegion(text.to_owned())),
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is not the name of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRegion(pub String);

impl fmt::Display for InvalidRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not an AWS region", self.0)
    }
}

impl std::error::Error for InvalidRegion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_lead_to_another_host_is_refused() {
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
        let endpoint = |region: &str| region.parse::<Region>().unwrap().endpoint(Service::Ebs);
        assert_eq!(endpoint("eu-central-1"), "https://ebs.eu-central-1.amazonaws.com");
        assert_eq!(endpoint("us-gov-west-1"), "https://ebs.us-gov-west-1.amazonaws.com");
        assert_eq!(endpoint("cn-north-1"), "https://ebs.cn-north-1.amazonaws.com.cn");
    }
}

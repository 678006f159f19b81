//! Adapts [`osbuild_aws`] to the builder: converts its errors, and ends calls when the user wants
//! to stop.

use crate::engine::stop;
use crate::error::{Context, Error, Result};
use osbuild_aws::{Client, Failure, InvalidArn, InvalidRegion, Retry, Stopped};

/// AWS, with the credentials of this process's environment.
///
/// # Errors
/// This machine has no certificates of TLS authorities.
pub fn client() -> Result<Client> {
    Client::from_environment(stoppable(Retry::default()))
        .or_build(|| "cannot prepare a connection to AWS".to_owned())
}

/// The same timeouts, with every wait ended when the user wants to stop.
pub fn stoppable(retry: Retry) -> Retry {
    Retry { is_stopped: || stop::check().is_err(), ..retry }
}

/// No part of an error is a credential: neither AWS nor `osbuild_aws` quotes one.
impl From<osbuild_aws::Error> for Error {
    fn from(failed: osbuild_aws::Error) -> Self {
        let failure = &failed.failure;
        let error = match failure {
            Failure::Stopped => return Error::stopped(),
            Failure::ReadOnly => return Error::build(failed.to_string()),
            Failure::NoCredentials(reason) => {
                let error = reason.iter().fold(Error::usage(failed.to_string()), Error::cause);
                return error.hint(
                    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or see \
                     builder/docs/publish-aws.md",
                );
            }
            failure => Error::build(failed.to_string()).cause(failure),
        };
        match failure {
            Failure::Unreachable(_) => {
                error.hint("run the same command again: it continues where it stopped")
            }
            failure if failure.is_expired() => error.hint(
                "get new credentials, then run the same command again: it continues where it \
                 stopped",
            ),
            failure if failure.is_unknown_caller() => error.hint(
                "aws sts get-caller-identity, in the same environment, prints the identity that \
                 AWS sees",
            ),
            failure if failure.is_forbidden() => error.hint(format!(
                "allow `{}`: builder/docs/publish-aws.md has the whole policy",
                failed.action.permission()
            )),
            _ => error,
        }
    }
}

impl From<Stopped> for Error {
    fn from(_: Stopped) -> Self {
        Error::stopped()
    }
}

impl From<InvalidRegion> for Error {
    fn from(error: InvalidRegion) -> Self {
        Error::usage(error.to_string()).hint("for example `--region eu-central-1`")
    }
}

impl From<InvalidArn> for Error {
    fn from(error: InvalidArn) -> Self {
        Error::usage(error.to_string()).hint(
            "for example arn:aws:kms:eu-central-1:111122223333:\
             key/1234abcd-12ab-34cd-56ef-1234567890ab",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_aws::Action;

    #[test]
    fn a_forbidden_call_names_its_permission() {
        let failure = Failure::Refused {
            status: 403,
            code: "UnauthorizedOperation".into(),
            message: String::new(),
        };
        let region = "eu-central-1".parse().unwrap();
        let refused = osbuild_aws::Error { action: Action::RegisterImage, region, failure };
        let error = Error::from(refused).to_string();
        assert!(error.starts_with("error: ec2:RegisterImage failed in eu-central-1\n"), "{error}");
        assert!(error.contains("hint: allow `ec2:RegisterImage`"), "{error}");
    }
}

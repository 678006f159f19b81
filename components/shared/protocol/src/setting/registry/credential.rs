//! The credentials of a host that serves images.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::super::secret::{REDACTED, Secret};
use super::{RegistryName, RegistryUrl};
use crate::Refusal;

/// The maximum number of hosts whose credentials `init` holds.
pub const MAX_CREDENTIALS: usize = 8;
/// The maximum bytes of a value, so that it fits in the line of a request or a reply.
const MAX_LENGTH: usize = 3584;
/// The maximum bytes of the name of a user.
const MAX_USERNAME: usize = 256;

const USER: &str = "user";
const PASSWORD: &str = "password";
const TOKEN: &str = "token";
const PLAIN_HTTP: &str = "plain-http";

/// The credentials that the node sends to one host that serves images, and to no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryCredential {
    registry: RegistryName,
    login: RegistryLogin,
    plain_http: bool,
}

/// How the node shows who it is (RFC 7617, RFC 6750).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryLogin {
    /// With a user's name and password.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: Secret,
    },
    /// With a token.
    Bearer(Secret),
}

impl RegistryCredential {
    /// Combines what was read.
    ///
    /// # Errors
    /// The name, the password or the token is malformed or too long, or a host beyond the loopback
    /// would be used without TLS. No reason has any of them.
    pub fn new(
        registry: RegistryName,
        login: RegistryLogin,
        plain_http: bool,
    ) -> Result<Self, Refusal> {
        login.check(&registry)?;
        if plain_http && !registry.is_loopback() {
            let reason = format!(
                "`{registry}` is not on the loopback, so its credentials are sent over TLS alone"
            );
            return Err(Refusal::malformed(reason));
        }
        let whole = Self { registry, login, plain_http };
        match whole.words().len() <= MAX_LENGTH {
            true => Ok(whole),
            false => Err(Refusal::malformed(format!(
                "the credentials of `{}` take more than {MAX_LENGTH} bytes",
                whole.registry
            ))),
        }
    }

    /// Reads the words after the registry: `user=NAME password=BASE64 [plain-http]` or
    /// `token=TOKEN [plain-http]`.
    pub(in super::super) fn parse_words(
        registry: RegistryName,
        words: &str,
    ) -> Result<Self, Refusal> {
        let (words, plain_http) = match words.strip_suffix(PLAIN_HTTP) {
            Some(rest) => (rest.trim_end_matches(' '), true),
            None => (words, false),
        };
        let value = |key: &str, word: &str| {
            Some(word.strip_prefix(key)?.strip_prefix('=')?.to_owned()).filter(|it| !it.is_empty())
        };
        let login = match words.split_once(' ') {
            Some((user, password)) => {
                value(USER, user).zip(value(PASSWORD, password)).and_then(|(username, password)| {
                    let password = decoded(&Zeroizing::new(password))?;
                    Some(RegistryLogin::Basic { username, password })
                })
            }
            None => value(TOKEN, words).map(|token| RegistryLogin::Bearer(Secret::new(token))),
        };
        let login = login.ok_or_else(|| {
            Refusal::malformed(
                "credentials are `registry-credential REGISTRY user=NAME password=BASE64` or \
                 `registry-credential REGISTRY token=TOKEN`, and perhaps `plain-http`",
            )
        })?;
        Self::new(registry, login, plain_http)
    }

    /// The host, and perhaps its port.
    pub fn registry(&self) -> &RegistryName {
        &self.registry
    }

    /// The login that is sent to it.
    pub fn login(&self) -> &RegistryLogin {
        &self.login
    }

    /// Whether the host, which is on the loopback, is used without TLS.
    pub fn is_plain_http(&self) -> bool {
        self.plain_http
    }

    /// Whether they are for the host of this URL.
    pub fn are_for(&self, url: &RegistryUrl) -> bool {
        without_default_port(url.authority()) == without_default_port(self.registry.as_str())
    }

    /// The words that [`Self::parse_words`] reads, with the secret.
    pub(in super::super) fn words(&self) -> Zeroizing<String> {
        let login = match &self.login {
            RegistryLogin::Basic { username, password } => {
                let password = Zeroizing::new(STANDARD.encode(password.reveal()));
                format!("{USER}={username} {PASSWORD}={}", *password)
            }
            RegistryLogin::Bearer(token) => format!("{TOKEN}={}", token.reveal()),
        };
        Zeroizing::new(login + self.suffix())
    }

    /// The same without the secret.
    pub(in super::super) fn redacted(&self) -> String {
        let login = match &self.login {
            RegistryLogin::Basic { username, .. } => {
                format!("{USER}={username} {PASSWORD}={REDACTED}")
            }
            RegistryLogin::Bearer(_) => format!("{TOKEN}={REDACTED}"),
        };
        login + self.suffix()
    }

    fn suffix(&self) -> &'static str {
        if self.plain_http { " plain-http" } else { "" }
    }
}

impl RegistryLogin {
    /// Combines what a person has written.
    ///
    /// # Errors
    /// There is neither a name with a password nor a token alone.
    pub fn of(
        username: Option<String>,
        password: Option<Secret>,
        token: Option<Secret>,
    ) -> Result<Self, Refusal> {
        match (username, password, token) {
            (Some(username), Some(password), None) => Ok(Self::Basic { username, password }),
            (None, None, Some(token)) => Ok(Self::Bearer(token)),
            _ => {
                let reason = "credentials are `username` and `password`, or `token` alone";
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// The value of the header `Authorization`.
    pub fn authorization(&self) -> Zeroizing<String> {
        Zeroizing::new(match self {
            Self::Basic { username, password } => {
                let pair = Zeroizing::new(format!("{username}:{}", password.reveal()));
                format!("Basic {}", STANDARD.encode(pair.as_bytes()))
            }
            Self::Bearer(token) => format!("Bearer {}", token.reveal()),
        })
    }

    fn check(&self, registry: &RegistryName) -> Result<(), Refusal> {
        let reason = match self {
            Self::Basic { username, .. } if !is_username(username) => format!(
                "a user of `{registry}` has a name of 1 to {MAX_USERNAME} printable characters of \
                 ASCII, without spaces and colons"
            ),
            Self::Basic { password, .. } if password.reveal().is_empty() => {
                format!("the password for `{registry}` is missing")
            }
            Self::Basic { password, .. } if password.reveal() == REDACTED => {
                format!("the password for `{registry}` is hidden: write it again")
            }
            Self::Bearer(token) if token.reveal() == REDACTED => {
                format!("the token for `{registry}` is hidden: write it again")
            }
            Self::Bearer(token) if !is_token(token.reveal()) => format!(
                "a token for `{registry}` has letters, digits and `-._~+/`, and perhaps `=` at its \
                 end"
            ),
            _ => return Ok(()),
        };
        Err(Refusal::malformed(reason))
    }
}

fn decoded(base64: &str) -> Option<Secret> {
    String::from_utf8(STANDARD.decode(base64).ok()?).ok().map(Secret::new)
}

fn is_username(text: &str) -> bool {
    (1..=MAX_USERNAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}

/// Whether this is the `b64token` of RFC 6750.
fn is_token(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    !digits.is_empty() && digits.bytes().all(is_digit)
}

fn without_default_port(authority: &str) -> &str {
    authority.strip_suffix(":443").unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(registry: &str, words: &str) -> Result<RegistryCredential, Refusal> {
        RegistryCredential::parse_words(RegistryName::parse(registry).unwrap(), words)
    }

    #[test]
    fn a_login_is_a_user_with_a_password_or_a_token() {
        for (words, header) in [
            // RFC 7617, section 2.
            ("user=Aladdin password=b3BlbiBzZXNhbWU=", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("token=mF_9.B5f-4.1JqM", "Bearer mF_9.B5f-4.1JqM"),
        ] {
            let found = read("a.example:5000", words).unwrap();
            assert_eq!(*found.login().authorization(), header);
            assert_eq!(*found.words(), words);
        }
        for words in [
            "",
            "user=a",
            "password=YQ==",
            "user= password=YQ==",
            "user=a password=",
            "user=a:b password=YQ==",
            "user=a password=YQ",
            "user=a password=/w==",
            "user=a password=YQ== token=b",
            "user=a password=YQ==  plain",
            "token=",
            "token=a b",
            "token=a\"b",
            "token=(hidden)",
            "user=a password=KGhpZGRlbik=",
            &format!("user={} password=YQ==", "a".repeat(MAX_USERNAME + 1)),
            &format!("token={}", "a".repeat(MAX_LENGTH)),
        ] {
            assert!(read("a.example", words).is_err(), "{words}");
        }
    }

    #[test]
    fn plain_http_is_for_the_loopback_alone() {
        for registry in ["localhost", "localhost:5000", "127.0.0.1:5000", "127.1.2.3"] {
            let found = read(registry, "token=a plain-http").unwrap();
            assert!(found.is_plain_http());
            assert_eq!(*found.words(), "token=a plain-http");
        }
        for registry in ["a.example", "192.0.2.7:5000", "127.example", "localhost.example"] {
            assert!(read(registry, "token=a plain-http").is_err(), "{registry}");
            assert!(read(registry, "token=a").is_ok(), "{registry}");
        }
    }

    #[test]
    fn credentials_are_for_one_host_and_port() {
        let are_for = |registry: &str, url: &str| {
            read(registry, "token=a").unwrap().are_for(&RegistryUrl::parse(url).unwrap())
        };
        for (registry, url) in [
            ("a.example", "https://a.example"),
            ("a.example", "https://a.example:443/v2/b"),
            ("a.example:443", "https://a.example/b"),
            ("a.example:5000", "https://a.example:5000"),
        ] {
            assert!(are_for(registry, url), "{registry} {url}");
        }
        for (registry, url) in [
            ("a.example", "https://a.example:5000"),
            ("a.example:5000", "https://a.example"),
            ("a.example", "https://b.a.example"),
            ("a.example", "https://b.example/a.example"),
            ("b.a.example", "https://a.example"),
        ] {
            assert!(!are_for(registry, url), "{registry} {url}");
        }
    }

    #[test]
    fn neither_errors_nor_debug_have_a_secret() {
        for words in [
            "user=a:b password=aHVudGVyMg==",
            "user=a password=aHVudGVyMg",
            "user=a password=hunter2hunter2hunter2",
            "user=a token=hunter2",
            "token=hunter2 hunter2",
            "token=\"hunter2\"",
            "token=hunter2 plain-http",
            "hunter2",
        ] {
            let refusal = read("a.example", words).unwrap_err();
            assert!(!refusal.reason.contains("unter2"), "{words}: {}", refusal.reason);
            assert!(!refusal.reason.contains("aHVudGVyMg"), "{words}: {}", refusal.reason);
        }
        for words in ["user=a password=aHVudGVyMg==", "token=hunter2"] {
            let found = read("a.example", words).unwrap();
            for text in [format!("{found:?}"), found.redacted()] {
                assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_password_is_read_as_it_was_written(password in "\\PC{1,64}|(?s).{1,64}") {
            prop_assume!(password != REDACTED);
            let username = "robot$a+b".to_owned();
            let login = RegistryLogin::Basic { username, password: Secret::new(password) };
            let registry = RegistryName::parse("a.example").unwrap();
            let written = RegistryCredential::new(registry, login, false).unwrap();
            let words = written.words();
            prop_assert!(words.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
            prop_assert_eq!(read("a.example", &words), Ok(written));
        }

        #[test]
        fn any_words_are_read_or_refused(
            words in "\\PC*|(user|password|token|=|[ a-zA-Z0-9+/=-]){0,12}",
        ) {
            if let Ok(found) = read("localhost", &words) {
                prop_assert_eq!(read("localhost", &found.words()), Ok(found));
            }
        }
    }
}

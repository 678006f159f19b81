//! Programs that give the kubelet the credentials of registries
//! (`https://kubernetes.io/docs/tasks/administer-cluster/kubelet-credential-provider/`).

use std::fmt;

use super::escape::{escaped, unescape};
use super::host::is_port;
use super::kubelet::seconds;
use crate::Refusal;

/// The maximum number of such programs.
pub const MAX_PROVIDERS: usize = 8;
/// The maximum bytes of a name.
const MAX_NAME: usize = 63;
/// The maximum bytes of a value, so that it fits in the line of a request or a reply.
const MAX_LENGTH: usize = 3584;
/// The longest time for which credentials are kept, in seconds.
const MAX_CACHE: u32 = 30 * 24 * 3600;

/// The versions of the API between the kubelet and such a program, without their group.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const GROUP: &str = "credentialprovider.kubelet.k8s.io/";

const CACHE: &str = "cache";
const API: &str = "api";
const IMAGES: &str = "images";
const ARGUMENT: &str = "arg";
const VARIABLE: &str = "env";

/// A program that gives the kubelet the credentials of registries, and the images for which it is
/// asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialProvider {
    name: ProviderName,
    options: ProviderOptions,
}

/// The name of such a program, and of its file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProviderName(String);

/// How and when such a program is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderOptions {
    /// The images for which it is asked: hosts and perhaps paths, with `*` for a part of them.
    pub images: Vec<String>,
    /// How long the kubelet keeps credentials for which the program says nothing else: `12h`.
    pub cache: String,
    /// The version of the API with the program: `credentialprovider.kubelet.k8s.io/v1`.
    pub api_version: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables of its environment beside those of the kubelet, by their names.
    pub variables: Vec<(String, String)>,
}

impl CredentialProvider {
    /// Combines what was read. The kubelet would end with all that is refused here.
    ///
    /// # Errors
    /// There is no image, a part is malformed, or the whole is too long.
    pub fn new(name: ProviderName, options: ProviderOptions) -> Result<Self, Refusal> {
        options.check()?;
        let whole = Self { name, options };
        match whole.words().len() <= MAX_LENGTH {
            true => Ok(whole),
            false => {
                let name = &whole.name;
                let reason = format!("the provider `{name}` takes more than {MAX_LENGTH} bytes");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// Reads the words that [`Self::words`] writes.
    pub(super) fn parse_words(name: ProviderName, words: &str) -> Result<Self, Refusal> {
        let mut options = ProviderOptions::default();
        for word in words.split(' ') {
            let (key, value) = word.split_once('=').ok_or_else(form)?;
            match key {
                CACHE if options.cache.is_empty() => value.clone_into(&mut options.cache),
                API if options.api_version.is_empty() => {
                    options.api_version = format!("{GROUP}{value}");
                }
                IMAGES if options.images.is_empty() => {
                    options.images = value.split(',').map(str::to_owned).collect();
                }
                ARGUMENT => options.arguments.push(unescape(value).ok_or_else(form)?),
                VARIABLE => {
                    let (name, value) = value.split_once('=').ok_or_else(form)?;
                    let value = unescape(value).ok_or_else(form)?;
                    options.variables.push((name.to_owned(), value));
                }
                _ => return Err(form()),
            }
        }
        Self::new(name, options)
    }

    /// The name.
    pub fn name(&self) -> &ProviderName {
        &self.name
    }

    /// How and when it is run.
    pub fn options(&self) -> &ProviderOptions {
        &self.options
    }

    /// The value.
    pub(super) fn words(&self) -> String {
        let ProviderOptions { images, cache, api_version, arguments, variables } = &self.options;
        let version = api_version.strip_prefix(GROUP).unwrap_or_default();
        let mut words = format!("{CACHE}={cache} {API}={version} {IMAGES}={}", images.join(","));
        for argument in arguments {
            words += &format!(" {ARGUMENT}={}", escaped(argument));
        }
        for (name, value) in variables {
            words += &format!(" {VARIABLE}={name}={}", escaped(value));
        }
        words
    }
}

impl ProviderOptions {
    fn check(&self) -> Result<(), Refusal> {
        let Self { images, cache, api_version, arguments, variables } = self;
        if images.is_empty() {
            return Err(Refusal::malformed("a provider is for some images"));
        }
        if let Some(wrong) = images.iter().find(|image| !is_image(image)) {
            let start = start(wrong);
            return Err(Refusal::malformed(format!(
                "`{start}` does not match images: a host, perhaps a port and a path, with `*` for \
                 parts of them"
            )));
        }
        if seconds(cache).is_none_or(|seconds| seconds > MAX_CACHE) {
            let reason = "credentials are kept for a time such as `12h`, at most 720h";
            return Err(Refusal::malformed(reason));
        }
        let version = api_version.strip_prefix(GROUP).unwrap_or_default();
        if !VERSIONS.contains(&version) {
            let (start, words) = (start(api_version), VERSIONS.join(&format!("`, `{GROUP}")));
            let reason = format!("`{start}` is not one of `{GROUP}{words}`");
            return Err(Refusal::malformed(reason));
        }
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in variables {
            if !is_variable(name) || names.contains(&name.as_str()) {
                let reason = format!("`{}` cannot be a variable, or is there twice", start(name));
                return Err(Refusal::malformed(reason));
            }
            names.push(name);
        }
        let mut texts = arguments.iter().chain(variables.iter().map(|(_, value)| value));
        match texts.any(|text| text.contains('\0')) {
            false => Ok(()),
            true => Err(Refusal::malformed("no argument and no variable has a zero byte")),
        }
    }
}

impl ProviderName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not 1 to 63 letters, digits, dots, dashes and underscores, the first of them a letter
    /// or a digit.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let is_name = (1..=MAX_NAME).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.bytes().all(is_inside);
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(Refusal::malformed(format!(
                "`{}` is not the name of a provider: letters, digits, `.`, `-` and `_`",
                start(text)
            ))),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether this is `HOST[:PORT][/PATH]` with `*` for parts of the host and of the path.
fn is_image(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b".-_*".contains(&byte);
    let (authority, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    !host.is_empty()
        && host.bytes().all(is_inside)
        && port.is_none_or(is_port)
        && path.bytes().all(|byte| byte == b'/' || is_inside(byte))
}

/// Whether this is the name of a variable, and not one by which the loader of a program finds
/// files.
fn is_variable(name: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=MAX_NAME).contains(&name.len())
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.starts_with("LD_")
        && name.bytes().all(is_inside)
}

fn form() -> Refusal {
    Refusal::malformed(
        "a provider is `credential-provider NAME cache=TIME api=VERSION images=IMAGE,… \
         [arg=TEXT …] [env=NAME=TEXT …]`",
    )
}

fn start(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(name: &str, words: &str) -> Result<CredentialProvider, Refusal> {
        CredentialProvider::parse_words(ProviderName::parse(name)?, words)
    }

    #[test]
    fn a_provider_is_read_as_it_was_written() {
        for words in [
            "cache=12h api=v1 images=*.dkr.ecr.*.amazonaws.com",
            "cache=0s api=v1beta1 images=a.example:5000/b_c/*,b.example arg=get arg=a%20b%2cc \
             env=AWS_PROFILE=x%3dy env=EMPTY=",
        ] {
            // `=` in a value needs no escape.
            let words = words.replace("%3d", "=");
            assert_eq!(read("ecr-credential-provider", &words).unwrap().words(), words);
        }
    }

    #[test]
    fn a_provider_with_which_the_kubelet_would_end_is_refused() {
        let long = format!("cache=1h api=v1 images=a arg={}", "a".repeat(MAX_LENGTH));
        for (name, words) in [
            ("", "cache=1h api=v1 images=a"),
            (".", "cache=1h api=v1 images=a"),
            ("..", "cache=1h api=v1 images=a"),
            ("../a", "cache=1h api=v1 images=a"),
            ("a b", "cache=1h api=v1 images=a"),
            ("a", ""),
            ("a", "cache=1h"),
            ("a", "cache=1h api=v1"),
            ("a", "cache=1h api=v1 images="),
            ("a", "cache=1h api=v1 images=a,"),
            ("a", "cache=1h api=v1 images=https://a"),
            ("a", "cache=1h api=v1 images=a:b"),
            ("a", "cache=1h api=v1 images=a?b"),
            ("a", "cache=1h api=v1 images=[a"),
            ("a", "cache=1h api=v1 images=%zz"),
            ("a", "cache=1h api=v2 images=a"),
            ("a", "cache=-1h api=v1 images=a"),
            ("a", "cache=721h api=v1 images=a"),
            ("a", "cache=1h cache=2h api=v1 images=a"),
            ("a", "cache=1h api=v1 images=a env=A"),
            ("a", "cache=1h api=v1 images=a env=1=b"),
            ("a", "cache=1h api=v1 images=a env=LD_PRELOAD=/srv/a"),
            ("a", "cache=1h api=v1 images=a env=A=b env=A=c"),
            ("a", "cache=1h api=v1 images=a arg=%00"),
            ("a", "cache=1h api=v1 images=a arg=%zz"),
            ("a", "cache=1h api=v1 images=a path=/bin/a"),
            ("a", &long),
        ] {
            assert!(read(name, words).is_err(), "{name} {words}");
        }
    }

    proptest! {
        #[test]
        fn any_argument_is_read_as_it_was_written(text in "[^\0]{0,32}") {
            let options = ProviderOptions {
                images: vec!["a".to_owned()],
                cache: "1h".to_owned(),
                api_version: format!("{GROUP}v1"),
                arguments: vec![text.clone()],
                variables: vec![("A".to_owned(), text)],
            };
            let written = CredentialProvider::new(ProviderName::parse("a").unwrap(), options);
            let written = written.unwrap();
            let words = written.words();
            prop_assert!(words.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
            prop_assert_eq!(read("a", &words), Ok(written));
        }
    }
}

//! The proxy through which the node's own programs reach servers.

mod exclusion;
mod url;

pub use exclusion::ProxyExclusion;
pub use url::ProxyUrl;

use crate::Refusal;

/// The maximum number of entries that are reached without the proxy.
pub const MAX_EXCLUSIONS: usize = 32;
/// The maximum bytes of a value.
const MAX_LENGTH: usize = 2048;

/// The destinations that programs always reach without the proxy: the node itself, its link, the
/// metadata service of its cloud, which must not receive requests from a proxy, and the names of
/// Services.
pub const NEVER_PROXIED: [&str; 8] = [
    "localhost",
    "127.0.0.0/8",
    "::1",
    "169.254.0.0/16",
    "fe80::/10",
    "fd00:ec2::254",
    ".svc",
    ".cluster.local",
];

const HTTP: &str = "http";
const HTTPS: &str = "https";
const NO_PROXY: &str = "no-proxy";

/// The proxies for two kinds of URLs, and the destinations that are reached without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    http: Option<ProxyUrl>,
    https: Option<ProxyUrl>,
    exclusions: Vec<ProxyExclusion>,
}

impl Proxy {
    /// Combines what was read.
    ///
    /// # Errors
    /// There is no proxy, there are more than 32 exclusions, or all of it is too long.
    pub fn new(
        http: Option<ProxyUrl>,
        https: Option<ProxyUrl>,
        exclusions: Vec<ProxyExclusion>,
    ) -> Result<Self, Refusal> {
        if http.is_none() && https.is_none() {
            return Err(Refusal::malformed(
                "there is a proxy for `http`, for `https`, or for both",
            ));
        }
        if exclusions.len() > MAX_EXCLUSIONS {
            let reason = format!("at most {MAX_EXCLUSIONS} entries are reached without the proxy");
            return Err(Refusal::malformed(reason));
        }
        let whole = Self { http, https, exclusions };
        match whole.words().len() <= MAX_LENGTH {
            true => Ok(whole),
            false => Err(Refusal::malformed(format!("a proxy takes more than {MAX_LENGTH} bytes"))),
        }
    }

    /// Reads `[http=URL] [https=URL] [no-proxy=ENTRY,…]`.
    pub(super) fn parse_words(words: &str) -> Result<Self, Refusal> {
        let (mut http, mut https, mut exclusions) = (None, None, None);
        for word in words.split(' ') {
            let is_new = match word.split_once('=').unwrap_or((word, "")) {
                (HTTP, url) => http.replace(ProxyUrl::parse(url)?).is_none(),
                (HTTPS, url) => https.replace(ProxyUrl::parse(url)?).is_none(),
                (NO_PROXY, list) => {
                    let entries = list.split(',').map(ProxyExclusion::parse);
                    exclusions.replace(entries.collect::<Result<_, _>>()?).is_none()
                }
                _ => false,
            };
            if !is_new {
                let form = "a proxy is `proxy [http=URL] [https=URL] [no-proxy=ENTRY,…]`";
                return Err(Refusal::malformed(form));
            }
        }
        Self::new(http, https, exclusions.unwrap_or_default())
    }

    /// The proxy for `http` URLs.
    pub fn http(&self) -> Option<&ProxyUrl> {
        self.http.as_ref()
    }

    /// The proxy for `https` URLs.
    pub fn https(&self) -> Option<&ProxyUrl> {
        self.https.as_ref()
    }

    /// The destinations that are reached without the proxies, beside [`NEVER_PROXIED`].
    pub fn exclusions(&self) -> &[ProxyExclusion] {
        &self.exclusions
    }

    /// The words that [`Self::parse_words`] reads.
    pub(super) fn words(&self) -> String {
        let word = |key: &str, url: &Option<ProxyUrl>| Some(format!("{key}={}", url.as_ref()?));
        let entries: Vec<&str> = self.exclusions.iter().map(ProxyExclusion::as_str).collect();
        let exclusions = (!entries.is_empty()).then(|| format!("{NO_PROXY}={}", entries.join(",")));
        let words = [word(HTTP, &self.http), word(HTTPS, &self.https), exclusions];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// The variables from which programs in Go and Rust take their proxy. `cluster` is what they
    /// reach without it as well.
    pub fn environment(&self, cluster: &[ProxyExclusion]) -> Vec<(&'static str, String)> {
        let mut excluded: Vec<&str> = Vec::new();
        let own = cluster.iter().chain(&self.exclusions).map(ProxyExclusion::as_str);
        for entry in NEVER_PROXIED.into_iter().chain(own) {
            if !excluded.contains(&entry) {
                excluded.push(entry);
            }
        }
        let url = |name, url: &Option<ProxyUrl>| Some((name, url.as_ref()?.to_string()));
        let proxies = [url("HTTP_PROXY", &self.http), url("HTTPS_PROXY", &self.https)];
        let proxies = proxies.into_iter().flatten();
        proxies.chain([("NO_PROXY", excluded.join(","))]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_has_one_place_for_each_word() {
        let words = "no-proxy=.example.org,10.0.0.0/8 https=http://b:2 http=http://a:1";
        let expected = "http=http://a:1 https=http://b:2 no-proxy=.example.org,10.0.0.0/8";
        assert_eq!(Proxy::parse_words(words).unwrap().words(), expected);
    }

    #[test]
    fn a_proxy_is_for_some_urls_and_each_word_is_there_once() {
        let many = |count| {
            let entries: Vec<_> = (0..count).map(|n| format!("a{n}.example")).collect();
            format!("http=http://a:1 no-proxy={}", entries.join(","))
        };
        assert!(Proxy::parse_words(&many(MAX_EXCLUSIONS)).is_ok());
        let long = format!("{}.example", "a".repeat(63));
        for words in [
            "",
            "no-proxy=example.org",
            "http=http://a:1 http=http://b:1",
            "http=http://a:1  https=http://b:1",
            "http=http://a:1 no-proxy=",
            "http=http://a:1 no-proxy=a,,b",
            "http=http://a:1 no-proxy=a no-proxy=b",
            "http=http://a:1 ftp=http://b:1",
            "http://a:1",
            &many(MAX_EXCLUSIONS + 1),
            &format!("http=http://a:1 no-proxy={}", vec![long; MAX_EXCLUSIONS].join(",")),
        ] {
            assert!(Proxy::parse_words(words).is_err(), "{words}");
        }
    }

    #[test]
    fn the_node_the_metadata_and_the_cluster_are_always_reached_without_it() {
        let proxy = Proxy::parse_words("https=http://a:1 no-proxy=::1,example.org").unwrap();
        let cluster = [ProxyExclusion::parse("10.0.2.2").unwrap()];
        let never = NEVER_PROXIED.join(",");
        assert_eq!(
            proxy.environment(&cluster),
            [
                ("HTTPS_PROXY", "http://a:1".to_owned()),
                ("NO_PROXY", format!("{never},10.0.2.2,example.org")),
            ]
        );
        for entry in NEVER_PROXIED {
            assert!(ProxyExclusion::parse(entry).is_ok(), "{entry}");
        }
    }
}

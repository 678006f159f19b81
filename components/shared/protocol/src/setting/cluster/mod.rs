//! The cluster that the node joins.

mod server;
mod state;
mod token;

pub use server::ServerUrl;
pub use state::{ClusterState, Readiness};
pub use token::BootstrapToken;

use std::fmt;
use std::net::IpAddr;

use zeroize::Zeroizing;

use super::secret::REDACTED;
use super::{Authorities, is_subdomain};
use crate::Refusal;

/// The maximum bytes of a value, so that it fits in the line of a request.
const MAX_LENGTH: usize = 12 << 10;
/// The maximum number of name servers: as many as a resolver reads (resolv.conf(5), `MAXNS`).
const MAX_DNS: usize = 3;

const SERVER: &str = "server";
const AUTHORITY: &str = "ca";
const TOKEN: &str = "token";
const DNS: &str = "dns";
const DOMAIN: &str = "domain";

/// A cluster, and the means of a node to get into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterJoin {
    server: ServerUrl,
    authority: Authorities,
    token: Option<BootstrapToken>,
    dns: Vec<IpAddr>,
    domain: ClusterDomain,
}

/// The DNS domain of the Services of a cluster (RFC 1123).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDomain(String);

impl ClusterJoin {
    /// Combines what was read.
    ///
    /// # Errors
    /// There is no certificate, there are too many name servers, or all of it is too long.
    pub fn new(
        server: ServerUrl,
        authority: Authorities,
        token: Option<BootstrapToken>,
        dns: Vec<IpAddr>,
        domain: ClusterDomain,
    ) -> Result<Self, Refusal> {
        if authority.is_empty() {
            return Err(Refusal::malformed("the cluster has no certificate authority"));
        }
        if dns.len() > MAX_DNS {
            let reason = format!("pods have at most {MAX_DNS} name servers");
            return Err(Refusal::malformed(reason));
        }
        let whole = Self { server, authority, token, dns, domain };
        match whole.words().len() <= MAX_LENGTH {
            true => Ok(whole),
            false => {
                Err(Refusal::malformed(format!("a cluster takes more than {MAX_LENGTH} bytes")))
            }
        }
    }

    /// Reads `server=URL ca=BASE64,… [token=TOKEN] [dns=ADDRESS,…] [domain=DOMAIN]`. No reason of a
    /// refusal has the token.
    pub(super) fn parse_words(words: &str) -> Result<Self, Refusal> {
        let (mut server, mut authority, mut token) = (None, None, None);
        let (mut dns, mut domain) = (None, None);
        for word in words.split(' ') {
            let is_new = match word.split_once('=').unwrap_or((word, "")) {
                (SERVER, url) => server.replace(ServerUrl::parse(url)?).is_none(),
                (AUTHORITY, list) => authority.replace(Authorities::parse(list)?).is_none(),
                (TOKEN, text) => token.replace(BootstrapToken::parse(text)?).is_none(),
                (DNS, list) => dns.replace(addresses(list)?).is_none(),
                (DOMAIN, text) => domain.replace(ClusterDomain::parse(text)?).is_none(),
                _ => false,
            };
            if !is_new {
                return Err(form());
            }
        }
        let (Some(server), Some(authority)) = (server, authority) else { return Err(form()) };
        Self::new(server, authority, token, dns.unwrap_or_default(), domain.unwrap_or_default())
    }

    /// The API server.
    pub fn server(&self) -> &ServerUrl {
        &self.server
    }

    /// The certificates that sign those of the API server and of its clients.
    pub fn authority(&self) -> &Authorities {
        &self.authority
    }

    /// The token with which the node requests its first certificate. A node that has one needs no
    /// token.
    pub fn token(&self) -> Option<&BootstrapToken> {
        self.token.as_ref()
    }

    /// The addresses of the name servers for pods.
    pub fn dns(&self) -> &[IpAddr] {
        &self.dns
    }

    /// The domain of Services.
    pub fn domain(&self) -> &ClusterDomain {
        &self.domain
    }

    /// The words that [`Self::parse_words`] reads, with the token.
    pub(super) fn words(&self) -> Zeroizing<String> {
        Zeroizing::new(self.words_with(self.token.as_ref().map(BootstrapToken::reveal)))
    }

    /// The same without the token.
    pub(super) fn redacted(&self) -> String {
        self.words_with(self.token.as_ref().map(|_| REDACTED))
    }

    fn words_with(&self, token: Option<&str>) -> String {
        let Self { server, authority, dns, domain, .. } = self;
        let mut words = format!("{SERVER}={server} {AUTHORITY}={authority}");
        if let Some(token) = token {
            words += &format!(" {TOKEN}={token}");
        }
        if !dns.is_empty() {
            let dns: Vec<String> = dns.iter().map(ToString::to_string).collect();
            words += &format!(" {DNS}={}", dns.join(","));
        }
        if *domain != ClusterDomain::default() {
            words += &format!(" {DOMAIN}={domain}");
        }
        words
    }
}

impl ClusterDomain {
    /// Reads a domain.
    ///
    /// # Errors
    /// It is no domain in lower case, or has a dot at its end.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match is_subdomain(text) {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(64).collect();
                Err(Refusal::malformed(format!("`{start}` is not a domain")))
            }
        }
    }

    /// The domain.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The domain of most clusters.
impl Default for ClusterDomain {
    fn default() -> Self {
        Self("cluster.local".to_owned())
    }
}

impl fmt::Display for ClusterDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn addresses(list: &str) -> Result<Vec<IpAddr>, Refusal> {
    let address = |word: &str| {
        let refuse = || Refusal::malformed("a name server for pods is an IP address");
        word.parse().map_err(|_| refuse())
    };
    list.split(',').map(address).collect()
}

fn form() -> Refusal {
    Refusal::malformed(
        "a cluster is `cluster-join server=URL ca=BASE64,… [token=TOKEN] [dns=ADDRESS,…] \
         [domain=DOMAIN]`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Request, Setting, Socket};
    use proptest::prelude::*;

    const SECRET: &str = "0123456789abcdef";

    fn read(words: &str) -> Result<ClusterJoin, Refusal> {
        ClusterJoin::parse_words(words)
    }

    #[test]
    fn a_cluster_is_read_as_it_was_written() {
        for words in [
            "server=https://10.0.2.2:6443 ca=MIIB",
            "server=https://a/k8s ca=MIIB,MIIC token=abcdef.0123456789abcdef dns=10.96.0.10",
            "server=https://[fd00::1]:6443 ca=MIIB dns=10.96.0.10,fd00::a domain=example.org",
        ] {
            assert_eq!(*read(words).unwrap().words(), words);
        }
        let usual = read("server=https://a ca=MIIB domain=cluster.local").unwrap();
        assert_eq!(*usual.words(), "server=https://a ca=MIIB");
    }

    #[test]
    fn a_cluster_without_its_parts_or_with_others_is_refused() {
        for words in [
            "",
            "server=https://a",
            "ca=MIIB",
            "server= ca=MIIB",
            "server=https://a ca=",
            "server=http://a ca=MIIB",
            "server=https://a ca=/etc/ca.crt",
            "server=https://a ca=MIIB token=",
            "server=https://a ca=MIIB token=abcdef",
            "server=https://a ca=MIIB token=(hidden)",
            "server=https://a ca=MIIB dns=",
            "server=https://a ca=MIIB dns=kube-dns",
            "server=https://a ca=MIIB dns=10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4",
            "server=https://a ca=MIIB domain=Cluster.local",
            "server=https://a ca=MIIB domain=cluster.local.",
            "server=https://a ca=MIIB server=https://b",
            "server=https://a  ca=MIIB",
            "server=https://a ca=MIIB kubeconfig=/etc/a",
            "server=https://a ca=MIIB,MIIB,MIIB,MIIB,MIIB",
        ] {
            assert!(read(words).is_err(), "{words}");
        }
    }

    #[test]
    fn certificates_of_four_authorities_fit_in_a_request() {
        let certificates = vec![format!("MI{}", "A".repeat(2998)); 4].join(",");
        let words = format!("server=https://a ca={certificates} token=abcdef.{SECRET}");
        let join = read(&words).unwrap();
        let request = Request::Apply(Setting::ClusterJoin(join));
        assert!(request.to_string().len() < Socket::Host.max_line());
        let long = format!("server=https://a ca={}", certificates.replace('A', "AAAAA"));
        assert!(read(&long).unwrap_err().reason.contains("12288 bytes"));
    }

    #[test]
    fn neither_reasons_nor_debug_have_the_token() {
        for words in [
            format!("server=https://a ca=MIIB token=abcdef.{SECRET} token=abcdef.{SECRET}"),
            format!("server=https://a ca=MIIB token=ABCDEF.{SECRET}"),
            format!("server=https://a ca=MIIB token={SECRET}"),
            format!("server=https://a ca=MIIB token=abcdef.{SECRET} token"),
            format!("server=https://a ca=MIIB tokens=abcdef.{SECRET}"),
            format!("server=http://a ca=MIIB token=abcdef.{SECRET}"),
        ] {
            let reason = read(&words).unwrap_err().reason;
            assert!(!reason.contains(SECRET), "{words}: {reason}");
        }
        let join = read(&format!("server=https://a ca=MIIB token=abcdef.{SECRET}")).unwrap();
        for text in [format!("{join:?}"), join.redacted()] {
            assert!(!text.contains(SECRET), "{text}");
        }
        assert!(join.redacted().ends_with(" token=(hidden)"));
    }

    proptest! {
        #[test]
        fn any_words_are_read_or_refused(
            words in "\\PC*|server=https://a ca=MI[A-D]{2}\
                      (( token| dns| domain)=[a-z0-9.:]{0,24}){0,3}",
        ) {
            if let Ok(join) = read(&words) {
                prop_assert_eq!(read(&join.words()), Ok(join));
            }
        }
    }
}

//! The addresses of a host, found as programs of the node find them: hosts(5), then the name
//! servers of resolv.conf(5) with its search list.

use super::STEP_TIMEOUT;
use super::dns::{self, Answer, NoAnswer};
use super::steps::{Failed, Steps, Stop};
use nix::net::if_::if_nametoindex;
use resolv_conf::{Config, ScopedIp};
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::Path;
use tokio::time::{Instant, timeout};

/// Servers that are asked: resolv.conf(5) has three at most, and other resolvers take more.
const MAX_SERVERS: usize = 8;

/// Addresses of a host that are tried.
const MAX_ADDRESSES: usize = 4;

/// The most that is read of a file, in bytes.
const MAX_FILE: u64 = 64 << 10;

/// The addresses of a host that the caller may reach, a few at most. An address is its own.
pub async fn addresses(host: &str, steps: &Steps<'_>) -> Result<Vec<IpAddr>, Stop> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let mut addresses = match bare.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => {
            let name = dns::checked(host)?;
            let words = |found: &Vec<IpAddr>| {
                found.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
            };
            let (began, found) = (Instant::now(), find(&name, steps).await);
            steps.tell("lookup", name, began, found.as_ref().map(words)).await;
            found.map_err(|failed| Stop::Unreached(format!("no address: {}", failed.error)))?
        }
    };
    addresses.truncate(MAX_ADDRESSES);
    for address in &addresses {
        steps.reachable.check(*address)?;
    }
    Ok(addresses)
}

/// The name servers of the node.
pub fn servers(steps: &Steps<'_>) -> Result<Vec<SocketAddr>, Stop> {
    let config = resolver(steps).map_err(|failed| Stop::Unreached(failed.error))?;
    Ok(config.nameservers.iter().filter_map(server).take(MAX_SERVERS).collect())
}

fn server(address: &ScopedIp) -> Option<SocketAddr> {
    Some(match address {
        ScopedIp::V4(ip) => SocketAddr::new((*ip).into(), dns::PORT),
        ScopedIp::V6(ip, None) => SocketAddr::new((*ip).into(), dns::PORT),
        ScopedIp::V6(ip, Some(link)) => {
            let scope = link.parse().ok().or_else(|| if_nametoindex(link.as_str()).ok())?;
            SocketAddrV6::new(*ip, dns::PORT, 0, scope).into()
        }
    })
}

fn resolver(steps: &Steps<'_>) -> Result<Config, Failed> {
    let path = &steps.files.resolver;
    let text = read(path)
        .map_err(|error| Failed::new(format!("cannot read `{}`: {error}", path.display()), ""))?;
    Ok(Config::parse_with_errors(text.as_bytes()).0)
}

async fn find(name: &str, steps: &Steps<'_>) -> Result<Vec<IpAddr>, Failed> {
    let hosts = read(&steps.files.hosts).unwrap_or_default();
    let listed = of_hosts(&hosts, name);
    if !listed.is_empty() {
        return Ok(listed);
    }
    let config = resolver(steps)?;
    let all = config.nameservers.iter().filter_map(server).take(MAX_SERVERS).collect();
    let mut servers = Servers { all, silent: Vec::new() };
    if servers.all.is_empty() {
        return Err(Failed::new(
            "the node has no name server",
            "DHCP names none, or has no answer yet: `osctl get resolverstatuses`",
        ));
    }
    match timeout(STEP_TIMEOUT, servers.find(name, &config)).await {
        Ok(found) => found,
        Err(_) => Err(servers.late()),
    }
}

/// The name servers of the node during a lookup.
struct Servers {
    /// Those to ask, in order.
    all: Vec<SocketAddr>,
    /// Those that have not answered.
    silent: Vec<SocketAddr>,
}

impl Servers {
    /// Asks for the name as the node does, with its search list. Each server that does not answer
    /// takes seconds, so for the next names it is the last that is asked.
    async fn find(&mut self, name: &str, config: &Config) -> Result<Vec<IpAddr>, Failed> {
        let mut last = NoAnswer::NoName.words(name);
        for candidate in candidates(name, config) {
            self.all.sort_by_key(|server| self.silent.contains(server));
            for server in &self.all {
                let why = match dns::query(*server, &candidate).await {
                    Ok(Answer { addresses, .. }) => return Ok(addresses),
                    Err(NoAnswer::NoName) => break,
                    Err(why) => why,
                };
                if matches!(why, NoAnswer::Silence(_)) && !self.silent.contains(server) {
                    self.silent.push(*server);
                }
                let Failed { error, meaning } = why.words(&candidate);
                last = Failed::new(format!("{error} (server {server})"), meaning);
            }
        }
        Err(last)
    }

    /// The failure of a lookup that takes too long, which names the servers that it has waited for.
    fn late(&self) -> Failed {
        let servers = if self.silent.is_empty() { &self.all } else { &self.silent };
        let servers: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
        let (seconds, servers) = (STEP_TIMEOUT.as_secs(), servers.join(", "));
        Failed::new(
            format!("no answer within {seconds} s (servers {servers})"),
            "a firewall drops the packets, or no name servers have these addresses",
        )
    }
}

/// The names to ask for, in order: the name itself first if it has as many dots as `ndots`.
fn candidates(name: &str, config: &Config) -> Vec<String> {
    let listed = config.get_last_search_or_domain();
    let mut names: Vec<String> =
        listed.map(|domain| format!("{name}.{}", domain.trim_end_matches('.'))).collect();
    names.retain(|name| dns::checked(name).is_ok());
    let dots = u32::try_from(name.matches('.').count()).unwrap_or(u32::MAX);
    let at = if dots >= config.ndots { 0 } else { names.len() };
    names.insert(at, name.to_owned());
    names
}

/// The addresses that hosts(5) lists for a name.
fn of_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let of_line = |line: &str| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    };
    text.lines().filter_map(of_line).collect()
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_lists_addresses_of_names() {
        let text =
            "127.0.0.1 localhost\n::1 localhost # six\n# 10.0.0.1 api\n10.0.0.2 a Api\nx api";
        assert_eq!(of_hosts(text, "api"), ["10.0.0.2".parse::<IpAddr>().unwrap()]);
        assert_eq!(of_hosts(text, "localhost").len(), 2);
        assert!(of_hosts(text, "six").is_empty());
    }

    #[test]
    fn a_short_name_is_tried_with_the_search_list_first() {
        let (config, _) =
            Config::parse_with_errors(b"nameserver fe80::1%1\nsearch example.org local.\n");
        assert_eq!(candidates("api", &config), ["api.example.org", "api.local", "api"]);
        let long = candidates("api.example.net", &config);
        assert_eq!(long[0], "api.example.net");
        let server = server(&config.nameservers[0]).unwrap();
        assert_eq!(server.to_string(), "[fe80::1%1]:53");
    }
}

//! The files of name servers (resolv.conf(5), which `/etc/resolv.conf` links to) and of time servers.

use std::net::IpAddr;

use osbuild_abi::paths::{NTP_SERVERS, RESOLV_CONF};
use osbuild_failure::Outcome;

use crate::run_files::write;

/// Writes both files without a server: containerd copies the first one into every pod, also before a pod has told any.
pub fn write_empty() -> Outcome {
    [RESOLV_CONF, NTP_SERVERS].into_iter().try_for_each(|path| write(path, ""))
}

/// Writes the name servers and the search list.
pub fn write_resolv(servers: &[IpAddr], search: &[String]) -> Outcome {
    write(RESOLV_CONF, &resolv(servers, search))
}

/// Writes the time servers, one a line.
pub fn write_time(servers: &[IpAddr]) -> Outcome {
    let text: String = servers.iter().map(|server| format!("{server}\n")).collect();
    write(NTP_SERVERS, &text)
}

fn resolv(servers: &[IpAddr], search: &[String]) -> String {
    let mut text: String = servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    if !search.is_empty() {
        text.push_str(&format!("search {}\n", search.join(" ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolver_finds_servers_and_search_list() {
        let servers = ["10.0.2.3".parse().unwrap(), "fec0::3".parse().unwrap()];
        let search = ["example.org".to_owned(), "example.com".to_owned()];
        assert_eq!(resolv(&servers, &search), "nameserver 10.0.2.3\nnameserver fec0::3\nsearch example.org example.com\n");
        assert_eq!(resolv(&[], &[]), "");
    }
}

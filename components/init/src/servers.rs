//! The files of name servers (resolv.conf(5), which `/etc/resolv.conf` links to) and of time
//! servers.

use std::net::IpAddr;

use osbuild_abi::cmdline::{TIME_SERVERS, value};
use osbuild_abi::paths::{NTP_SERVERS, RESOLV_CONF};
use osbuild_failure::Outcome;

use crate::node::Node;
use crate::run_files::write;

/// Writes both files as they are before a pod has told anything: without a name server, as
/// containerd copies that file into every pod, and with the time servers of the image.
pub fn write_first(node: &Node) -> Outcome {
    write(RESOLV_CONF, "")?;
    write(NTP_SERVERS, &of_the_image(&node.command_line))
}

/// Writes the name servers and the search list.
pub fn write_resolv(servers: &[IpAddr], search: &[String]) -> Outcome {
    write(RESOLV_CONF, &resolv(servers, search))
}

/// Writes the time servers, one a line; those of the image if there are none.
pub fn write_time(node: &Node, servers: &[IpAddr]) -> Outcome {
    let text: String = servers.iter().map(|server| format!("{server}\n")).collect();
    write(
        NTP_SERVERS,
        if servers.is_empty() { of_the_image(&node.command_line) } else { text }.as_str(),
    )
}

/// The time servers on the kernel's command line, one a line.
fn of_the_image(command_line: &str) -> String {
    let servers = value(command_line, TIME_SERVERS)
        .unwrap_or_default()
        .split(',')
        .filter(|server| !server.is_empty());
    servers.map(|server| format!("{server}\n")).collect()
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
    fn a_network_that_names_no_time_server_has_those_of_the_image() {
        let line = "console=ttyS0 osbuild.time-servers=169.254.169.123,time.example:124 gpt";
        assert_eq!(of_the_image(line), "169.254.169.123\ntime.example:124\n");
        assert_eq!(of_the_image("osbuild.time-servers= gpt"), "");
        assert_eq!(of_the_image("gpt"), "");
    }

    #[test]
    fn a_resolver_finds_servers_and_search_list() {
        let servers = ["10.0.2.3".parse().unwrap(), "fec0::3".parse().unwrap()];
        let search = ["example.org".to_owned(), "example.com".to_owned()];
        assert_eq!(
            resolv(&servers, &search),
            "nameserver 10.0.2.3\nnameserver fec0::3\nsearch example.org example.com\n"
        );
        assert_eq!(resolv(&[], &[]), "");
    }
}

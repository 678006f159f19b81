//! The node's name servers and search list (resolv.conf(5)). `/etc/resolv.conf` is a link to the
//! file that is written here, and containerd copies it into every pod.

use osbuild_abi::paths::RESOLV_CONF;
use osbuild_failure::Outcome;

use super::run_files;

/// The content of a resolv.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolver {
    servers: Vec<String>,
    search: Vec<String>,
    /// Lines of other kinds. `init` writes none, so a file with one is not a copy of the node's.
    others: Vec<String>,
}

/// Writes the file.
pub fn apply(resolver: &Resolver) -> Outcome {
    run_files::write(RESOLV_CONF, &resolver.to_text())
}

/// The content of the file, if it can be read.
pub fn observe() -> Option<Resolver> {
    run_files::read(RESOLV_CONF).map(|text| Resolver::parse(&text))
}

impl Resolver {
    /// These name servers and this search list.
    pub fn new(servers: Vec<String>, search: Vec<String>) -> Self {
        Resolver { servers, search, others: Vec::new() }
    }

    /// The addresses of its name servers.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    /// The domains of its search list.
    pub fn search(&self) -> &[String] {
        &self.search
    }

    /// Reads a file.
    pub fn parse(text: &str) -> Self {
        let mut resolver = Resolver::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace().map(str::to_owned);
            match words.next().as_deref() {
                Some("nameserver") => resolver.servers.extend(words),
                Some("search") => resolver.search = words.collect(),
                None => {}
                Some(_) => resolver.others.push(line.to_owned()),
            }
        }
        resolver
    }

    /// One line that no other resolver has.
    pub fn to_line(&self) -> String {
        let [servers, search, others] =
            [&self.servers, &self.search, &self.others].map(|words| words.join(" "));
        format!("{servers} | {search} | {others}")
    }

    fn to_text(&self) -> String {
        let servers = self.servers.iter().map(|server| format!("nameserver {server}\n"));
        let search =
            (!self.search.is_empty()).then(|| format!("search {}\n", self.search.join(" ")));
        servers.chain(search).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_servers_and_search_list_and_reads_back() {
        let servers = ["10.0.2.3", "fec0::3"].map(str::to_owned).to_vec();
        let search = ["example.org", "example.com"].map(str::to_owned).to_vec();
        let resolver = Resolver::new(servers, search);
        assert_eq!(
            resolver.to_text(),
            "nameserver 10.0.2.3\nnameserver fec0::3\nsearch example.org example.com\n"
        );
        assert_eq!(Resolver::parse(&resolver.to_text()), resolver);
        assert_eq!(Resolver::default().to_text(), "");
    }
}

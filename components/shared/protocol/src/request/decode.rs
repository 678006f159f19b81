//! Reads the lines that clients send: strict, since every client is a pod.

use std::net::IpAddr;
use std::str::FromStr;

use super::{ClockReport, MAX_REASON, ReportText, Request, UpdateReport};
use crate::{
    BlockDevice, DebugContainer, DebugId, DebugRights, DebugTime, Domain, Entry, Fingerprint,
    ImageName, LinkName, Mtu, Refusal, RefusalCode, Setting, SettingName, Socket, TryTime,
    WireGuardState, host_name,
};

/// Most name servers that a resolver reads (resolv.conf(5), `MAXNS`).
const MAX_NAME_SERVERS: usize = 3;
/// Most domains in a search list (resolv.conf(5)).
const MAX_DOMAINS: usize = 6;
/// Most time servers: more than any client asks.
const MAX_TIME_SERVERS: usize = 8;
/// Most addresses of one link.
const MAX_ADDRESSES: usize = 8;

type Decoded<T = Request> = Result<T, Refusal>;

impl Request {
    /// Reads one line, without its end, that came over this socket.
    ///
    /// # Errors
    /// The socket has no such verb, or the words after the verb are wrong.
    pub fn decode(socket: Socket, line: &str) -> Decoded {
        if !line.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(Refusal::malformed("a line has printable ASCII characters only"));
        }
        match socket {
            Socket::Net => net(line),
            Socket::Admin => admin(line),
            Socket::Update => update(line),
            Socket::Time => time(line),
            Socket::Host => host(line),
            Socket::Bootstrap => bootstrap(line),
        }
    }
}

fn admin(line: &str) -> Decoded {
    match line {
        "status" => Ok(Request::Status),
        "restart kubelet" => Ok(Request::RestartKubelet),
        "restart containerd" => Ok(Request::RestartContainerd),
        "reboot" => Ok(Request::Reboot),
        "rollback" => Ok(Request::RollBack),
        "check" => Ok(Request::CheckNow),
        "reset" => Ok(Request::Reset),
        "power-off" => Ok(Request::PowerOff),
        "end-debug" => Ok(Request::EndDebug),
        _ => match line.split_once(' ') {
            Some(("debug", words)) => debug(words).map(Request::Debug),
            _ => Err(unknown(line)),
        },
    }
}

fn debug(words: &str) -> Decoded<DebugContainer> {
    let words: Vec<&str> = words.split(' ').collect();
    let [id, rights, seconds, image] = words[..] else {
        return Err(Refusal::malformed("`debug` has an identifier, rights, seconds and an image"));
    };
    Ok(DebugContainer {
        id: DebugId::parse(id)?,
        rights: DebugRights::parse(rights)?,
        time: DebugTime::new(number(seconds)?)?,
        image: ImageName::parse(image)?,
    })
}

fn update(line: &str) -> Decoded {
    match line {
        "status" => Ok(Request::SlotsStatus),
        "slot" => Ok(Request::OpenSlot),
        "try" => Ok(Request::TrySlot),
        "boot-program" => Ok(Request::ReplaceBootProgram),
        "await-check" => Ok(Request::AwaitCheck),
        "reboot" => Ok(Request::Reboot),
        _ => match line.split_once(' ') {
            Some(("progress", report)) => Ok(Request::Progress(UpdateReport::parse(report)?)),
            _ => Err(unknown(line)),
        },
    }
}

fn time(line: &str) -> Decoded {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["last"] => Ok(Request::LastSeen),
        ["set", offset, "by", agreeing, "of", answered] => {
            Ok(Request::ClockSet(clock_report(offset, agreeing, answered)?))
        }
        ["refused", offset, "by", agreeing, "of", answered] => {
            Ok(Request::ClockRefused(clock_report(offset, agreeing, answered)?))
        }
        _ => Err(unknown(line)),
    }
}

fn host(line: &str) -> Decoded {
    match line.split_once(' ') {
        Some(("apply", setting)) => Ok(Request::Apply(Setting::parse(setting)?)),
        Some(("withdraw", name)) => Ok(Request::Withdraw(SettingName::parse(name)?)),
        Some(("try", seconds)) => Ok(Request::BeginTry(TryTime::new(number(seconds)?)?)),
        Some(("serves", word)) => Ok(Request::Serves(Fingerprint::parse(word)?)),
        None if line == "confirm" => Ok(Request::ConfirmTry),
        None if line == "revert" => Ok(Request::RevertTry),
        None if line == "observe" => Ok(Request::Observe),
        _ => Err(unknown(line)),
    }
}

fn bootstrap(line: &str) -> Decoded {
    match line.split_once(' ') {
        Some(("report", text)) => Ok(Request::Bootstrap(ReportText::parse(text)?)),
        _ if line == "restart kubelet" => Ok(Request::RestartKubelet),
        _ if line == "volume" => Ok(Request::OpenVolume { after: None }),
        _ => match line.strip_prefix("volume after ") {
            Some(device) => Ok(Request::OpenVolume { after: Some(BlockDevice::parse(device)?) }),
            None => Err(unknown(line)),
        },
    }
}

fn net(line: &str) -> Decoded {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["hostname", word] => Ok(Request::HostName(host_name::check(word)?)),
        ["resolv", rest @ ..] => resolver(rest),
        ["ntp", servers @ ..] => {
            limit(servers, MAX_TIME_SERVERS, "time servers")?;
            Ok(Request::TimeServers(all(servers, IpAddr::parse)?))
        }
        ["address", addresses @ .., "on", link] => {
            limit(addresses, MAX_ADDRESSES, "addresses of a link")?;
            let (addresses, link) = (all(addresses, interface_address)?, link_name(link)?);
            Ok(Request::Addresses { addresses, link })
        }
        ["router-advertisements", "on", link] => {
            Ok(Request::RouterAdvertisements(link_name(link)?))
        }
        ["await-network", revision] => Ok(Request::AwaitNetwork(number(revision)?)),
        ["former-mtu", mtu, "on", link] => {
            let mtu = Some(mtu).filter(|mtu| **mtu != "none").map(|mtu| Mtu::parse(mtu));
            Ok(Request::FormerMtu { link: LinkName::parse(link)?, mtu: mtu.transpose()? })
        }
        ["network-set", ..] => match Setting::parse(&words[1..].join(" "))? {
            Setting::Network(setting) => Ok(Request::NetworkSet(setting)),
            _ => Err(Refusal::malformed("this is not a setting of the network")),
        },
        ["network-failed", ..] => network_failed(&words[1..].join(" ")),
        ["wireguard", ..] => Ok(Request::WireGuard(WireGuardState::parse(&words[1..].join(" "))?)),
        _ => Err(unknown(line)),
    }
}

fn network_failed(words: &str) -> Decoded {
    match SettingName::split(words)? {
        (SettingName::Network(name), reason) if (1..=MAX_REASON).contains(&reason.len()) => {
            Ok(Request::NetworkFailed { name, reason: reason.to_owned() })
        }
        _ => Err(Refusal::malformed(format!(
            "`network-failed` has a setting of the network and a reason of 1 to {MAX_REASON} bytes"
        ))),
    }
}

fn resolver(words: &[&str]) -> Decoded {
    let (servers, search) = match words.iter().position(|word| *word == "search") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, [].as_slice()),
    };
    limit(servers, MAX_NAME_SERVERS, "name servers")?;
    limit(search, MAX_DOMAINS, "search domains")?;
    let search = all(search, Domain::parse)?.iter().map(Domain::to_string).collect();
    Ok(Request::Resolver { servers: all(servers, IpAddr::parse)?, search })
}

fn unknown(line: &str) -> Refusal {
    let verb: String = line.chars().take_while(|one| *one != ' ').take(32).collect();
    Refusal::new(RefusalCode::UnknownVerb, format!("`{verb}` is not a verb of this socket"))
}

fn limit(words: &[&str], max: usize, of: &str) -> Decoded<()> {
    match words.len() > max {
        true => Err(Refusal::malformed(format!("at most {max} {of}"))),
        false => Ok(()),
    }
}

fn all<T>(words: &[&str], read: fn(&str) -> Decoded<T>) -> Decoded<Vec<T>> {
    words.iter().map(|word| read(word)).collect()
}

fn clock_report(offset: &str, agreeing: &str, answered: &str) -> Decoded<ClockReport> {
    let (offset, agreeing, answered) = (number(offset)?, number(agreeing)?, number(answered)?);
    Ok(ClockReport { offset, agreeing, answered })
}

fn number<T: FromStr>(word: &str) -> Decoded<T> {
    word.parse().map_err(|_| Refusal::malformed(format!("`{word}` is not a number in range")))
}

fn interface_address(word: &str) -> Decoded<String> {
    let refuse = || Refusal::malformed(format!("`{word}` is not `ADDRESS/PREFIX-LENGTH`"));
    let (address, length) = word.split_once('/').ok_or_else(refuse)?;
    let address: IpAddr = address.parse().map_err(|_| refuse())?;
    let length: u8 = length.parse().map_err(|_| refuse())?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    if length > max { Err(refuse()) } else { Ok(format!("{address}/{length}")) }
}

fn link_name(word: &str) -> Decoded<String> {
    LinkName::parse(word).map(|name| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Single;
    use proptest::prelude::*;

    const DEBUG: &str = "debug 000102030405060708090a0b0c0d0e0f node 3600 docker.io/a/b:1";

    fn are_read_and_written(rows: &[(Socket, &str, Request)]) {
        for (socket, line, request) in rows {
            assert_eq!(Request::decode(*socket, &request.to_string()).as_ref(), Ok(request));
            assert_eq!(Request::decode(*socket, line).as_ref(), Ok(request), "{line}");
        }
    }

    #[test]
    fn every_verb_of_the_network_and_the_clock_is_read_and_written() {
        let resolv = Request::Resolver {
            servers: vec!["10.0.2.3".parse().unwrap()],
            search: vec!["example.org".to_owned()],
        };
        let addresses = |addresses: &[&str]| Request::Addresses {
            addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
            link: "eth0".to_owned(),
        };
        let Ok(Setting::Network(address)) = Setting::parse("address eth0 192.0.2.7 24") else {
            panic!("it is a setting of the network")
        };
        let (name, link) = (address.name(), LinkName::parse("eth0").unwrap());
        let failed = "network-failed address eth0 192.0.2.7 no link";
        let state = format!("wg0 public-key={}= listen-port=9", "A".repeat(43));
        let tunnel = format!("wireguard {state}");
        let state = WireGuardState::parse(&state).unwrap();
        are_read_and_written(&[
            (Socket::Net, "hostname Node-1", Request::HostName("node-1".to_owned())),
            (Socket::Net, "resolv 10.0.2.3 search example.org", resolv),
            (Socket::Net, "resolv", Request::Resolver { servers: vec![], search: vec![] }),
            (Socket::Net, "ntp 10.0.2.4", Request::TimeServers(vec!["10.0.2.4".parse().unwrap()])),
            (Socket::Net, "address 10.0.2.15/24 on eth0", addresses(&["10.0.2.15/24"])),
            (
                Socket::Net,
                "address 10.0.2.15/24 fec0::5/64 on eth0",
                addresses(&["10.0.2.15/24", "fec0::5/64"]),
            ),
            (Socket::Net, "address on eth0", addresses(&[])),
            (
                Socket::Net,
                "router-advertisements on eth0",
                Request::RouterAdvertisements("eth0".to_owned()),
            ),
            (Socket::Net, "await-network 7", Request::AwaitNetwork(7)),
            (Socket::Net, "network-set address eth0 192.0.2.7 24", Request::NetworkSet(address)),
            (Socket::Net, failed, Request::NetworkFailed { name, reason: "no link".to_owned() }),
            (
                Socket::Net,
                "former-mtu 1500 on eth0",
                Request::FormerMtu { link: link.clone(), mtu: Some(Mtu::parse("1500").unwrap()) },
            ),
            (Socket::Net, "former-mtu none on eth0", Request::FormerMtu { link, mtu: None }),
            (Socket::Net, &tunnel, Request::WireGuard(state)),
            (Socket::Time, "last", Request::LastSeen),
            (
                Socket::Time,
                "set -7 by 2 of 3",
                Request::ClockSet(ClockReport { offset: -7, agreeing: 2, answered: 3 }),
            ),
            (
                Socket::Time,
                "refused 7 by 1 of 1",
                Request::ClockRefused(ClockReport { offset: 7, agreeing: 1, answered: 1 }),
            ),
        ]);
    }

    #[test]
    fn every_other_verb_is_read_and_written() {
        let apply = |line| Request::Apply(Setting::parse(line).unwrap());
        let fingerprint = format!("sha256:{}", "0a".repeat(32));
        let serves = format!("serves {fingerprint}");
        are_read_and_written(&[
            (
                Socket::Host,
                "apply kernel-parameter net.ipv4.tcp_rmem 4096 8192 16384",
                apply("kernel-parameter net.ipv4.tcp_rmem 4096 8192 16384"),
            ),
            (Socket::Host, "apply host-name Edge-7", apply("host-name edge-7")),
            (Socket::Host, "withdraw name-servers", Request::Withdraw(Single::NameServers.into())),
            (Socket::Host, "try 60", Request::BeginTry(TryTime::new(60).unwrap())),
            (Socket::Host, "confirm", Request::ConfirmTry),
            (Socket::Host, "revert", Request::RevertTry),
            (Socket::Host, "observe", Request::Observe),
            (Socket::Host, &serves, Request::Serves(Fingerprint::parse(&fingerprint).unwrap())),
            (
                Socket::Bootstrap,
                "report line 3: unknown field `a`",
                Request::Bootstrap(ReportText::new("line 3: unknown field `a`")),
            ),
            (Socket::Bootstrap, "restart kubelet", Request::RestartKubelet),
            (Socket::Bootstrap, "volume", Request::OpenVolume { after: None }),
            (
                Socket::Bootstrap,
                "volume after vdb",
                Request::OpenVolume { after: Some(BlockDevice::parse("vdb").unwrap()) },
            ),
            (Socket::Admin, "status", Request::Status),
            (Socket::Admin, "restart kubelet", Request::RestartKubelet),
            (Socket::Admin, "restart containerd", Request::RestartContainerd),
            (Socket::Admin, "reboot", Request::Reboot),
            (Socket::Admin, "rollback", Request::RollBack),
            (Socket::Admin, "check", Request::CheckNow),
            (Socket::Admin, "reset", Request::Reset),
            (Socket::Update, "await-check", Request::AwaitCheck),
            (Socket::Admin, "power-off", Request::PowerOff),
            (Socket::Admin, "end-debug", Request::EndDebug),
            (Socket::Admin, DEBUG, Request::Debug(debug(&DEBUG["debug ".len()..]).unwrap())),
            (Socket::Update, "status", Request::SlotsStatus),
            (Socket::Update, "slot", Request::OpenSlot),
            (Socket::Update, "try", Request::TrySlot),
            (Socket::Update, "boot-program", Request::ReplaceBootProgram),
            (Socket::Update, "reboot", Request::Reboot),
            (
                Socket::Update,
                "progress 2 runs [phase=idle offered=2]",
                Request::Progress(UpdateReport::parse("2 runs [phase=idle offered=2]").unwrap()),
            ),
        ]);
    }

    #[test]
    fn a_socket_has_only_its_own_verbs() {
        for line in ["reboot", "restart kubelet", "status", "power-off"] {
            assert!(Request::decode(Socket::Net, line).is_err(), "{line}");
        }
        for line in ["hostname a", "resolv 10.0.2.3", "address 10.0.2.15/24 on eth0"] {
            assert!(Request::decode(Socket::Admin, line).is_err(), "{line}");
            assert!(Request::decode(Socket::Update, line).is_err(), "{line}");
        }
        for line in ["slot", "try", "boot-program", "progress a [phase=idle]"] {
            assert!(
                Request::decode(Socket::Net, line).is_err()
                    && Request::decode(Socket::Admin, line).is_err(),
                "{line}"
            );
        }
        for line in ["reboot", "status", "hostname a", "ntp 10.0.2.4", "slot", "last "] {
            assert!(Request::decode(Socket::Time, line).is_err(), "{line}");
        }
        for line in [
            "apply kernel-parameter vm.swappiness",
            "apply kernel-parameter ../x 1",
            "withdraw kernel-parameter vm.swappiness 1",
            "observe host-name",
            "apply colour red",
            "apply",
            "withdraw host-name a",
            "try",
            "try 0",
            "try -1",
            "try 4294967296",
            "confirm 1",
            "serves",
            "serves sha256:0a",
            "reboot",
        ] {
            assert!(Request::decode(Socket::Host, line).is_err(), "{line}");
        }
        for line in [
            "report",
            "report ",
            "reboot",
            "status",
            "power-off",
            "apply host-name a",
            "volume ",
            "volume vdb",
            "volume after",
            "volume after ../vdb",
            "volume after a b",
            "restart containerd",
        ] {
            assert!(Request::decode(Socket::Bootstrap, line).is_err(), "{line}");
        }
        for line in ["restart kubelet", "power-off", "slot SLOT-A", "try SLOT-A", "progress"] {
            assert!(Request::decode(Socket::Update, line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_word_that_could_become_another_line_of_a_file_is_refused() {
        for line in [
            "hostname a\nb",
            "resolv 10.0.2.3\tx",
            "resolv 10.0.2.3 search a\u{2028}b",
            "resolv search a;b",
            "hostname  a",
        ] {
            assert!(Request::decode(Socket::Net, line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for line in [
            "resolv 10.0.2.3 10.0.2.4 10.0.2.5 10.0.2.6",
            "resolv search a b c d e f g",
            "resolv 10.0.2",
            "ntp 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1 1.1.1.1",
            "ntp pool.example.org",
            "address 10.0.2.15/33 on eth0",
            "address fe80::1/129 on eth0",
            "address 10.0.2.15 on eth0",
            "address 10.0.2.15/24 on a-name-too-long-for-a-link",
            "address 10.0.2.15/24",
            "await-network -1",
            "network-set host-name a",
            "network-failed address eth0 192.0.2.7",
            "network-failed host-name a",
            "former-mtu 1 on eth0",
            "address 1::/1 1::/1 1::/1 1::/1 1::/1 1::/1 1::/1 1::/1 1::/1 on eth0",
        ] {
            assert!(Request::decode(Socket::Net, line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_debug_container_has_no_words_of_a_client_but_an_image() {
        for (from, to) in [
            ("node", "privileged"),
            ("3600", "0"),
            ("3600", "28801"),
            ("00010203", "0001020G"),
            ("docker.io/a/b:1", "a b"),
            ("docker.io/a/b:1", "a\",hostPID:\"1"),
            (" docker.io/a/b:1", ""),
        ] {
            let line = DEBUG.replace(from, to);
            let refused = Request::decode(Socket::Admin, &line).map_err(|refusal| refusal.code);
            assert_eq!(refused, Err(RefusalCode::Malformed), "{line}");
        }
        assert!(Request::decode(Socket::Host, DEBUG).is_err());
    }

    #[test]
    fn a_time_report_has_three_numbers() {
        for line in [
            "set 1 by 2",
            "set 1 by 2 of x",
            "set 1 by 2 of 256",
            "set 9223372036854775808 by 1 of 1",
            "set 1.5 by 1 of 1",
        ] {
            assert!(Request::decode(Socket::Time, line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_link_is_one_link() {
        for name in ["all", "default", ".", "..", "../all", "a/b", "", "*"] {
            assert!(
                Request::decode(Socket::Net, &format!("router-advertisements on {name}")).is_err(),
                "{name}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in any::<String>()) {
            let _ = Request::decode(Socket::Net, &line);
            let _ = Request::decode(Socket::Admin, &line);
            let _ = Request::decode(Socket::Update, &line);
            let _ = Request::decode(Socket::Time, &line);
            let _ = Request::decode(Socket::Host, &line);
            let _ = Request::decode(Socket::Bootstrap, &line);
        }

        #[test]
        fn no_words_make_it_panic(words in proptest::collection::vec(
            "(hostname|resolv|address|search|on|[ -~]{0,8})",
            0..8,
        )) {
            let _ = Request::decode(Socket::Net, &words.join(" "));
        }
    }
}

//! Bonds.

use std::fmt;

use super::super::LinkName;
use super::super::options::{Options, number};
use super::Ports;
use crate::Refusal;

/// How often a bond looks at its ports, in milliseconds, unless its setting says so: the kernel's
/// own 0 means never.
const DEFAULT_MIIMON: u32 = 100;
/// The maximum of it.
const MAX_MIIMON: u32 = 10_000;

/// A bond: several ports are one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bond {
    mode: BondMode,
    ports: Ports,
    miimon: u32,
    lacp_rate: LacpRate,
    xmit_hash_policy: HashPolicy,
    primary: Option<LinkName>,
}

/// The options of a bond, in words. An empty word is that of an option that is missing.
#[derive(Clone, Debug, Default)]
pub struct BondOptions<'a> {
    /// The mode.
    pub mode: &'a str,
    /// How often it looks at them, in milliseconds; 0 if it is missing.
    pub miimon: u32,
    /// How often it asks the switch for messages of LACP.
    pub lacp_rate: &'a str,
    /// Which packets leave through the same port.
    pub xmit_hash_policy: &'a str,
    /// The port that is used as long as it works.
    pub primary: &'a str,
}

/// How a bond uses its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BondMode {
    /// One after the other.
    BalanceRr,
    /// One, and another one when it fails.
    ActiveBackup,
    /// By a hash of each packet.
    BalanceXor,
    /// All at once.
    Broadcast,
    /// By a hash of each packet, as agreed with the switch (IEEE 802.1AX, LACP).
    Lacp,
    /// By their load.
    BalanceTlb,
    /// By their load, in both directions.
    BalanceAlb,
}

/// How often a bond asks for messages of LACP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LacpRate {
    /// Every 30 seconds.
    #[default]
    Slow,
    /// Each second.
    Fast,
}

/// The fields of a packet whose hash selects the port through which it leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashPolicy {
    /// Hardware addresses.
    #[default]
    Layer2,
    /// IP addresses and TCP or UDP ports.
    Layer34,
    /// Hardware and IP addresses.
    Layer23,
    /// As `Layer23`, inside tunnels.
    Encap23,
    /// As `Layer34`, inside tunnels.
    Encap34,
    /// The VLAN and the source's hardware address.
    VlanSrcMac,
}

const MODES: [(BondMode, &str); 7] = [
    (BondMode::BalanceRr, "balance-rr"),
    (BondMode::ActiveBackup, "active-backup"),
    (BondMode::BalanceXor, "balance-xor"),
    (BondMode::Broadcast, "broadcast"),
    (BondMode::Lacp, "802.3ad"),
    (BondMode::BalanceTlb, "balance-tlb"),
    (BondMode::BalanceAlb, "balance-alb"),
];
const RATES: [(LacpRate, &str); 2] = [(LacpRate::Slow, "slow"), (LacpRate::Fast, "fast")];
const POLICIES: [(HashPolicy, &str); 6] = [
    (HashPolicy::Layer2, "layer2"),
    (HashPolicy::Layer34, "layer3+4"),
    (HashPolicy::Layer23, "layer2+3"),
    (HashPolicy::Encap23, "encap2+3"),
    (HashPolicy::Encap34, "encap3+4"),
    (HashPolicy::VlanSrcMac, "vlan+srcmac"),
];

impl Bond {
    /// The bond of these ports with these options.
    ///
    /// # Errors
    /// One is malformed, or the mode does not have it.
    pub fn new(ports: Ports, options: BondOptions) -> Result<Self, Refusal> {
        let BondOptions { mode: word, miimon, lacp_rate, xmit_hash_policy, primary } = options;
        let mode = of_word("mode", word, &MODES)?;
        let miimon = if miimon == 0 { DEFAULT_MIIMON } else { miimon };
        if miimon > MAX_MIIMON {
            let reason = format!("the `miimon` of a bond is 1 to {MAX_MIIMON} milliseconds");
            return Err(Refusal::malformed(reason));
        }
        for (option, value, has_it) in [
            ("LACP rate", lacp_rate, mode == BondMode::Lacp),
            ("hash policy", xmit_hash_policy, mode.hashes()),
            ("primary port", primary, mode.has_primary()),
        ] {
            if !value.is_empty() && !has_it {
                let reason = format!("a bond of the mode `{word}` has no {option}");
                return Err(Refusal::malformed(reason));
            }
        }
        let rate = Some(lacp_rate).filter(|word| !word.is_empty());
        let policy = Some(xmit_hash_policy).filter(|word| !word.is_empty());
        let primary = Some(primary).filter(|word| !word.is_empty());
        let primary = primary.map(LinkName::parse).transpose()?;
        if let Some(primary) = primary.as_ref()
            && ports.iter().all(|port| port != primary)
        {
            let reason = format!("the primary port `{primary}` is not one of the ports");
            return Err(Refusal::malformed(reason));
        }
        Ok(Self {
            mode,
            ports,
            miimon,
            lacp_rate: rate.map_or(Ok(LacpRate::default()), |w| of_word("lacp-rate", w, &RATES))?,
            xmit_hash_policy: policy
                .map_or(Ok(HashPolicy::default()), |w| of_word("xmit-hash-policy", w, &POLICIES))?,
            primary,
        })
    }

    pub(super) fn of_options(options: &mut Options) -> Result<Self, Refusal> {
        let miimon = options.take("miimon").map(|word| {
            let refuse = || Refusal::malformed(format!("`{word}` is not the `miimon` of a bond"));
            number::<u32>(word).filter(|number| *number != 0).ok_or_else(refuse)
        });
        let ports = Ports::of_option(options.take("ports"))?;
        let options = BondOptions {
            mode: options.expect("mode")?,
            miimon: miimon.transpose()?.unwrap_or_default(),
            lacp_rate: options.take("lacp-rate").unwrap_or_default(),
            xmit_hash_policy: options.take("xmit-hash-policy").unwrap_or_default(),
            primary: options.take("primary").unwrap_or_default(),
        };
        Self::new(ports, options)
    }

    pub(super) fn words(&self) -> String {
        let BondOptions { mode, miimon, lacp_rate, xmit_hash_policy, primary } = self.options();
        let (miimon, ports) = (miimon.to_string(), self.ports.to_string());
        let miimon = if self.miimon == DEFAULT_MIIMON { "" } else { miimon.as_str() };
        let options = [
            ("mode", mode),
            ("ports", &ports),
            ("miimon", miimon),
            ("lacp-rate", lacp_rate),
            ("xmit-hash-policy", xmit_hash_policy),
            ("primary", primary),
        ];
        let given = options.into_iter().filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// The options of which [`Self::new`] makes the bond again. Those that have their default are
    /// missing, except `miimon`.
    pub fn options(&self) -> BondOptions<'_> {
        let Self { mode, miimon, lacp_rate, xmit_hash_policy, primary, .. } = self;
        let lacp_rate = if *lacp_rate == LacpRate::Slow { "" } else { word_of(*lacp_rate, &RATES) };
        let policy = match xmit_hash_policy {
            HashPolicy::Layer2 => "",
            policy => word_of(*policy, &POLICIES),
        };
        BondOptions {
            mode: word_of(*mode, &MODES),
            miimon: *miimon,
            lacp_rate,
            xmit_hash_policy: policy,
            primary: primary.as_ref().map_or("", LinkName::as_str),
        }
    }

    /// How it uses its ports.
    pub fn mode(&self) -> BondMode {
        self.mode
    }

    /// Its ports.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// How often it looks at its ports, in milliseconds.
    pub fn miimon(&self) -> u32 {
        self.miimon
    }

    /// How often it asks for messages of LACP.
    pub fn lacp_rate(&self) -> LacpRate {
        self.lacp_rate
    }

    /// Which packets leave through the same port.
    pub fn xmit_hash_policy(&self) -> HashPolicy {
        self.xmit_hash_policy
    }

    /// The port that is used as long as it works.
    pub fn primary(&self) -> Option<&LinkName> {
        self.primary.as_ref()
    }
}

impl BondMode {
    /// Whether a hash of a packet chooses its port.
    fn hashes(self) -> bool {
        matches!(self, Self::BalanceXor | Self::Lacp | Self::BalanceTlb)
    }

    /// Whether one port may be preferred.
    fn has_primary(self) -> bool {
        matches!(self, Self::ActiveBackup | Self::BalanceTlb | Self::BalanceAlb)
    }
}

impl fmt::Display for BondMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word_of(*self, &MODES))
    }
}

fn of_word<T: Copy>(option: &str, word: &str, words: &[(T, &str)]) -> Result<T, Refusal> {
    let found = words.iter().find(|(_, known)| *known == word);
    found.map(|(value, _)| *value).ok_or_else(|| {
        let known: Vec<String> = words.iter().map(|(_, known)| format!("`{known}`")).collect();
        let reason = format!("the `{option}` of a bond is one of {}", known.join(", "));
        Refusal::malformed(reason)
    })
}

fn word_of<T: Copy + PartialEq>(value: T, words: &'static [(T, &'static str)]) -> &'static str {
    words.iter().find(|(known, _)| *known == value).map_or("", |(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bond(words: &str) -> Result<Bond, Refusal> {
        let mut options = Options::parse("a link", words)?;
        let bond = Bond::of_options(&mut options)?;
        options.end().map(|()| bond)
    }

    #[test]
    fn a_bond_has_the_options_of_its_mode() {
        for words in [
            "mode=balance-rr",
            "mode=active-backup ports=eth0,eth1 miimon=50 primary=eth1",
            "mode=802.3ad ports=eth0,eth1 lacp-rate=fast xmit-hash-policy=layer3+4",
            "mode=balance-xor ports=eth0 xmit-hash-policy=vlan+srcmac",
        ] {
            let read = bond(words).unwrap();
            assert_eq!(read.words(), words);
            assert_eq!(Bond::new(read.ports.clone(), read.options()), Ok(read));
        }
        let default = bond("mode=802.3ad miimon=100 lacp-rate=slow xmit-hash-policy=layer2");
        assert_eq!(default, bond("mode=802.3ad"));
        for words in [
            "ports=eth0",
            "mode=failover",
            "mode=4",
            "mode=active-backup lacp-rate=fast",
            "mode=active-backup xmit-hash-policy=layer2",
            "mode=802.3ad ports=eth0 primary=eth0",
            "mode=active-backup ports=eth0 primary=eth1",
            "mode=active-backup miimon=0",
            "mode=active-backup miimon=10001",
            "mode=802.3ad lacp-rate=1",
        ] {
            assert!(bond(words).is_err(), "{words}");
        }
    }
}

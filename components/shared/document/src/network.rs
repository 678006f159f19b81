//! Links, addresses and routes: `[[links]]`, `[[addresses]]` and `[[routes]]`. Their names and
//! values are those of the specs of `osbuild.v1`.

use osbuild_protocol::{LinkName, Metric, NetworkSetting, StaticAddress, StaticRoute, Subnet};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// What is configured of one link, address or route: at least one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings(Vec<NetworkSetting>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    link: String,
    mtu: Option<u32>,
    dhcp: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    link: String,
    address: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Route {
    destination: String,
    gateway: Option<String>,
    link: String,
    metric: Option<u32>,
}

impl Settings {
    /// The settings.
    pub fn iter(&self) -> impl Iterator<Item = &NetworkSetting> {
        self.0.iter()
    }
}

impl TryFrom<Link> for Settings {
    type Error = String;

    fn try_from(Link { link, mtu, dhcp }: Link) -> Result<Self, String> {
        let settings = NetworkSetting::of_link(&link, mtu, dhcp);
        settings.map(Self).map_err(|refusal| refusal.reason)
    }
}

impl TryFrom<Address> for Settings {
    type Error = String;

    fn try_from(Address { link, address }: Address) -> Result<Self, String> {
        let address = StaticAddress::parse(&link, &address).map_err(|refusal| refusal.reason)?;
        Ok(Self(vec![NetworkSetting::Address(address)]))
    }
}

impl TryFrom<Route> for Settings {
    type Error = String;

    fn try_from(route: Route) -> Result<Self, String> {
        let read = || {
            let Route { destination, gateway, link, metric } = &route;
            let metric = metric.map(Metric::new).transpose()?.unwrap_or_default();
            let gateway = gateway.as_deref().map(StaticRoute::gateway_of).transpose()?;
            let (destination, link) = (Subnet::parse(destination)?, LinkName::parse(link)?);
            StaticRoute::new(destination, metric, gateway, link)
        };
        let route = read().map_err(|refusal: osbuild_protocol::Refusal| refusal.reason)?;
        Ok(Self(vec![NetworkSetting::Route(route)]))
    }
}

/// Reads `[[links]]`.
pub fn links<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Settings>, D::Error> {
    distinct::<Link, D>(deserializer)
}

/// Reads `[[addresses]]`.
pub fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Settings>, D::Error> {
    distinct::<Address, D>(deserializer)
}

/// Reads `[[routes]]`.
pub fn routes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Settings>, D::Error> {
    distinct::<Route, D>(deserializer)
}

/// Reads entries of which no two are about the same.
fn distinct<'de, T, D>(deserializer: D) -> Result<Vec<Settings>, D::Error>
where
    T: Deserialize<'de>,
    Settings: TryFrom<T, Error = String>,
    D: Deserializer<'de>,
{
    let entries = Vec::<T>::deserialize(deserializer)?;
    let mut all = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for entry in entries {
        let settings = Settings::try_from(entry).map_err(D::Error::custom)?;
        for name in settings.iter().map(NetworkSetting::name) {
            let twice = format!("`{name}` is set twice");
            if !names.insert(name) {
                return Err(D::Error::custom(twice));
            }
        }
        all.push(settings);
    }
    Ok(all)
}

//! The network of a node: its links, its gateways and its name servers.

use super::untrusted::clean;
use crate::resource;
use osbuild_cosi::resource::Resource;
use serde_json::Value;

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Whether it is switched on and has a carrier.
    pub has_carrier: bool,
    /// Its operational state, as the kernel names it: `up`, `down`, …
    pub state: String,
    /// The kernel's name for a link that software has made. Empty for a device.
    pub kind: String,
    /// The greatest packet in bytes.
    pub mtu: u64,
    /// Its hardware address. Empty if it has none.
    pub hardware_address: String,
    /// Its addresses, each with the length of its prefix.
    pub addresses: Vec<String>,
}

/// The network, as the kernel and `osd` report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// The links but for the loopback: those with addresses first, then devices, then others.
    pub links: Vec<Link>,
    /// The gateways of default routes, each `ADDRESS on LINK`.
    pub gateways: Vec<String>,
    /// The name servers.
    pub name_servers: Vec<String>,
    /// Where these come from: `dhcp`, `document` or `api`. Empty if unknown.
    pub name_servers_source: String,
}

/// The observed resources, of the types that they are named like.
#[derive(Debug, Default)]
pub struct Resources {
    /// `LinkStatuses.osbuild`.
    pub links: Vec<Resource>,
    /// `AddressStatuses.osbuild`.
    pub addresses: Vec<Resource>,
    /// `RouteStatuses.osbuild`.
    pub routes: Vec<Resource>,
    /// `ResolverStatuses.osbuild`.
    pub resolvers: Vec<Resource>,
    /// `KernelInfos.osbuild`.
    pub kernels: Vec<Resource>,
}

impl Network {
    /// Reads the network from the resources.
    pub fn of(resources: &Resources) -> Network {
        let specs = |all: &[Resource]| all.iter().map(resource::spec).collect::<Vec<_>>();
        let addresses = specs(&resources.addresses);
        let links = resources.links.iter().filter_map(|one| {
            let (name, spec) = (resource::metadata(one).id, resource::spec(one));
            (spec["type"] != "loopback").then(|| link(&name, &spec, &addresses))
        });
        let mut links: Vec<Link> = links.collect();
        links.sort_by_key(|link| {
            (link.addresses.is_empty(), !link.kind.is_empty(), link.name.clone())
        });
        let mut routes = specs(&resources.routes);
        routes.sort_by_key(|route| route["metric"].as_u64());
        let resolver = resources.resolvers.first().map(resource::spec).unwrap_or_default();
        Network {
            links,
            gateways: routes.iter().filter_map(gateway).collect(),
            name_servers: texts(&resolver["nameserver"]),
            name_servers_source: text(&resolver["nameserverSource"]),
        }
    }
}

fn link(name: &str, spec: &Value, addresses: &[Value]) -> Link {
    let of_link = addresses.iter().filter(|address| address["link"] == name);
    // An address that only this link reaches helps nobody at a desk elsewhere.
    let (global, local): (Vec<_>, Vec<_>) = of_link.partition(|one| one["scope"] == "global");
    Link {
        name: clean(name),
        has_carrier: spec["carrier"].as_bool().unwrap_or_default(),
        state: text(&spec["state"]),
        kind: text(&spec["kind"]),
        mtu: spec["mtu"].as_u64().unwrap_or_default(),
        hardware_address: text(&spec["hardwareAddress"]),
        addresses: global.into_iter().chain(local).map(|one| text(&one["address"])).collect(),
    }
}

/// The gateway of a default route.
fn gateway(route: &Value) -> Option<String> {
    let destination = route["destination"].as_str()?;
    let gateway = text(&route["gateway"]);
    let is_default = destination.ends_with("/0") && !gateway.is_empty();
    is_default.then(|| format!("{gateway} on {}", text(&route["link"])))
}

fn text(value: &Value) -> String {
    value.as_str().map(clean).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use osbuild_cosi::resource::{Metadata, Spec};

    /// A resource with this spec as YAML.
    pub fn resource(id: &str, yaml_spec: &str) -> Resource {
        let metadata = Metadata { id: id.into(), ..Metadata::default() };
        let spec = Spec { proto_spec: vec![], yaml_spec: yaml_spec.into() };
        Resource { metadata: Some(metadata), spec: Some(spec) }
    }

    #[test]
    fn links_with_addresses_come_first_and_the_loopback_not_at_all() {
        let resources = Resources {
            links: vec![
                resource("lo", "type: loopback\n"),
                resource("a-veth", "{ type: ether, kind: veth, carrier: true, state: up }\n"),
                resource("eth1", "{ type: ether, mtu: 1500, state: down }\n"),
                resource("eth0", "{ type: ether, carrier: true, hardwareAddress: '52:54' }\n"),
            ],
            addresses: vec![
                resource("1", "{ link: eth0, address: 'fe80::1/64', scope: link }\n"),
                resource("2", "{ link: eth0, address: 10.0.2.15/24, scope: global }\n"),
            ],
            ..Resources::default()
        };
        let links = Network::of(&resources).links;
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["eth0", "eth1", "a-veth"]);
        assert_eq!(links[0].addresses, ["10.0.2.15/24", "fe80::1/64"]);
        assert_eq!((links[1].mtu, links[1].has_carrier), (1500, false));
    }

    #[test]
    fn the_gateway_with_the_lowest_metric_comes_first() {
        let route = |id, destination, gateway, metric: u32| {
            let spec = format!(
                "{{ destination: '{destination}', gateway: '{gateway}', link: eth0, \
                 metric: {metric} }}\n"
            );
            resource(id, &spec)
        };
        let resolver = "{ nameserver: ['192.0.2.1', \"\\e[2J\"], nameserverSource: dhcp }\n";
        let resources = Resources {
            routes: vec![
                route("1", "0.0.0.0/0", "10.0.2.3", 200),
                route("2", "0.0.0.0/0", "10.0.2.2", 100),
                route("3", "10.0.2.0/24", "", 0),
            ],
            resolvers: vec![resource("node", resolver)],
            ..Resources::default()
        };
        let network = Network::of(&resources);
        assert_eq!(network.gateways, ["10.0.2.2 on eth0", "10.0.2.3 on eth0"]);
        assert_eq!(network.name_servers, ["192.0.2.1", "\\u{1b}[2J"]);
        assert_eq!(network.name_servers_source, "dhcp");
    }

    #[test]
    fn specs_of_another_form_are_no_panic() {
        let odd = ["", "[1]", "x: [", "{ type: 1, mtu: -1, carrier: x, nameserver: 5 }"];
        let odd = || odd.iter().map(|spec| resource("x", spec)).collect::<Vec<_>>();
        let (links, addresses, routes, resolvers) = (odd(), odd(), odd(), odd());
        let network =
            Network::of(&Resources { links, addresses, routes, resolvers, ..Resources::default() });
        assert_eq!(network.links.len(), 4);
    }
}

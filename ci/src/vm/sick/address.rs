//! A node document that turns DHCP off and gives no address. Nothing reaches the node, so its
//! console is all there is, and the only remedy is another document.

use super::desk::Desk;
use crate::vm::machine::Protocols;
use crate::vm::settings::Lab;
use osbuild::error::Result;

/// The document with the fault.
pub const WITHOUT: &str = "[[links]]\nlink = \"eth0\"\ndhcp = false\n";
/// The document with the address that QEMU's forwarded ports lead to.
pub const RECOVERY: &str = r#"[[links]]
link = "eth0"
dhcp = false

[[addresses]]
link = "eth0"
address = "10.0.2.15/24"

[resolver]
nameserver = ["10.0.2.3"]
"#;

/// The summary on the console.
const STATUS: &str = "init: status: ";
const NO_ADDRESS: &str = "init: status: PROBLEM no address: eth0 has no static address, and its \
                          DHCP is off (document)";
const FELL_BACK: &str = "PROBLEM the node fell back to SLOT-A: good; passed over SLOT-B";

/// Boots the node, which is reached by nobody.
pub fn is_missed_on_the_console(lab: &Lab, boot: &str, desk: &mut Desk) -> Result<()> {
    // The router of QEMU's network would give it an IPv6 address.
    let mut running = lab.machine(boot)?.protocols(Protocols::Ipv4).start()?;
    running.ready()?;
    running.wait_for(NO_ADDRESS)?;
    // A second summary: the first one has scrolled away.
    running.wait_for(NO_ADDRESS)?;
    let console = running.console()?;
    let summary = console.lines().filter(|line| line.contains(STATUS)).collect::<Vec<_>>();
    desk.quote(&summary.join("\n"))?;
    for (fact, text) in [
        ("no address", "address none"),
        ("no gateway", "gateway none"),
        ("its name servers", "DNS 10.0.2.3 (api)"),
        ("its time", "time 20"),
        ("its cluster", "cluster none"),
        ("its slot", "slot SLOT-A: good"),
    ] {
        let is_shown = summary.iter().any(|line| line.contains(&format!("{STATUS}{text}")));
        desk.outcome.check(&format!("the console shows {fact}"), is_shown, || console.clone());
    }
    let is_shown = console.contains(FELL_BACK);
    desk.outcome.check("the console shows that the slot fell back", is_shown, || console);
    running.power_off()
}

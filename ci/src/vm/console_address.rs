//! A person at a console gives the node an address.

use super::probe::{self, free_port};
use crate::check::Outcome;
use crate::image::image_in;
use crate::recipe;
use crate::site::Site;
use crate::state_api::pseudo_terminal::PseudoTerminal;
use osbuild::error::{Context, Result};
use std::fs;
use std::time::Duration;

/// The recipe, and what it adds to that with the probe.
const RECIPE: &str = "console-address";
const CONSOLE: &str = "[console]\naddress = true\n";

/// A document that leaves the node without an address, and its link off.
const WITHOUT: &str = "[[links]]\nlink = \"eth0\"\ndhcp = false\nstate = \"down\"\n";

/// How long an emulated node may take to show a line.
const TIMEOUT: Duration = Duration::from_secs(150);
/// How long the address of a node takes at most to go.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// The address to which QEMU forwards ports.
const ADDRESS: &str = "address eth0 10.0.2.15/24 10.0.2.2\r";

/// A node document with a mistake leaves a node without an address. Its console says so, and takes
/// another one from a person: the node is reached, until the person takes the address back.
pub fn a_person_gives_an_address(site: &Site) -> Result<Outcome> {
    let project = site.root.join("out/ci").join(RECIPE);
    site.copy_to(&project)?;
    recipe::inherit(site, &project, RECIPE, probe::RECIPE, CONSOLE)?;
    image_in(site, &project, RECIPE)?;
    let place = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let document = place.path().join("node.toml");
    fs::write(&document, WITHOUT).or_build(|| "cannot write the node document".to_owned())?;
    let port = free_port()?;
    let mut program = site.osbuild()?;
    program.current_dir(&project);
    let words = format!(
        "run {RECIPE} --yes --network ipv4 --node {} --forward {port}:{}",
        document.display(),
        probe::FACTS
    );
    let mut terminal = PseudoTerminal::start(place.path().to_owned(), &program, &words)?;
    let mut outcome = Outcome::default();
    let mut shows = |terminal: &PseudoTerminal, claim: &str, text: &str| {
        let is_shown = terminal.shows(text, TIMEOUT);
        outcome.check(claim, is_shown, || terminal.output());
    };
    let no_address = "PROBLEM no address: eth0 has no static address, and its DHCP is off";
    shows(&terminal, "the console shows that the node has no address", no_address);
    let hint = "init: status: type `address LINK ADDRESS/PREFIX-LENGTH [GATEWAY]` and Enter";
    shows(&terminal, "it shows how to give one", hint);
    terminal.press("address eth0 10.0.2.15\r")?;
    let mistake = "init: console: `10.0.2.15` is not an address with the length of its prefix";
    shows(&terminal, "a mistake is named", mistake);
    terminal.press(ADDRESS)?;
    let set = "init: console: a person sets `address eth0 10.0.2.15 24`, ";
    shows(&terminal, "an address is taken", set);
    shows(&terminal, "the node has it", "init: address 10.0.2.15/24 on eth0");
    let reached = probe::answers(port, TIMEOUT);
    terminal.press("undo\r")?;
    shows(&terminal, "it goes on request", "init: console: the address is taken back, on request");
    let is_gone = !probe::answers(port, END_TIMEOUT);
    outcome.check("the node is reached at the address", reached, || terminal.output());
    outcome.check("nothing reaches it after that", is_gone, || terminal.output());
    // QEMU ends, and `osbuild run` with it.
    terminal.press("\u{1}x")?;
    terminal.shows("code ", END_TIMEOUT);
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

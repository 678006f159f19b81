//! The settings of a running node as resources: grpcurl writes them to its pod `osd`.

mod all_kinds;
mod bpf_programs;
mod busybox;
mod carried_image;
mod cni;
mod credential_providers;
mod credentials;
mod cut_off;
mod debug;
mod document;
mod engine_examples;
mod firewall;
mod full_disk;
mod goes_back;
mod hostile;
mod image_server;
mod kernel_modules;
mod kernel_parameters;
mod kubelet_fields;
mod made_links;
mod motds;
mod mounts;
mod nat;
mod network;
pub(super) mod node;
mod node_labels;
mod observed;
mod of_recipe;
mod plugin;
mod plugin_pod;
mod proxies;
mod registries;
pub(super) mod remote;
mod routing_rules;
mod runtime_clients;
mod seccomp_profiles;
mod single;
mod static_pods;
mod stranger;
mod suites;
mod swaps;
mod system_images;
mod tries;
mod trusted_roots;
mod wireguard;

use self::image_server::ImageServer;
use self::node::{Node, TIMEOUT};
use self::remote::Osctl;
pub use self::suites::suites_of_others_pass;
use super::data::Data;
use super::kept_disk::KeptDisk;
use super::machine::Machine;
use super::node::NodeUnderTest;
use super::probe::{self, free_port};
use crate::check::{Outcome, Timed};
use crate::recipe;
use crate::site::Site;
use crate::state_api;
use osbuild::error::{Context, Result};
use osbuild_abi::console::SLOT_GOOD;
use osbuild_abi::osd::PORT;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The recipe of these checks, and what it adds to that with the probe.
pub const RECIPE: &str = "settings";
const PODS: &str =
    "\n[pods]\nosd = { component = \"osd\" }\n\n[api]\nclients = \"keys/dev/api.crt\"\n";

/// The manifest of `osd` in its project.
const MANIFEST: &str = "components/pods/osd/pod.yaml";

/// The CA of clients that it names.
const CLIENTS: &str = "keys/dev/api.crt";

/// The file of `osd` on DATA.
const KEPT: &str = "osd/resources";

/// The folder of the project that gets the node's logs after an error.
const LOGS: &str = "logs-of-node";

/// How long a setting may have a foreign value.
#[derive(Clone, Copy)]
struct Repair {
    /// The limit of the check. Most of it is the emulated network.
    within: Duration,
    /// The time that the project aims at.
    aim: Duration,
}

/// The limits where `init` compares again and again.
const BY_POLL: Repair = Repair { within: Duration::from_secs(1), aim: Duration::from_secs(1) };
/// The limits where an event reports the change.
const BY_EVENT: Repair =
    Repair { within: Duration::from_millis(500), aim: Duration::from_millis(100) };
/// The same for the network, where programs that a shell starts look at the value.
const OF_NETWORK: Repair = Repair { within: Duration::from_secs(1), ..BY_EVENT };
/// The time after which the project wants a resource to be in effect.
const EFFECT_AIM: Duration = Duration::from_secs(1);

/// A resource sets a host name, name servers, time servers, a message, a kernel parameter, a mount,
/// mirrors or credentials of a registry, a field of the kubelet's configuration, a proxy, an
/// address, a route or a routing rule of the node, makes a link or a tunnel, closes a port,
/// translates addresses, asks for a kernel module, turns swap on, keeps an image, writes a seccomp
/// profile, gives the kubelet a credential provider, or has the node run a pod. It outranks the
/// recipe, whose settings are in effect from the first boot on. The setting is put back if another
/// program changes it, outlasts a crash of `osd` and a power cut, and goes with its resource. One
/// that is made while DATA is full is in effect, and kept once there is space. What the image does
/// not allow is refused, also to a hostile `osd`. Labels and taints wait for the node to register.
/// Without its file `osd` begins with what `init` holds. The node document is in effect where there
/// is no resource.
pub fn a_resource_holds_a_setting(site: &Site) -> Result<Outcome> {
    let more = |project: &Path| Ok(Lab::pods() + &stranger::pod(site, project)?);
    let lab = Lab::with(site, "settings", more)?;
    lab.with_logs(holds_its_settings(&lab))
}

fn holds_its_settings(lab: &Lab) -> Result<Outcome> {
    let (node, mut outcome) = (&lab.node, Outcome::default());

    let images = ImageServer::start()?;
    let mut running = lab.boot("first")?;
    let before = single::observe(node, &mut outcome)?;
    observed::is_what_the_node_has(node, &mut outcome)?;
    of_recipe::are_in_effect(node, &mut outcome)?;
    let container = runtime_clients::are_seen(node, &mut outcome)?;
    bpf_programs::keep_a_container_from_devices(node, &container, &mut outcome)?;
    system_images::is_kept(node, &images, &mut outcome)?;
    kernel_parameters::sets_one(node, &mut outcome)?;
    single::are_set(node, &mut outcome)?;
    kernel_modules::have_statuses(node, &mut outcome)?;
    seccomp_profiles::is_written(node, &mut outcome)?;
    motds::is_shown(node, &mut running, &mut outcome)?;
    mounts::is_mounted(node, &mut outcome)?;
    swaps::is_on(node, &mut outcome)?;
    registries::are_set(node, &mut outcome)?;
    credentials::are_set(node, &mut outcome)?;
    network::is_set(node, &mut running, &mut outcome)?;
    routing_rules::are_set(node, &mut outcome)?;
    made_links::are_made(node, &mut outcome)?;
    wireguard::reach_each_other(node, &mut outcome)?;
    stranger::is_undone(node, &mut outcome)?;
    // It looks at the processes of the node through the port that is closed then.
    static_pods::runs(node, &mut outcome)?;
    seccomp_profiles::bind_pods(node, &mut outcome)?;
    // It is answered at the port that is closed then, too.
    nat::forwards_a_port(node, &mut outcome)?;
    firewall::closes_a_port(node, &mut outcome)?;
    nat::is_set(node, &mut outcome)?;
    nat::is_a_problem_without_its_link(&mut running, &mut outcome)?;
    let polled = kernel_parameters::puts_it_back(node, &mut running, &mut outcome)?;
    let reported = single::are_put_back(node, &mut outcome)?;
    kernel_parameters::refuses_another(node, &mut outcome)?;
    hostile::is_refused(node, &mut outcome)?;
    node_labels::wait_for_a_cluster(node, &mut outcome)?;
    node.signal("KILL")?;
    kernel_parameters::is_remembered_after_a_crash(node, &mut outcome)?;
    single::are_still_set(node, "outlast a crash of osd", &mut outcome)?;
    // The kubelet starts again for this, and meanwhile starts no container that has crashed.
    kubelet_fields::are_set(node, &mut outcome)?;
    swaps::gives_pods_a_part(node, &mut outcome)?;
    credential_providers::waits_for_its_program(node, &images, &mut outcome)?;
    proxies::is_set(node, &mut outcome)?;
    trusted_roots::are_set(node, &lab.clients()?, &mut outcome)?;
    full_disk::keeps_no_setting_until_there_is_space(node, &mut outcome)?;
    running.power_off()?;

    outlast_a_power_cut(lab, &images, &mut outcome)?;

    lab.change_data()?;
    let mut running = lab.boot("without-file")?;
    document::is_in_effect(node, &mut running, &mut outcome)?;
    remote::obeys_the_documents_clients(&lab.osctl, &mut outcome)?;
    kernel_parameters::begin_with_what_init_holds(node, &mut outcome)?;
    single::are_still_set(node, "need no osd", &mut outcome)?;
    kernel_parameters::gives_the_value_back(node, &mut outcome)?;
    single::are_given_back(node, &before, &mut outcome)?;
    cni::has_its_status(node, &mut outcome)?;
    let slowest = reported.into_iter().max().unwrap_or_default();
    outcome.summary = format!(
        "{} claims; put back after {:.2} s, kernel parameters after {:.2} s",
        outcome.passed,
        slowest.as_secs_f64(),
        polled.as_secs_f64()
    );
    Ok(outcome)
}

/// The same settings are in effect at the next boot. Those that go with their resource alone do.
fn outlast_a_power_cut(lab: &Lab, images: &ImageServer, outcome: &mut Outcome) -> Result<()> {
    let node = &lab.node;
    let mut running = lab.boot("again")?;
    kernel_parameters::has_both_after_a_power_cut(node, outcome)?;
    full_disk::has_kept_it_after_a_power_cut(node, outcome)?;
    kernel_modules::outlast_a_power_cut(node, outcome)?;
    seccomp_profiles::outlasts_a_power_cut_and_goes(node, outcome)?;
    motds::outlasts_a_power_cut(node, &mut running, outcome)?;
    mounts::outlasts_a_power_cut(node, outcome)?;
    swaps::outlasts_a_power_cut_and_goes(node, outcome)?;
    registries::outlast_a_power_cut(node, outcome)?;
    credentials::outlast_a_power_cut(node, outcome)?;
    network::outlasts_a_power_cut(node, outcome)?;
    routing_rules::outlast_a_power_cut_and_go(node, outcome)?;
    made_links::outlast_a_power_cut_and_go(node, outcome)?;
    wireguard::outlast_a_power_cut_and_go(node, outcome)?;
    nat::outlasts_a_power_cut_and_goes(node, outcome)?;
    firewall::outlasts_a_power_cut_and_goes(node, outcome)?;
    network::is_back_after_a_try(node, outcome)?;
    system_images::outlasts_a_power_cut_and_goes(node, images, outcome)?;
    single::are_still_set(node, "outlast a power cut", outcome)?;
    credential_providers::outlasts_a_power_cut_and_goes(node, outcome)?;
    kubelet_fields::outlast_a_power_cut_and_a_refusal(node, &mut running, outcome)?;
    proxies::outlasts_a_power_cut(node, outcome)?;
    trusted_roots::outlast_a_power_cut(node, outcome)?;
    static_pods::outlasts_a_power_cut_and_ends(node, outcome)?;
    running.power_off()
}

/// `osctl` changes settings over the network, and ends the node. A change is tried, and taken back
/// at its deadline, on request, when `osd` crashes or hangs, and with the power; unless it is
/// confirmed. One that cuts the node off is taken back without being asked, and nothing is left of
/// one that changes settings of 22 kinds.
pub fn a_change_takes_itself_back(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "tries")?;
    lab.with_logs(takes_itself_back(&lab))
}

fn takes_itself_back(lab: &Lab) -> Result<Outcome> {
    let (node, mut outcome) = (&lab.node, Outcome::default());

    let mut running = lab.boot("first")?;
    remote::changes_the_node(node, &lab.osctl, &mut running, &mut outcome)?;
    cut_off::is_taken_back(&lab.osctl, &mut outcome)?;
    plugin::registers_by_its_grant(node, &lab.osctl, &mut outcome)?;
    running.power_off()?;

    let mut running = lab.boot("again")?;
    remote::finds_the_node_again(node, &lab.osctl, &mut outcome)?;
    cut_off::ends_although_nothing_takes_it_back(node, &lab.osctl, &mut running, &mut outcome)?;
    all_kinds::leave_nothing(node, &mut outcome)?;
    tries::end(node, &mut running, &mut outcome)?;
    running.power_off()?;

    let mut running = lab.boot("at-last")?;
    tries::is_gone_after_a_power_cut(node, &mut outcome)?;
    engine_examples::apply_unchanged(node, &lab.osctl, &mut outcome)?;
    remote::ends_the_node(&lab.osctl, &mut running, &mut outcome)?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// `osctl` runs commands in a container of an image that the node has: with a terminal and without,
/// until they end, or their time does, also while `osd` hangs.
pub fn a_person_debugs_a_node(site: &Site) -> Result<Outcome> {
    let lab = Lab::with(site, "debug", |project| {
        Ok(format!("{PODS}{}{}", debug::API, debug::tools(site, project)?))
    })?;
    let (node, mut outcome) = (&lab.node, Outcome::default());
    let mut running = lab.boot("first")?;
    remote::is_known_by_its_fingerprint(&lab.osctl, &mut running, &mut outcome)?;
    debug::runs_a_command(&lab.osctl, &mut outcome)?;
    debug::talks_to_a_shell(&lab.osctl, &mut outcome)?;
    debug::says_what_fails(&lab.osctl, &mut outcome)?;
    debug::ends_without_osd(node, &lab.osctl, &mut running, &mut outcome)?;
    running.power_off()?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// A plugin that somebody else wrote in Python runs as a pod of the recipe, as far and as long as
/// its grant permits.
pub fn a_pod_in_python_is_a_plugin(site: &Site) -> Result<Outcome> {
    let more = |project: &Path| Ok(format!("{PODS}{}", plugin_pod::pod(site, project)?));
    let lab = Lab::with(site, "plugin-pod", more)?;
    lab.with_logs(has_a_plugin(&lab))
}

fn has_a_plugin(lab: &Lab) -> Result<Outcome> {
    let (node, mut outcome) = (&lab.node, Outcome::default());

    let mut running = lab.boot("first")?;
    remote::is_known_by_its_fingerprint(&lab.osctl, &mut running, &mut outcome)?;
    plugin_pod::does_what_its_grant_says(node, &lab.osctl, &mut outcome)?;
    running.power_off()?;

    let running = lab.boot("again")?;
    plugin_pod::outlasts_a_power_cut_and_ends(&lab.osctl, &mut outcome)?;
    running.power_off()?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// A node that does not get ready with its newest settings starts with those with which it was
/// ready, and goes back to them. A node whose starts are interrupted does so, too. One whose `osd`
/// never starts has its settings.
pub fn a_node_goes_back_to_good_settings(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "goes-back")?;
    let (node, mut outcome) = (&lab.node, Outcome::default());

    let mut running = lab.boot("first")?;
    // Nothing is good before the slot is.
    running.wait_for(SLOT_GOOD)?;
    goes_back::sets_good_ones(node)?;
    running.power_off()?;

    let running = lab.boot("good")?;
    goes_back::sets_bad_ones(node)?;
    running.power_off()?;

    let mut running = lab.boot("bad")?;
    goes_back::is_ready_with_good_ones(node, &mut running, &mut outcome)?;
    running.power_off()?;

    let mut running = lab.boot("after")?;
    goes_back::stays_with_good_ones(node, &mut running, &mut outcome)?;
    running.power_off()?;

    for number in 1..=goes_back::STARTS {
        let mut running = lab.start(&format!("interrupted-{number}"))?;
        running.wait_for(goes_back::ARE_SET)?;
        running.power_off()?;
    }
    let mut running = lab.boot("uninterrupted")?;
    goes_back::has_counted_starts(node, &mut running, &mut outcome)?;
    running.power_off()?;

    lab.break_osd()?;
    let running = lab.machine("without-osd")?.boot()?;
    goes_back::needs_no_osd(node, &mut outcome)?;
    running.power_off()?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// A node with `osd`, and the disk that it keeps.
pub struct Lab<'a> {
    pub(super) site: &'a Site<'a>,
    /// The name of its folder, and the prefix of the names of its logs.
    name: &'static str,
    pub project: PathBuf,
    pub(super) disk: KeptDisk,
    pub(super) node: Node<'a>,
    pub(super) osctl: Osctl<'a>,
}

impl<'a> Lab<'a> {
    pub fn new(site: &'a Site, name: &'static str) -> Result<Lab<'a>> {
        Self::with(site, name, |_| Ok(Self::pods()))
    }

    /// The sections of its recipe.
    fn pods() -> String {
        let more = [static_pods::API, credential_providers::WRITABLE, of_recipe::NODE];
        format!("{PODS}{}", more.concat())
    }

    /// A lab whose recipe adds this to that with the probe.
    pub(super) fn with(
        site: &'a Site<'a>,
        name: &'static str,
        more: impl FnOnce(&Path) -> Result<String>,
    ) -> Result<Lab<'a>> {
        let project = site.root.join("out/ci").join(name);
        site.copy_to(&project)?;
        recipe::inherit(site, &project, RECIPE, probe::RECIPE, &more(&project)?)?;
        let disk = KeptDisk::in_project(&project, RECIPE)?;
        let [_, program] = state_api::programs(site)?;
        let osctl = Osctl { site, program, project: project.clone(), port: free_port()? };
        let node = Node {
            site,
            grpcurl: state_api::grpcurl(site)?,
            osd: free_port()?,
            files: free_port()?,
            plugin: free_port()?,
            signals: free_port()?,
            sockets: free_port()?,
            tables: free_port()?,
            swaps: free_port()?,
            runtime: free_port()?,
            containerd: free_port()?,
            facts: free_port()?,
            places: free_port()?,
            logs: free_port()?,
            forwarded: free_port()?,
            stranger: free_port()?,
        };
        Ok(Lab { site, name, project, disk, node, osctl })
    }

    /// Gives the next boot a release whose `osd` never starts.
    fn break_osd(&self) -> Result<()> {
        let path = self.project.join(MANIFEST);
        let cannot = || format!("cannot change `{}`", path.display());
        let text = fs::read_to_string(&path).or_build(cannot)?;
        let (own, broken) = ("image: localhost/osd:1\n", "command: [/gone]\n");
        let changed = text.replacen(own, &format!("{own}      {broken}"), 1);
        fs::write(&path, changed).or_build(cannot)
    }

    /// Boots the node, and waits for `osd`. `boot` distinguishes its log from those of its other
    /// boots.
    pub(super) fn boot(&self, boot: &str) -> Result<NodeUnderTest<'a>> {
        let running = self.machine(boot)?.boot()?;
        // READY does not wait for `osd`.
        self.node.resource("HostnameStatuses", "node")?;
        Ok(running)
    }

    /// Powers the node on, and does not wait.
    fn start(&self, boot: &str) -> Result<NodeUnderTest<'a>> {
        self.machine(boot)?.start()
    }

    pub fn machine(&self, boot: &str) -> Result<Machine<'a>> {
        let log = format!("{}-{boot}", self.name);
        let machine = Machine::of_recipe_in(self.site, &self.project, RECIPE, &log)?;
        Ok(machine
            .keep(self.disk.path())
            .forward(self.node.osd, probe::OSD)
            .forward(self.osctl.port, PORT)
            .forward(self.node.files, probe::FILE)
            .forward(self.node.plugin, probe::PLUGIN)
            .forward(self.node.signals, probe::SIGNAL)
            .forward(self.node.sockets, probe::SOCKET)
            .forward(self.node.tables, probe::TABLE)
            .forward(self.node.swaps, probe::SWAP)
            .forward(self.node.runtime, probe::RUNTIME)
            .forward(self.node.containerd, probe::CONTAINERD)
            .forward(self.node.facts, probe::FACTS)
            .forward(self.node.places, probe::PLACE)
            .forward(self.node.logs, probe::LOG)
            .forward(self.node.forwarded, nat::FORWARDED_PORT)
            .forward(self.node.stranger, stranger::PORT))
    }

    /// The certificate of the CA of clients, which can be that of servers as well.
    fn clients(&self) -> Result<String> {
        let path = self.project.join(CLIENTS);
        fs::read_to_string(&path).or_build(|| format!("cannot read `{}`", path.display()))
    }

    /// Copies the logs of the node, which is off, if a claim does not hold or if there is an error,
    /// and adds their folder to it.
    fn with_logs(&self, outcome: Result<Outcome>) -> Result<Outcome> {
        if outcome.as_ref().is_ok_and(|outcome| outcome.problems.is_empty()) {
            return outcome;
        }
        let folder = self.project.join(LOGS);
        let kept = fs::create_dir_all(&folder)
            .or_build(|| format!("cannot make `{}`", folder.display()))
            .and_then(|()| Data::of(self.site, self.disk.path())?.copy_folder("log", &folder));
        // Another error here must not hide that of the check.
        let Ok(()) = kept else { return outcome };
        let place = format!("the node's logs are in `{}`", folder.display());
        let mut outcome = outcome.map_err(|error| error.hint(&place))?;
        if let Some(last) = outcome.problems.last_mut() {
            *last = last.clone().hint(&place);
        }
        Ok(outcome)
    }

    /// Removes the file of `osd` from DATA of the node, which is off, and adds a node document.
    fn change_data(&self) -> Result<()> {
        let data = Data::of(self.site, self.disk.path())?;
        data.change(&format!("rm {KEPT}\n"))?;
        data.write(&[document::FILE], &document::text(&self.osctl.other_clients()?))?;
        data.put_into(self.disk.path())
    }
}

/// Checks that a value came into effect. `took` is the time since its resource was made.
fn took_effect(claim: &str, took: Option<Duration>, outcome: &mut Outcome) {
    outcome.check(claim, took.is_some(), || format!("not within {TIMEOUT:?}"));
    outcome.times.extend(took.map(|took| Timed { claim: claim.to_owned(), took, aim: EFFECT_AIM }));
}

/// Checks that a foreign value was replaced in time. Returns how long it took.
fn was_repaired(
    claim: &str,
    took: Option<Duration>,
    repair: Repair,
    outcome: &mut Outcome,
) -> Duration {
    let took = took.unwrap_or(TIMEOUT);
    outcome.check(claim, took <= repair.within, || format!("it took {took:?}"));
    outcome.times.push(Timed { claim: claim.to_owned(), took, aim: repair.aim });
    took
}

//! `cargo ci [--yes] [full|NAME…]` installs the tools that the checks need, runs the checks and
//! tests, and ends with the line `N passed, N failed`, after which come claims that cannot be
//! checked on this machine. On a terminal it asks before it installs. The first Ctrl-C or SIGTERM
//! ends the running checks in order, the second one at once.
//! `cargo ci bench [cold] [--json] [GROUP…]` measures: build, farm, boot, debian, state,
//! settings, update, fallback, flash, upload, install, and by its name alone debian-full.
//! `cargo ci fuzz SECONDS|TARGET…` runs the check `fuzz` for longer or for some targets.

mod bench;
mod build_host;
mod cargo;
mod check;
mod child;
mod dependencies;
mod disk_file;
mod fuzz;
mod go_module;
mod image;
mod oracles;
mod protos;
mod published;
mod readers;
mod recipe;
mod remote;
mod same;
mod shape;
mod site;
mod state_api;
mod vm;
mod workspace;

use bench::BenchOptions;
use check::{Check, Lane, Tally};
use osbuild::engine::stop;
use osbuild::error::{Error, Result};
use osbuild::host::{self, Consent, Tool};
use osbuild::report::{Color, Report, Verbosity};
use site::Site;
use std::iter;
use std::process::ExitCode;

/// Prefix of the names of the checks that only read the files of git.
const SHAPE: &str = "shape: ";

/// The first checks of `cargo ci`, fastest first.
const SOURCES: &[Check] = &[
    Check { name: "format", run: cargo::format },
    Check { name: "shape: size", run: shape::size },
    Check { name: "shape: layers", run: shape::layers },
    Check { name: "shape: words", run: shape::words },
    Check { name: "shape: claims", run: shape::claims },
    Check { name: "shape: maps", run: shape::maps },
    Check { name: "lints", run: cargo::lints },
];

/// Then lanes in parallel, because the tests leave half of two processors idle, and a machine with
/// one processor does. The first lane.
const TESTS: &[Check] = &[
    Check { name: "tests", run: cargo::tests },
    Check { name: "node for arm64", run: cargo::node_for_arm64 },
    Check { name: "slotboot for UEFI", run: cargo::slotboot_for_uefi },
];

/// The second lane.
const BUILDS: &[Check] =
    &[Check { name: IMAGE, run: image::builds }, Check { name: LAB, run: image::builds_the_lab }];

/// The checks that other lanes wait for.
const IMAGE: &str = "image";
const LAB: &str = "lab";

/// A lane that needs [`IMAGE`]: its files, and machines that boot it.
const MACHINES: &[Check] = &[
    Check { name: "inspect", run: image::three_inspections_agree },
    Check { name: "verify", run: image::each_file_is_verified_from_outside },
    Check { name: "release", run: image::a_release_is_verified_from_outside },
    Check { name: "published", run: published::boto3_reads_the_disk_that_was_published },
    Check { name: "readers", run: readers::others_read_what_we_write },
    Check {
        name: "vm: nothing to boot",
        run: vm::refusals::an_empty_disk_is_an_error_that_quotes_the_firmware,
    },
    Check { name: "vm: missing tools", run: vm::refusals::missing_programs_and_firmware_are_named },
    Check { name: "vm: interrupted", run: vm::interrupted::ctrl_c_ends_the_machine_with_code_130 },
    Check { name: "vm: boots to ready", run: vm::run_command::boots_to_ready_with_an_address },
    Check { name: "vm: secure boot", run: vm::secure::the_firmware_starts_only_what_it_trusts },
    Check { name: "vm: inside", run: vm::inside::the_node_is_what_was_promised },
    Check { name: "vm: slots", run: vm::slots::a_bad_slot_never_ends_the_node },
];

/// A lane that needs [`LAB`].
const CLUSTER: &[Check] = &[Check {
    name: "vm: cluster",
    run: vm::cluster::a_node_joins_runs_pods_and_is_the_same_after_a_reboot,
}];

/// The last lane.
const CLIENTS: &[Check] = &[Check { name: "state API", run: state_api::clients_of_others_use_it }];

/// The lanes of each run after [`SOURCES`].
const USUAL: [&[Check]; 5] = [TESTS, BUILDS, MACHINES, CLUSTER, CLIENTS];

/// Checks that `cargo ci full` adds, because they are too slow for every run: first, one at a time,
/// those that use all processors, and `vm: slots, at length`, which measures slotboot.
const LONG_ALONE: &[Check] = &[
    Check { name: "libraries", run: dependencies::libraries_are_fit },
    Check { name: "fuzz", run: fuzz::no_input_breaks_a_property },
    Check { name: "protos", run: protos::files_follow_the_rules },
    Check { name: "osctl for arm64", run: cargo::osctl_for_arm64 },
    Check { name: "COSI suites", run: state_api::suites_of_others_pass },
    Check { name: "talosctl", run: state_api::it_reads_a_node },
    Check { name: "many changes", run: state_api::a_minute_of_changes_is_kept },
    Check { name: "image for arm64", run: image::builds_for_arm64 },
    Check { name: "arm64 host", run: build_host::arm64_builds_the_same_image },
    Check { name: "full lab", run: image::builds_the_full_lab },
    Check { name: "newer lab", run: vm::cluster::builds_the_newer_minors },
    Check { name: "conformance tests", run: image::builds_the_conformance_tests },
    Check { name: "same bytes elsewhere", run: same::ours_are_the_same_elsewhere },
    Check {
        name: "same bytes from exported sources",
        run: same::everything_is_the_same_from_exported_sources,
    },
    Check { name: "remote execution", run: remote::a_service_makes_the_same_image },
    Check { name: "remote cache", run: remote::a_cache_gives_the_same_image },
    Check { name: "vm: imported results", run: remote::imported_results_are_an_image_that_boots },
    Check { name: "vm: slots, at length", run: vm::slots::no_fault_of_a_slot_ends_the_node },
    Check { name: "vm: node's kernel", run: vm::node_kernel::links_are_what_ip_shows },
    Check { name: "vm: two control planes", run: vm::cluster::several_nodes_are_one_control_plane },
];

/// Then, again, two lanes of machines. The first one.
const LONG_NODES: &[Check] = &[
    Check { name: "vm: IPv6 alone", run: vm::run_command::boots_to_ready_with_an_ipv6_address },
    Check { name: "vm: power button", run: vm::power_button::it_ends_a_node_in_order },
    Check { name: "vm: planted", run: vm::planted::system_pods_do_not_come_from_data },
    Check { name: "vm: power cut", run: vm::power_loss::a_node_boots_again_after_a_power_cut },
    Check { name: "vm: joins", run: vm::joins::a_kubeconfig_and_one_command_make_the_node_join },
    Check { name: "vm: own pod", run: vm::own_pod::a_pod_from_an_archive_runs },
    Check {
        name: "vm: ordinary pod",
        run: vm::ordinary_pod::an_ordinary_pod_runs_without_a_cluster,
    },
    Check { name: "vm: settings", run: vm::settings::a_resource_holds_a_setting },
    Check { name: "vm: tries", run: vm::settings::a_change_takes_itself_back },
    Check {
        name: "vm: address at the console",
        run: vm::console_address::a_person_gives_an_address,
    },
    Check { name: "vm: COSI suites", run: vm::settings::suites_of_others_pass },
    Check { name: "vm: plugin pod", run: vm::settings::a_pod_in_python_is_a_plugin },
    Check { name: "vm: debug", run: vm::settings::a_person_debugs_a_node },
    Check { name: "vm: bad settings", run: vm::settings::a_node_goes_back_to_good_settings },
    Check { name: "vm: sick nodes", run: vm::sick::each_is_found_and_mended_without_a_shell },
    Check { name: "vm: setup mode", run: vm::run_command::a_node_in_setup_mode_boots_and_warns },
    Check { name: "vm: aws-amd64", run: vm::run_command::aws_amd64_boots_to_ready_with_an_address },
    Check {
        name: "vm: not ready in time",
        run: vm::refusals::a_boot_that_times_out_names_its_last_phase,
    },
    Check { name: "vm: too little memory", run: vm::refusals::a_node_with_too_little_memory_warns },
    Check {
        name: "vm: secure boot refuses",
        run: vm::secure::run_reports_that_the_firmware_refused_the_image,
    },
    Check { name: "vm: beside the UKI", run: vm::secure::nothing_beside_the_uki_is_read },
    Check {
        name: "vm: secure boot, at length",
        run: vm::secure::the_firmware_checks_every_signature_and_every_part,
    },
    Check {
        name: "vm: no secure boot",
        run: vm::run_command::a_node_without_secure_boot_boots_and_warns,
    },
    Check {
        name: "vm: cluster lost",
        run: vm::cluster::a_release_that_loses_the_cluster_goes_back,
    },
    Check { name: "vm: rejoins", run: vm::cluster::a_node_comes_back_with_a_fresh_token_or_ca },
    Check { name: "vm: wrong clock", run: vm::cluster::a_node_joins_as_soon_as_it_knows_the_time },
    Check {
        name: "vm: workloads",
        run: vm::cluster::a_stock_deployment_works_and_survives_a_reboot,
    },
    Check {
        name: "vm: many pods",
        run: vm::cluster::a_node_runs_as_many_pods_as_the_kubelet_allows,
    },
    Check { name: "vm: reserved", run: vm::cluster::a_pod_has_what_is_reserved_for_it },
    Check { name: "vm: pods as clients", run: vm::cluster::pods_are_clients_of_their_node },
    Check {
        name: "vm: storage driver",
        run: vm::cluster::a_storage_driver_mounts_the_volumes_of_pods,
    },
    Check { name: "vm: conformance", run: vm::cluster::a_node_passes_the_tests_of_kubernetes },
    Check {
        name: "vm: newer control planes",
        run: vm::cluster::a_node_joins_the_two_minors_after_its_own,
    },
    Check {
        name: "vm: dual stack",
        run: vm::cluster::a_node_joins_by_ipv6_and_has_both_protocols_later,
    },
    Check { name: "vm: two nodes", run: vm::cluster::pods_of_two_nodes_reach_each_other },
    Check { name: "vm: control plane", run: vm::cluster::a_node_makes_its_own_control_plane },
    Check {
        name: "vm: inside, with AppArmor",
        run: vm::inside::a_node_with_apparmor_is_what_was_promised,
    },
    Check { name: "vm: AppArmor", run: vm::cluster::pods_have_the_profiles_that_they_ask_for },
    Check { name: "vm: BTF", run: vm::kernel_types::agents_find_the_types_of_the_kernel },
    Check {
        name: "vm: configured control plane",
        run: vm::cluster::a_resource_configures_the_control_plane,
    },
    Check {
        name: "vm: control plane's next minor",
        run: vm::cluster::a_control_plane_is_upgraded_to_the_next_minor,
    },
    Check {
        name: "vm: drained update",
        run: vm::cluster::a_node_is_drained_before_it_reboots_for_an_update,
    },
    Check { name: "vm: faults", run: vm::cluster::pods_survive_faults },
    Check { name: "vm: faults at boot", run: vm::cluster::a_node_boots_without_its_cluster },
    Check {
        name: "vm: name server away",
        run: vm::cluster::a_node_survives_without_its_name_server,
    },
    Check {
        name: "vm: hour without the cluster",
        run: vm::cluster::pods_survive_an_hour_without_the_cluster,
    },
    Check { name: "vm: full disk", run: vm::cluster::a_node_survives_a_full_disk },
    Check {
        name: "vm: graceful shutdown",
        run: vm::cluster::pods_end_in_order_before_the_node_does,
    },
    Check { name: "vm: hung daemons", run: vm::hung_daemons::a_daemon_that_hangs_is_replaced },
    Check {
        name: "vm: planted, at length",
        run: vm::planted::a_node_becomes_ready_with_any_planted_files,
    },
    Check {
        name: "vm: neighbours",
        run: vm::neighbours::nodes_on_one_network_reach_each_other_and_the_host,
    },
    Check {
        name: "vm: volumes",
        run: vm::volumes::a_node_takes_a_signed_document_from_its_second_disk,
    },
    Check { name: "vm: clouds", run: vm::clouds::a_node_takes_its_document_from_its_cloud },
    Check {
        name: "vm: user volumes",
        run: vm::user_volumes::a_blank_disk_becomes_a_volume_and_no_other,
    },
    Check { name: "vm: time", run: vm::time::a_node_asks_the_time_server_of_its_recipe },
    Check { name: "vm: large sectors", run: vm::sectors::a_flashed_disk_of_large_sectors_boots },
    Check {
        name: "vm: bare machine with amd64",
        run: vm::boards::a_bare_machine_boots_from_any_bus_beside_another_disk,
    },
    Check { name: "vm: installer", run: vm::installer::a_stick_installs_a_machine },
    Check {
        name: "vm: installer by HTTP",
        run: vm::installer::http::a_machine_without_a_stick_installs_by_http,
    },
];

/// The second lane: updates, and the machines with arm64. The power cuts replay the writes of the
/// machine that `vm: update` has updated.
const LONG_UPDATES: &[Check] = &[
    Check { name: "vm: update", run: vm::update::a_node_updates_itself },
    Check { name: "vm: power cuts", run: vm::power::a_node_survives_any_power_cut },
    Check {
        name: "vm: arm64 boots to ready",
        run: vm::run_command::arm64_boots_to_ready_with_an_address,
    },
    Check { name: "vm: power button with arm64", run: vm::power_button::it_ends_a_node_with_arm64 },
    Check { name: "vm: aws-arm64", run: vm::run_command::aws_arm64_boots_to_ready_with_an_address },
    Check {
        name: "vm: bare machine with arm64",
        run: vm::boards::a_bare_machine_with_arm64_boots_from_any_bus_beside_another_disk,
    },
    Check {
        name: "vm: installer for arm64",
        run: vm::installer::a_stick_installs_a_machine_with_arm64,
    },
    Check {
        name: "vm: update with arm64",
        run: vm::update::a_node_with_arm64_updates_itself_and_goes_back,
    },
    Check {
        name: "vm: update from a folder",
        run: vm::update::a_node_updates_itself_from_a_folder,
    },
    Check {
        name: "vm: update from 3366aed",
        run: vm::update::a_node_of_3366aed_updates_itself_and_goes_back,
    },
];

/// Checks that run by their name alone. Two emulated processors are too few for three control
/// planes: kubeadm gives etcd 2 s for an answer.
const BY_NAME: &[Check] = &[Check {
    name: "vm: three control planes",
    run: vm::cluster::a_control_plane_outlasts_the_loss_of_a_node,
}];

fn main() -> ExitCode {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word == "--yes");
    let report = Report::new(Verbosity::Normal, Color::Auto);
    let yes = !flags.is_empty();
    let done = stop::on_signals().and_then(|()| match words.split_first() {
        Some((word, rest)) if word == "bench" => bench(&report, yes, rest),
        Some((word, rest)) if word == "fuzz" && !rest.is_empty() => fuzz(&report, yes, rest),
        _ => ci(&report, yes, &words),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report.error(&error);
            ExitCode::from(error.kind as u8)
        }
    }
}

/// Runs checks, and returns whether all of them passed.
fn ci(report: &Report, yes: bool, words: &[String]) -> Result<bool> {
    let parts = chosen(words)?;
    host::set_up(report, &tools(&parts), Consent { yes, offline: false })?;
    let site = Site::new(report)?;
    let tally =
        parts.iter().map(|lanes| check::run(&site, lanes)).fold(Tally::default(), Tally::plus);
    stop::check()?;
    report.data(tally.to_string());
    tally.unchecked.iter().for_each(|why| report.warning(format!("not checked: {why}")));
    Ok(tally.failed == 0)
}

/// The tools that these checks need.
fn tools(parts: &[Vec<Lane>]) -> Vec<Tool> {
    let mut checks = parts.iter().flatten().flat_map(|lane| &lane.checks);
    let is_usual = |check: &Check| {
        iter::once(SOURCES).chain(USUAL).flatten().any(|usual| usual.name == check.name)
    };
    if checks.clone().all(|check| check.name.starts_with(SHAPE)) {
        oracles::git()
    } else if checks.all(|check| is_usual(check)) {
        oracles::usual()
    } else {
        oracles::all()
    }
}

fn bench(report: &Report, yes: bool, words: &[String]) -> Result<bool> {
    let options = BenchOptions::parse(words)?;
    bench::bench(&site(report, yes)?, &options)?;
    Ok(true)
}

fn fuzz(report: &Report, yes: bool, words: &[String]) -> Result<bool> {
    fuzz::run_targets(&site(report, yes)?, words)?;
    Ok(true)
}

/// Installs the tools that benchmarks and fuzz targets need, and opens the checkout.
fn site(report: &Report, yes: bool) -> Result<Site<'_>> {
    host::set_up(report, &oracles::usual(), Consent { yes, offline: false })?;
    Site::new(report)
}

/// All checks.
fn all() -> impl Iterator<Item = &'static Check> {
    let by_name = [LONG_ALONE, LONG_NODES, LONG_UPDATES, BY_NAME];
    iter::once(SOURCES).chain(USUAL).chain(by_name).flatten()
}

/// Their names.
fn names() -> impl Iterator<Item = &'static str> {
    all().map(|check| check.name)
}

/// Selects checks: without a word the usual ones, with `full` all but those of [`BY_NAME`],
/// otherwise those whose names equal a word, or begin with it if none equals it. Returns parts that
/// run one after another, each with lanes that run in parallel.
fn chosen(words: &[String]) -> Result<Vec<Vec<Lane>>> {
    let after = |after, checks: &'static [Check]| Lane { after, checks: checks.iter().collect() };
    let lane = |checks| after(None, checks);
    let lanes = [None, None, Some(IMAGE), Some(LAB), None].into_iter().zip(USUAL);
    let lanes = lanes.map(|(check, checks)| after(check, checks)).collect();
    let usual = vec![vec![lane(SOURCES)], lanes];
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => return Ok(usual),
        ["full"] => {
            let long = [vec![lane(LONG_ALONE)], vec![lane(LONG_NODES), lane(LONG_UPDATES)]];
            return Ok(usual.into_iter().chain(long).collect());
        }
        _ => {}
    }
    let selects = |check: &Check, word: &String| match names().any(|name| name == word) {
        true => check.name == word,
        false => check.name.starts_with(word.as_str()),
    };
    if let Some(word) = words.iter().find(|word| !all().any(|check| selects(check, word))) {
        let names: Vec<&str> = names().collect();
        return Err(Error::usage(format!("no check's name begins with `{word}`"))
            .hint(format!("the checks are: {}", names.join(", "))));
    }
    let checks = all().filter(|check| words.iter().any(|word| selects(check, word))).collect();
    Ok(vec![vec![Lane { after: None, checks }]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(words: &[&str]) -> Vec<&'static str> {
        chosen(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
            .unwrap()
            .into_iter()
            .flatten()
            .flat_map(|lane| lane.checks)
            .map(|check| check.name)
            .collect()
    }

    #[test]
    fn without_a_word_the_usual_checks_run() {
        assert_eq!(
            names_of(&[]).len(),
            iter::once(SOURCES).chain(USUAL).map(<[Check]>::len).sum::<usize>()
        );
    }

    #[test]
    fn a_lane_waits_for_a_check_of_one_before_it() {
        for lanes in chosen(&["full".to_owned()]).unwrap() {
            let mut before = Vec::new();
            for lane in lanes {
                assert!(lane.after.is_none_or(|name| before.contains(&name)), "{:?}", lane.after);
                before.extend(lane.checks.iter().map(|check| check.name));
            }
        }
    }

    #[test]
    fn full_is_every_check_but_those_that_run_by_name_alone() {
        assert_eq!(names_of(&["full"]).len(), all().count() - BY_NAME.len());
        assert_eq!(names_of(&["vm: three"]), ["vm: three control planes"]);
    }

    #[test]
    fn only_checks_of_full_need_the_emulator_of_arm64() {
        let needs = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            let tools = tools(&chosen(&words).unwrap());
            tools.iter().any(|tool| tool.name == "qemu-system-aarch64")
        };
        assert!(needs(&["full"]) && needs(&["arm64 host"]));
        assert!(!needs(&[]) && !needs(&["vm: cluster"]) && !needs(&["shape"]));
    }

    #[test]
    fn a_word_selects_checks_and_an_unknown_one_lists_them() {
        assert_eq!(names_of(&["shape: w", "format"]), ["format", "shape: words"]);
        assert_eq!(names_of(&["vm: slots"]), ["vm: slots"]);
        let error = chosen(&["no-such".to_owned()]).err().unwrap();
        assert!(error.to_string().contains("the checks are: format, "));
    }
}

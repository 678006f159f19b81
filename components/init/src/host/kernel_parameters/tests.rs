//! Tests of kernel parameters, on a folder like `/proc/sys`.

use super::*;
use std::fs;
use tempfile::TempDir;

const SHIPPED: &str = include_str!("../../../kernel-parameters.conf");
const NOW: Duration = Duration::from_secs(100);
const KEY: &str = "net.core.somaxconn";

fn kernel() -> (KernelParameters, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("net/core")).unwrap();
    fs::write(file(&folder), "4096\n").unwrap();
    let parameters =
        KernelParameters { folder: folder.path().to_owned(), ..KernelParameters::default() };
    (parameters, folder)
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("net/core/somaxconn")
}

fn wanted(key: &str, value: &str) -> KernelParameter {
    KernelParameter::parse(key, value).unwrap()
}

fn key(text: &str) -> ParameterKey {
    ParameterKey::parse(text).unwrap()
}

#[test]
fn a_withdrawn_parameter_has_the_value_that_it_had_before() {
    let (mut parameters, folder) = kernel();
    for value in ["8192", "16384"] {
        parameters.apply(Source::Api, &wanted(KEY, value), KEY, NOW).unwrap();
        assert_eq!(fs::read_to_string(file(&folder)).unwrap(), value);
    }
    let requested: Vec<_> = parameters.of(Source::Api).collect();
    assert_eq!(requested, [wanted(KEY, "16384")]);
    parameters.withdraw(Source::Api, &key(KEY), NOW).unwrap();
    assert_eq!(fs::read_to_string(file(&folder)).unwrap(), "4096");
    assert_eq!((parameters.of(Source::Api).count(), parameters.deadline()), (0, None));
    parameters.withdraw(Source::Api, &key(KEY), NOW).unwrap();
}

#[test]
fn a_parameter_that_another_program_changes_is_set_again() {
    let (mut parameters, folder) = kernel();
    parameters.apply(Source::Api, &wanted(KEY, "8192"), KEY, NOW).unwrap();
    fs::write(file(&folder), "128\n").unwrap();
    assert!(parameters.hold(NOW).is_empty(), "it is not due yet");
    assert_eq!(
        parameters.hold(parameters.deadline().unwrap()),
        ["another program set `net.core.somaxconn` to `128`, it is `8192` again"]
    );
    let observed = parameters.observe().next().unwrap();
    assert_eq!((observed.current.as_str(), observed.source), ("8192", Some(Source::Api)));
    assert!(parameters.hold(parameters.deadline().unwrap()).is_empty());
}

#[test]
fn what_the_image_does_not_allow_is_refused_and_changes_nothing() {
    let (mut parameters, folder) = kernel();
    for list in ["", "# net.core.somaxconn", "net.core.somaxconn2", "vm.*"] {
        let refused = parameters.apply(Source::Api, &wanted(KEY, "1"), list, NOW).unwrap_err();
        assert_eq!(refused.code, RefusalCode::NotAllowed, "{list}");
    }
    assert_eq!(fs::read_to_string(file(&folder)).unwrap(), "4096\n");
    assert!(parameters.apply(Source::Api, &wanted(KEY, "1"), "net.*", NOW).is_ok());
}

#[test]
fn a_parameter_that_the_kernel_does_not_have_is_refused() {
    let (mut parameters, _folder) = kernel();
    let refused = parameters.apply(Source::Api, &wanted("net.core.x", "1"), "net.*", NOW);
    assert_eq!(refused.unwrap_err().code, RefusalCode::Failed);
    assert_eq!(parameters.observe().count(), 0);
}

#[test]
fn the_number_of_parameters_is_bounded() {
    let (mut parameters, folder) = kernel();
    let outcomes = (0..=MAX_PARAMETERS).map(|index| {
        fs::write(folder.path().join(format!("net/core/{index}")), "0").unwrap();
        let wanted = wanted(&format!("net.core.{index}"), "1");
        parameters.apply(Source::Api, &wanted, "net.*", NOW).is_ok()
    });
    assert_eq!(outcomes.filter(|is_set| *is_set).count(), MAX_PARAMETERS);
}

#[test]
fn the_list_that_we_ship_permits_no_protection_to_be_lifted() {
    const TUNED: [&str; 3] =
        ["fs.inotify.max_user_instances", "fs.inotify.max_user_watches", "vm.max_map_count"];
    for line in include_str!("../../../sysctl.conf").lines() {
        let Some((name, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        assert_eq!(permits(SHIPPED, &key(name)), TUNED.contains(&name), "{name}");
    }
    for name in ["net.ipv4.tcp_rmem", "kernel.domainname"] {
        assert!(permits(SHIPPED, &key(name)), "{name}");
    }
    for name in
        ["kernel.core_pattern", "kernel.panic", "net.ipv4.ip_forward", "vm.overcommit_memory"]
    {
        assert!(!permits(SHIPPED, &key(name)), "{name}");
    }
}

#[test]
fn a_request_outranks_the_document_which_is_back_when_it_goes() {
    let (mut parameters, folder) = kernel();
    parameters.apply(Source::Document, &wanted(KEY, "1024"), KEY, NOW).unwrap();
    parameters.apply(Source::Api, &wanted(KEY, "8192"), KEY, NOW).unwrap();
    parameters.apply(Source::Document, &wanted(KEY, "2048"), KEY, NOW).unwrap();
    assert_eq!(fs::read_to_string(file(&folder)).unwrap(), "8192");
    parameters.withdraw(Source::Api, &key(KEY), NOW).unwrap();
    assert_eq!(fs::read_to_string(file(&folder)).unwrap(), "2048");
    let observed = parameters.observe().next().unwrap();
    assert_eq!((observed.wanted, observed.source), (None, Some(Source::Document)));
}

#[test]
fn a_parameter_of_the_recipe_is_back_when_others_go() {
    let (mut parameters, folder) = kernel();
    parameters.apply(Source::Image, &wanted(KEY, "1024"), KEY, NOW).unwrap();
    parameters.apply(Source::Api, &wanted(KEY, "8192"), KEY, NOW).unwrap();
    parameters.withdraw(Source::Api, &key(KEY), NOW).unwrap();
    assert_eq!(fs::read_to_string(file(&folder)).unwrap(), "1024");
    fs::write(file(&folder), "128\n").unwrap();
    assert_eq!(parameters.hold(parameters.deadline().unwrap()).len(), 1);
    assert_eq!(fs::read_to_string(file(&folder)).unwrap(), "1024");
    assert_eq!(parameters.observe().next().unwrap().source, Some(Source::Image));
}

#[test]
fn huge_pages_come_and_go_in_steps_and_a_shortage_is_shown() {
    const PAGES: &str = "vm.nr_hugepages";
    let (mut parameters, folder) = kernel();
    let file = folder.path().join("vm/nr_hugepages");
    fs::create_dir(folder.path().join("vm")).unwrap();
    fs::write(&file, "0\n").unwrap();
    let mut memory = Held::new("0".to_owned());
    memory.values.set(Source::Api, Some("130".to_owned()));
    parameters.write(&key(PAGES), &mut memory).unwrap();
    parameters.keep(&key(PAGES), memory, NOW);
    let shown = || fs::read_to_string(&file).unwrap();
    assert_eq!((shown().as_str(), parameters.deadline()), ("64", Some(NOW)), "at once");
    assert!(parameters.hold(NOW).is_empty());
    assert_eq!(shown(), "128");
    // The kernel finds room for one more only.
    fs::write(&file, "129").unwrap();
    parameters.held.get_mut(&key(PAGES)).unwrap().shown = "129".to_owned();
    assert!(parameters.hold(NOW).is_empty());
    assert_eq!((shown().as_str(), parameters.deadline()), ("129", Some(NOW + INTERVAL)));
    let observed = parameters.observe().next().unwrap();
    assert_eq!(observed.error, "the kernel had room for 129 of 130 pages");
    // The image has none: the pages go in steps too, and nothing is held then.
    parameters.withdraw(Source::Api, &key(PAGES), NOW).unwrap();
    assert_eq!((shown().as_str(), parameters.observe().count()), ("65", 0));
    while parameters.deadline().is_some() {
        assert!(parameters.hold(parameters.deadline().unwrap()).is_empty());
    }
    assert_eq!(shown(), "0");
}

#[test]
fn a_parameter_that_the_kernel_no_longer_has_is_not_tried_without_an_end() {
    let (mut parameters, folder) = kernel();
    parameters.apply(Source::Api, &wanted(KEY, "8192"), KEY, NOW).unwrap();
    fs::remove_file(file(&folder)).unwrap();
    fs::create_dir(file(&folder)).unwrap();
    let due = parameters.deadline().unwrap();
    assert_eq!(parameters.hold(due).len(), 1);
    assert_eq!(parameters.deadline(), Some(due + INTERVAL));
    assert!(parameters.withdraw(Source::Api, &key(KEY), NOW).is_err());
    assert_eq!((parameters.observe().count(), parameters.deadline()), (0, None));
}

#[test]
fn a_parameter_that_is_gone_has_an_error_and_one_line() {
    let (mut parameters, folder) = kernel();
    parameters.apply(Source::Api, &wanted(KEY, "8192"), KEY, NOW).unwrap();
    fs::remove_file(file(&folder)).unwrap();
    let hold = |parameters: &mut KernelParameters| parameters.hold(parameters.next.unwrap());
    let lines = hold(&mut parameters);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let error = |parameters: &KernelParameters| parameters.observe().next().unwrap().error;
    assert_eq!(error(&parameters), lines[0]);
    assert!(hold(&mut parameters).is_empty(), "that is known");
    // The link is back, with the value of any new one or with the same as before.
    for value in ["4096", "8192"] {
        fs::write(file(&folder), value).unwrap();
        hold(&mut parameters);
        assert_eq!(fs::read_to_string(file(&folder)).unwrap(), "8192");
        assert_eq!(error(&parameters), "");
        fs::remove_file(file(&folder)).unwrap();
        assert_eq!(hold(&mut parameters), lines);
    }
}

#[test]
fn the_default_of_links_does_not_change_links_with_values_of_their_own() {
    let (mut parameters, folder) = kernel();
    let conf = folder.path().join("net/ipv6/conf");
    for (link, value) in [("default", "0"), ("eth0", "0"), ("eth1", "2"), ("eth2", "1")] {
        fs::create_dir_all(conf.join(link)).unwrap();
        fs::write(conf.join(link).join("accept_ra"), value).unwrap();
    }
    let links = || {
        let of = |link| fs::read_to_string(conf.join(link).join("accept_ra")).unwrap();
        ["default", "eth0", "eth1", "eth2"].map(of)
    };
    let key = |link: &str| format!("net.ipv6.conf.{link}.accept_ra");
    // Another program has set `eth1`, and a parameter sets `eth2`, to what the default has.
    parameters.apply(Source::Document, &wanted(&key("eth2"), "0"), "*", NOW).unwrap();
    let default = wanted(&key("default"), "1");
    parameters.apply(Source::Api, &default, "*", NOW).unwrap();
    assert_eq!(links(), ["1", "1", "2", "0"]);
    fs::write(conf.join("default/accept_ra"), "0").unwrap();
    let lines = parameters.hold(parameters.deadline().unwrap());
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(links(), ["1", "1", "2", "0"]);
    parameters.withdraw(Source::Api, &default.key, NOW).unwrap();
    assert_eq!(links(), ["0", "0", "2", "0"]);
}

//! Metadata services that answer plain requests.

use crate::support::{Boot, FIRST, Machine, Running, SECOND};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs;
use std::process::{Command, Stdio};

const UUID: &str = "83679162-1378-4288-a2d4-70e13ec132aa";

/// A cloud: its names, the field of the firmware that names it, and an identifier of a machine.
const CLOUDS: [(&str, &str, &str, &str, &str); 4] = [
    ("gce", "GCE", "product_name", "Google Compute Engine", "4567890123456789012"),
    ("azure", "Azure", "chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", UUID),
    ("openstack", "OpenStack", "product_name", "OpenStack Nova", UUID),
    ("hetzner", "Hetzner", "sys_vendor", "Hetzner", "42384504"),
];

fn machine((_, _, field, value, instance): (&str, &str, &str, &str, &str)) -> Machine {
    let machine = Machine::new();
    fs::write(machine.path("dmi/sys_vendor"), "Another\n").unwrap();
    fs::write(machine.path("dmi").join(field), format!("{value}\n")).unwrap();
    fs::write(machine.path("instance-id"), instance).unwrap();
    machine
}

/// Starts the service, which answers the first requests with this status.
fn service(machine: &Machine, name: &str, unavailable: u32, status: u16) -> Running {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cloud.py");
    let mut python = Command::new("python3");
    python.arg(script).arg(machine.port.to_string()).arg(machine.root.path()).arg(name);
    python.args([unavailable.to_string(), status.to_string()]);
    Running::start(python.stdout(Stdio::null()))
}

/// Starts the program with all clouds, whose services are one address.
fn boot(machine: &Machine) -> Boot {
    let clouds: Vec<String> = CLOUDS
        .iter()
        .rev()
        .map(|(name, ..)| format!("{name}=http://127.0.0.1:{}", machine.port))
        .collect();
    let words: Vec<&str> = clouds.iter().flat_map(|cloud| ["--cloud", cloud.as_str()]).collect();
    machine.boot_with(&words)
}

#[test]
fn user_data_of_each_cloud_is_placed_for_its_instance() {
    for cloud in CLOUDS {
        let (name, title, .., instance) = cloud;
        let machine = machine(cloud);
        // Azure's API has base64 only.
        let bytes = if name == "azure" { STANDARD.encode(FIRST) } else { FIRST.to_owned() };
        fs::write(machine.path("user-data"), bytes).unwrap();
        let starting = boot(&machine);
        starting.says("in this order: GCE, Azure, OpenStack, Hetzner");
        starting.says("Connection refused");
        let _service = service(&machine, name, 1, 503);
        starting.says("503");
        starting
            .says(&format!("{title}'s user data of the instance `{instance}` has a node document"));
        starting.says("the node uses it");
        assert_eq!(machine.document().as_deref(), Some(FIRST), "{name}");
        drop(starting);
        fs::write(machine.path("user-data"), SECOND).unwrap();
        boot(&machine).says(&format!("stays: the instance `{instance}` had another document"));
        assert_eq!(machine.document().as_deref(), Some(FIRST), "{name}");
    }
}

#[test]
fn a_cloud_without_user_data_and_another_machine_have_no_document() {
    for cloud in CLOUDS {
        let machine = machine(cloud);
        let _service = service(&machine, cloud.0, 0, 404);
        boot(&machine).says("no source has a document");
        fs::write(machine.path("user-data"), FIRST).unwrap();
        fs::write(machine.path("dmi").join(cloud.2), "QEMU\n").unwrap();
        let boot = boot(&machine);
        boot.says("the firmware names none of GCE, Azure, OpenStack, Hetzner");
        boot.says("no source has a document");
        assert_eq!(machine.document(), None);
    }
}

#[test]
fn a_service_that_knows_nothing_yet_is_asked_again() {
    for cloud in CLOUDS {
        let machine = machine(cloud);
        let bytes = if cloud.0 == "azure" { STANDARD.encode(FIRST) } else { FIRST.to_owned() };
        fs::write(machine.path("user-data"), bytes).unwrap();
        let _service = service(&machine, cloud.0, 1, 404);
        let boot = boot(&machine);
        boot.says("there is nothing");
        boot.says("the node uses it");
        assert_eq!(machine.document().as_deref(), Some(FIRST), "{}", cloud.0);
    }
}

#[test]
fn an_answer_without_googles_header_does_not_count() {
    let machine = machine(CLOUDS[0]);
    fs::write(machine.path("user-data"), FIRST).unwrap();
    // EC2's service knows no such path, and sends no such header.
    let _service = machine.service(0);
    boot(&machine).says("the answer has no `Metadata-Flavor: Google`");
    assert_eq!(machine.document(), None);
}

//! The real program, with metadata services on the loopback, a folder in place of QEMU's, and
//! volumes that the tools of clouds have made.

mod clouds;
mod support;
mod volumes;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs;
use support::{FIRST, Machine, SECOND};

#[test]
fn user_data_is_placed_once_the_service_answers_and_the_kubelet_is_restarted() {
    let machine = Machine::new();
    fs::write(machine.path("user-data"), STANDARD.encode(FIRST)).unwrap();
    let boot = machine.boot();
    boot.says("Connection refused");
    let _service = machine.service(2);
    boot.says("503");
    boot.says("EC2's user data of the instance `i-1` has a node document");
    boot.says("placed as /etc/osbuild/node.toml");
    boot.says("the node uses it");
    let requests: Vec<String> = machine.requests.try_iter().collect();
    assert!(requests.contains(&"restart kubelet".to_owned()), "{requests:?}");
    assert!(
        requests.contains(&"report placed as /etc/osbuild/node.toml".to_owned()),
        "{requests:?}"
    );
    assert_eq!(machine.document().as_deref(), Some(FIRST));
}

#[test]
fn later_user_data_counts_only_for_another_instance() {
    let machine = Machine::new();
    let _service = machine.service(0);
    for (instance, text, line, document) in [
        ("i-1", FIRST, "the node uses it", FIRST),
        ("i-1", FIRST, "is that of the instance `i-1`", FIRST),
        ("i-1", SECOND, "stays: the instance `i-1` had another document at first", FIRST),
        ("i-2", SECOND, "the node uses it", SECOND),
    ] {
        fs::write(machine.path("instance-id"), instance).unwrap();
        fs::write(machine.path("user-data"), text).unwrap();
        machine.boot().says(line);
        assert_eq!(machine.document().as_deref(), Some(document), "{instance} {text}");
    }
    assert_eq!(machine.restarts(), 2, "one restart for each new document");
}

#[test]
fn a_bad_document_is_named_and_changes_nothing() {
    let machine = Machine::new();
    let _service = machine.service(0);
    fs::write(machine.path("user-data"), FIRST).unwrap();
    machine.boot().says("the node uses it");
    fs::write(machine.path("instance-id"), "i-2").unwrap();
    fs::write(machine.path("user-data"), "\nhostnam = \"a\"\n").unwrap();
    machine
        .boot()
        .says("refused: EC2's user data of the instance `i-2`: line 2: unknown field `hostnam`");
    fs::write(machine.path("user-data"), vec![b'#'; 17 << 10]).unwrap();
    machine.boot().says("error: ");
    assert_eq!(machine.document().as_deref(), Some(FIRST));
}

#[test]
fn an_instance_without_user_data_and_another_machine_have_no_document() {
    let machine = Machine::new();
    let _service = machine.service(0);
    machine.boot().says("no source has a document");
    fs::write(machine.path("user-data"), FIRST).unwrap();
    fs::write(machine.path("dmi/sys_vendor"), "QEMU\n").unwrap();
    let boot = machine.boot();
    boot.says("this machine is no EC2 instance");
    boot.says("no source has a document");
    assert_eq!(machine.document(), None);
}

#[test]
fn the_document_of_qemu_comes_before_user_data() {
    let machine = Machine::new();
    fs::write(machine.path("user-data"), SECOND).unwrap();
    let folder = machine.path("fw_cfg/by_name/opt/io.osbuild/node.toml");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("raw"), FIRST).unwrap();
    machine.boot().says("the node uses it");
    assert_eq!(machine.document().as_deref(), Some(FIRST));
}

//! Missing tools and capabilities of the machine.

use crate::scratch::{RECIPE, Ran, Scratch};
use crate::terminal;
use crate::workshop::open;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// Hides all of the machine's programs except these.
fn only(scratch: &mut Scratch, programs: &[&str]) {
    let folder = scratch.path("programs");
    fs::create_dir(&folder).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for name in programs {
        let found = std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|file| file.is_file());
        symlink(found.unwrap_or_else(|| panic!("`{name}` is not installed")), folder.join(name))
            .unwrap();
    }
    scratch.set("PATH", folder.display().to_string());
}

#[track_caller]
fn assert_fails(ran: &Ran, expected: &str) {
    assert_eq!((ran.code, ran.stderr.as_str(), ran.stdout.as_str()), (Some(1), expected, ""));
}

#[test]
fn a_missing_tool_is_named_with_its_purpose_and_package() {
    let mut scratch = open();
    only(&mut scratch, &["apt-get"]);
    let expected = "error: `bwrap` is not installed: it runs each step of the build in a \
                    sandbox\nhint: apt-get install bubblewrap\n";
    assert_fails(&scratch.osbuild(&["build", RECIPE, "--offline"]), expected);
}

#[test]
fn ctrl_c_at_the_question_about_missing_tools_installs_nothing() {
    let mut scratch = open();
    only(&mut scratch, &["script"]);
    let installed = scratch.path("installed");
    for name in ["apt-get", "sudo"] {
        let program = scratch.path("programs").join(name);
        fs::write(&program, format!("#!/bin/sh\n: >{}\n", installed.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = terminal::command(&scratch, &format!("build {RECIPE}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = Vec::new();
    while !shown.ends_with(b"[Y/n] ") {
        let mut letter = [0];
        screen.read_exact(&mut letter).unwrap();
        shown.extend(letter);
    }
    keys.write_all(b"\x03").unwrap();
    sleep(Duration::from_millis(500));
    // The program has ended, unless it still waits for an answer.
    let _ = keys.write_all(b"\n");
    screen.read_to_end(&mut shown).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{}", String::from_utf8_lossy(&shown));
    assert!(!installed.exists());
}

#[test]
fn exported_sources_need_no_clients() {
    let mut scratch = open();
    only(&mut scratch, &["bwrap"]);
    let ran = scratch.osbuild(&["build", RECIPE, "--offline"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn missing_qemu_is_named_before_anything_is_built() {
    let mut scratch = open();
    only(&mut scratch, &["bwrap"]);
    let [firmware, _] = ["CODE.fd", "VARS.fd"].map(|name| {
        let path = scratch.path(name);
        fs::write(&path, "").unwrap();
        path.display().to_string()
    });
    let ran = scratch.osbuild(&["run", RECIPE, "--offline", "--firmware", &firmware]);
    let expected = "error: `qemu-system-aarch64` is not installed: it emulates the machine of the \
    node\nhint: apt-get install qemu-system-arm\nerror: `qemu-img` is not \
                    installed: it makes a temporary disk over the image\nhint: apt-get \
                    install qemu-utils\n";
    assert_fails(&ran, expected);
}

#[test]
fn firmware_that_does_not_exist_is_named_before_anything_is_built() {
    let mut scratch = open();
    // Even if QEMU is missing too.
    only(&mut scratch, &["bwrap"]);
    let ran = scratch.osbuild(&["run", RECIPE, "--offline", "--firmware", "none.fd"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(2), "error: the firmware `none.fd` does not exist\n")
    );
}

#[test]
fn missing_firmware_is_named_before_anything_is_built() {
    let mut scratch = open();
    // QEMU is not started, so any program can take its place.
    let programs = scratch.path("programs");
    fs::create_dir(&programs).unwrap();
    symlink("/bin/true", programs.join("qemu-system-aarch64")).unwrap();
    scratch.set("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()));
    let mut hidden = vec!["bwrap", "--dev-bind", "/", "/"];
    for folder in ["/usr/share/AAVMF", "/usr/share/edk2"] {
        if fs::exists(folder).unwrap() {
            hidden.extend(["--tmpfs", folder]);
        }
    }
    let ran = Ran::of(&mut scratch.command(&hidden, &["run", RECIPE, "--offline"]));
    let expected = "error: `UEFI firmware for arm64` is not installed: it starts the node from \
                    its disk\nhint: apt-get install qemu-efi-aarch64\n";
    assert_fails(&ran, expected);
}

#[test]
fn a_go_that_is_too_old_is_an_error_before_any_fetch() {
    let mut scratch = open();
    let programs = scratch.path("programs");
    fs::create_dir(&programs).unwrap();
    fs::write(programs.join("go"), "#!/bin/sh\necho go version go1.19.8 linux/amd64\n").unwrap();
    fs::set_permissions(programs.join("go"), fs::Permissions::from_mode(0o755)).unwrap();
    scratch.set("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()));
    let expected = "error: `go` is older than 1.21, or does not run: it fetches Go modules and \
                    the Go toolchain that the lock names\n  caused by: go version go1.19.8 \
                    linux/amd64\nhint: install Go (https://go.dev/dl)\n";
    assert_fails(&scratch.osbuild(&["build", RECIPE]), expected);
}

#[test]
fn a_system_that_forbids_the_sandbox_is_an_error_with_the_fix() {
    let scratch = open();
    // A user namespace with a limit of zero nested ones is like a system without user namespaces.
    let limited = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"";
    let before = ["unshare", "--user", "--map-root-user", "sh", "-c", limited, "sh"];
    for words in [&["build", RECIPE, "--offline"][..], &["doctor"]] {
        let ran = Ran::of(&mut scratch.command(&before, words));
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.code, Some(1), "{text}");
        for part in [
            "`bwrap` cannot make a sandbox: the system allows no user namespace\n",
            "  caused by: bwrap: ",
            "hint: sudo sysctl -w user.max_user_namespaces=15000\n",
        ] {
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
    }
}

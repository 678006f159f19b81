//! The calls that our `mount` and `umount` refuse.

use crate::namespace::{Programs, private};
use mount::guard;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

#[test]
fn outside_a_node_nothing_is_mounted_by_default() {
    let folder = tempfile::tempdir().unwrap();
    private(folder.path(), || {
        for (program, words) in [
            (env!("CARGO_BIN_EXE_mount"), vec!["-t", "tmpfs", "tmpfs"]),
            (env!("CARGO_BIN_EXE_umount"), vec![]),
        ] {
            for value in ["", "1"] {
                let mut command = Command::new(program);
                let output = command
                    .args(&words)
                    .arg(folder.path())
                    .env_clear()
                    .env(guard::KEY, value)
                    .output()
                    .unwrap();
                assert_eq!(output.status.code(), Some(1));
                assert!(
                    stderr(&output).contains("this is not an osbuild node"),
                    "{}",
                    stderr(&output)
                );
            }
        }
        let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        assert_eq!(mounts.matches(folder.path().to_str().unwrap()).count(), 1, "{mounts}");
    });
}

#[test]
fn outside_a_node_nothing_is_attached_by_default() {
    let image = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mount"));
    let output = command.arg0("losetup").arg("-f").arg(image.path()).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("losetup: this is not an osbuild node"), "{output:?}");
}

#[test]
fn only_root_may_mount() {
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--clear-groups",
        env!("CARGO_BIN_EXE_mount"),
        "-t",
        "tmpfs",
        "tmpfs",
        "/tmp",
    ]);
    let output = command.env(guard::KEY, guard::VALUE).output().unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(1), "mount: must be superuser\n")
    );
}

#[test]
fn an_unsupported_argument_is_refused_with_the_usage() {
    let lines = [
        (
            "mount --bind /a /b",
            "mount: `--bind` is not supported; usage: mount [--no-canonicalize] [-t TYPE] \
             [-o OPTION,…] SOURCE TARGET\n",
        ),
        (
            "mount -o loop /a /b",
            "mount: option `loop` is not supported; usage: mount [--no-canonicalize] [-t TYPE] \
             [-o OPTION,…] SOURCE TARGET\n",
        ),
        (
            "losetup --show /a",
            "losetup: `--show` is not supported; usage: losetup -f PATH, or losetup -d \
             /dev/loopN\n",
        ),
        (
            "losetup -d /dev/null",
            "losetup: `/dev/null` does not name a loop device; usage: losetup -f PATH, or losetup \
             -d /dev/loopN\n",
        ),
        ("umount -l /a", "umount: `-l` is not supported; usage: umount [-f] TARGET\n"),
    ];
    for (line, text) in lines {
        let output = Programs::Ours.run(line);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), text));
    }
}

/// In a user namespace the flags of outer mounts are locked, so the second call, which would clear
/// them, fails.
#[test]
fn a_bind_mount_whose_flags_cannot_be_set_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let output = private(folder.path(), || {
        std::fs::create_dir(folder.path().join("target")).unwrap();
        let script = r#""$0" -o bind,ro "$1" "$1/target"; echo "$?"; cat /proc/self/mountinfo"#;
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            env!("CARGO_BIN_EXE_mount"),
        ]);
        command.arg(folder.path()).env(guard::KEY, guard::VALUE).output().unwrap()
    });
    assert!(
        stderr(&output)
            .contains("could not apply flags, nothing stays mounted: Operation not permitted"),
        "{output:?}"
    );
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.starts_with("32\n") && !stdout.contains("/target "), "{stdout}");
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

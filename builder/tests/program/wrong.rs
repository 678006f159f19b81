//! Errors of builds and full disks as the user meets them, each with its exit code.

use crate::builds::done;
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::{self, open, open_with, products};
use osbuild::engine::key::Key;
use osbuild::engine::store::Store;
use osbuild::plan::Lock;
use std::fs;

/// Asserts that the build of this project fails with this code and message.
#[track_caller]
fn refused(scratch: &Scratch, code: i32, expected: &str) {
    assert_output(&scratch.osbuild(&["build", RECIPE]), code, expected);
}

#[track_caller]
fn assert_output(ran: &Ran, code: i32, expected: &str) {
    assert_eq!(ran.code, Some(code), "{}", ran.stderr);
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_wrong_recipe_exits_2_and_a_missing_or_stale_lock_3() {
    let scratch = open();
    scratch.edit("recipes/base.toml", "version = \"1.4.3\"", "version = \"1.4.4\"");
    let expected = "error: `recipes/small.lock` is out of date: it does not match the recipe\n  \
                    caused by: runc: `v1.4.4` is required, `v1.4.3` is locked\n\
                    hint: run `cargo osbuild lock small`\n";
    refused(&scratch, 3, expected);
    fs::remove_file(scratch.project().join(Lock::path(RECIPE))).unwrap();
    refused(&scratch, 3, "error: `recipes/small.lock` is missing\n");
    scratch.edit("recipes/small.toml", "[kernel.options]", "[kernal.options]");
    refused(&scratch, 2, "error: recipes/small.toml:4: unknown key `kernal` in this file\n");
}

#[test]
fn a_script_among_the_binaries_is_refused() {
    let scratch = open_with(
        "program() { case $1 in out/runc) echo '#!/bin/sh' >$1 ;; *) sound $1 ;; esac; }\n",
    );
    refused(
        &scratch,
        1,
        "error: `runc` cannot be installed on the node\n  caused by: it is a script\nhint: ",
    );
}

#[test]
fn a_dynamic_program_among_the_binaries_is_refused() {
    let scratch = open_with(
        "program() { case $1 in out/mount) cp /usr/lib/dynamic $1 ;; *) sound $1 ;; esac; }\n",
    );
    let expected = "error: `mount` cannot be installed on the node\n  \
                    caused by: it names an interpreter, so it is dynamically linked\nhint: ";
    refused(&scratch, 1, expected);
}

#[test]
fn a_program_that_older_rules_accepted_is_checked_again() {
    let scratch = open_with(
        "program() { case $1 in out/mount) cp /usr/lib/dynamic $1 ;; *) sound $1 ;; esac; }\n",
    );
    refused(&scratch, 1, "error: `mount` cannot be installed on the node");
    // The record of an osbuild without the rule against dynamic programs: that the program fits the
    // architecture.
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    let stored = fs::read_dir(scratch.path("cache/osbuild/cas/sha256"))
        .unwrap()
        .flat_map(|part| fs::read_dir(part.unwrap().path()).unwrap());
    for blob in stored.map(|blob| blob.unwrap().file_name().into_string().unwrap()) {
        let program = store.find(&blob).unwrap();
        let key = Key::new("checked-binary").field("architecture", "arm64");
        store.remember_memo(&key.field("program", program), &program).unwrap();
    }
    drop(store);
    refused(&scratch, 1, "error: `mount` cannot be installed on the node");
}

#[test]
fn an_unknown_kernel_option_is_named_with_its_line_in_the_recipe() {
    let scratch = open_with(
        "configure() { grep -v EROFS asked.config >kernel.config; echo 'config EROFS_FS' \
         >Kconfig; : >objects; }\n",
    );
    scratch.edit("recipes/small.toml", "EROFS_FS = true", "EROFS_FSS = true");
    let expected = "error: recipes/small.toml:5: kernel option `EROFS_FSS` is `n` in the \
                    configuration, not `y`\n  caused by: no Kconfig file of this kernel declares \
                    it\nhint: did you mean `EROFS_FS`?\n";
    refused(&scratch, 2, expected);
}

#[test]
fn a_step_killed_for_memory_is_an_error_with_a_hint() {
    let scratch = open_with("kernel() { echo linking; kill -9 $$; }\n");
    let ran = scratch.osbuild(&["build", RECIPE]);
    assert_output(
        &ran,
        1,
        "error: `kernel arm64` was killed, most likely because the memory ran out\n  | \
         linking\n  the whole log: ",
    );
    assert!(ran.stderr.contains("\nhint: give the machine more memory, or "), "{}", ran.stderr);
}

#[test]
fn a_failed_step_shows_the_end_and_the_path_of_its_log() {
    let scratch = open_with("kernel() { echo the reason; exit 3; }\n");
    let log = scratch.project().join("out/small/logs/kernel-arm64.log");
    let expected = format!(
        "error: `kernel arm64` failed\n  caused by: it ended with exit status 3\n  | the \
         reason\n  the whole log: {}\n",
        log.display()
    );
    refused(&scratch, 1, &expected);
    assert_eq!(fs::read_to_string(log).unwrap(), "the reason\n");
}

#[test]
fn a_uki_too_large_for_its_slot_is_an_error_before_any_write() {
    let scratch = open_with(
        "kernel() { cp /usr/lib/image.efi kernel; truncate -s 18M kernel; echo 6.12.1 >release; \
         }\n",
    );
    let out = scratch.project().join("out/small");
    let expected = "error: the UKI does not fit its slot: it has 19 MiB, the slot has 16\n  \
                caused by: its largest parts: the kernel (18.9 MB)\n\
                hint: set `slot-size-mib = 32` in `boards/bench.toml`\n";
    refused(&scratch, 1, expected);
    assert!(
        ["image.raw", "node.efi", "initramfs.cpio"].iter().all(|name| !out.join(name).exists())
    );
    scratch.edit("boards/bench.toml", "slot-size-mib = 16", "slot-size-mib = 32");
    done(&scratch.osbuild(&["build", RECIPE]));
}

#[test]
fn a_disk_too_small_for_the_image_is_refused_before_the_build() {
    let scratch = open();
    let ran = scratch.osbuild(&["run", RECIPE, "--disk-size", "227", "--offline"]);
    let expected = "error: a disk of 227 MiB is too small for the image of `small`\nhint: use at \
                    least `--disk-size 228`\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), expected));
    done(&scratch.osbuild(&["build", RECIPE]));
    assert_eq!(
        fs::metadata(scratch.project().join("out/small/image.raw")).unwrap().len(),
        228 << 20
    );
}

#[test]
fn files_that_a_node_does_not_store_are_refused_before_the_build() {
    let scratch = open();
    let files = scratch.path("files");
    fs::create_dir_all(files.join("etc/kubernetes")).unwrap();
    fs::write(files.join("etc/passwd"), "").unwrap();
    fs::write(files.join("etc/kubernetes/kubelet.conf"), "").unwrap();
    std::os::unix::fs::symlink("kubeconfig", files.join("etc/kubernetes/link")).unwrap();
    let dir = files.display().to_string();
    let ran = scratch.osbuild(&["run", RECIPE, "--files", &dir, "--offline"]);
    let expected = format!(
        "error: `{dir}/etc/kubernetes/link` is a symbolic link: only files and folders can be \
         placed\nerror: `{dir}/etc/passwd` cannot be placed: the node does not store \
         `/etc/passwd`\nhint: files go below `/var/log`, `/var/lib/containerd`, \
         `/var/lib/kubelet`, `/var/lib/cni`, `/var/lib/updater`, `/var/lib/osd`, \
         `/etc/osbuild`, `/etc/kubernetes`, `/etc/containerd/certs.d`, `/etc/cni/net.d`, \
         `/opt/cni/bin` and `/usr/libexec/kubernetes/kubelet-plugins/volume/exec`, as in \
         `{dir}/etc/kubernetes/kubelet.conf.d/50-own.conf`\n"
    );
    assert_eq!((ran.code, ran.stderr), (Some(2), expected));
}

#[test]
fn a_node_without_a_name_on_a_shared_network_is_refused_before_the_build() {
    let scratch = open();
    let ran = scratch.osbuild(&["run", RECIPE, "--network", "lab", "--offline"]);
    let expected = "error: a node on the network `lab`, which others share, needs a name\nhint: \
                    name each node: `--name a`, `--name b`\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), expected));
}

#[test]
fn firmware_is_not_downloaded_offline() {
    let scratch = open();
    // As on a machine without the distribution's firmware, where it would be downloaded.
    let hide = "for folder in /usr/share/OVMF /usr/share/AAVMF /usr/share/edk2; do \
                test ! -d $folder || mount -t tmpfs none $folder; done; exec \"$@\"";
    let mut run = scratch.command(
        &["unshare", "--mount", "sh", "-ec", hide, "sh"],
        &["run", RECIPE, "--offline", "--download-firmware"],
    );
    let ran = Ran::from(run.output().unwrap());
    let expected = "error: cannot download firmware with `--offline`\nhint: omit \
                    `--download-firmware`, or run once without `--offline`\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), expected));
    assert!(!scratch.project().join("out/small/image.raw").exists());
}

#[test]
fn a_damaged_result_in_the_store_is_made_again() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE]));
    let before = products(&scratch);
    let stored =
        Store::open(scratch.path("cache/osbuild")).unwrap().path(&workshop::kernel()).unwrap();
    let whole = fs::read(&stored).unwrap();
    for damaged in [[b"X", &whole[1..]].concat(), whole[1..].to_vec()] {
        fs::remove_file(&stored).unwrap();
        fs::write(&stored, damaged).unwrap();
        fs::remove_dir_all(scratch.project().join("out")).unwrap();
        let ran = scratch.osbuild(&["build", RECIPE]);
        done(&ran);
        assert!(
            ran.stderr.lines().any(|line| line.starts_with("kernel arm64 ")),
            "the step did not run again: {}",
            ran.stderr
        );
        assert_eq!(products(&scratch), before);
        assert!(fs::read(&stored).unwrap() == whole);
    }
}

#[test]
fn a_damaged_source_in_the_store_is_fetched_again() {
    let scratch = open();
    let folder = scratch.path("exported").display().to_string();
    done(&scratch.osbuild(&["sources", "export", RECIPE, &folder]));
    let digest = scratch.lock().stub.unwrap().sha256;
    let stored = scratch.path("cache/osbuild/cas/sha256").join(&digest[..2]).join(&digest);
    let mut bytes = fs::read(&stored).unwrap();
    bytes[100] ^= 1;
    fs::remove_file(&stored).unwrap();
    fs::write(&stored, bytes).unwrap();
    let ran = scratch.osbuild(&["build", RECIPE, "--sources", &folder]);
    done(&ran);
    assert!(ran.stderr.contains("warning: the stored copy of "), "{}", ran.stderr);
}

#[test]
fn a_read_only_out_is_an_error_before_any_work() {
    let scratch = open();
    let out = scratch.project().join("out");
    fs::create_dir(&out).unwrap();
    let shown = out.display().to_string();
    let read_only = ["bwrap", "--dev-bind", "/", "/", "--remount-ro", &shown];
    let read_only = [&read_only[..4], &["--ro-bind", &shown, &shown]].concat();
    for made in [false, true] {
        if made {
            fs::create_dir_all(out.join("small/logs")).unwrap();
        }
        let ran = Ran::of(&mut scratch.command(&read_only, &["build", RECIPE]));
        assert_output(
            &ran,
            1,
            &format!("error: cannot write to `{}`\n", out.join(RECIPE).display()),
        );
        assert!(
            ran.stderr.contains("Read-only file system") && ran.stderr.contains("\nhint: "),
            "{}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("kernel"), "{}", ran.stderr);
    }
}

/// A build with `folder` on a disk of `mib` MiB, between two lines of shell.
fn on_a_small_disk(
    scratch: &Scratch,
    folder: &str,
    mib: u64,
    (before, after): (&str, &str),
) -> Ran {
    let size = (mib << 20).to_string();
    let words = ["bwrap", "--dev-bind", "/", "/", "--size", &size, "--tmpfs", folder];
    let script = format!("{before}; \"$@\"; code=$?; {after}; exit $code");
    Ran::of(&mut scratch.command(
        &[&words[..], &["sh", "-c", &script, "sh"]].concat(),
        &["build", RECIPE, "--jobs", "1"],
    ))
}

#[test]
fn a_disk_that_fills_during_a_step_is_named_and_loses_nothing() {
    let scratch = open_with(
        "kernel() { dd if=/dev/zero of=big bs=1M count=64; cp /usr/lib/image.efi kernel; echo 1 \
         >release; }\n",
    );
    let (cache, filled) = (scratch.path("cache"), scratch.path("filled"));
    fs::rename(&cache, &filled).unwrap();
    fs::create_dir(&cache).unwrap();
    let fill = format!("cp -r {}/. {}", filled.display(), cache.display());
    let ran = on_a_small_disk(&scratch, &cache.display().to_string(), 40, (&fill, "true"));
    assert_output(
        &ran,
        1,
        &format!("error: no space left on the disk of `{}/", cache.join("osbuild").display()),
    );
    assert!(
        ran.stderr.contains("caused by: `kernel arm64` failed")
            && ran.stderr.contains("cargo osbuild clean --all"),
        "{}",
        ran.stderr
    );
    fs::remove_dir(&cache).unwrap();
    fs::rename(&filled, &cache).unwrap();
    done(&scratch.osbuild(&["build", RECIPE]));
}

#[test]
fn a_disk_that_fills_during_the_image_leaves_no_partial_image() {
    let noise = "dd if=/dev/urandom bs=1M count=4";
    let scratch = open_with(&format!(
        "kernel() {{ {{ cat /usr/lib/image.efi; {noise}; }} >kernel; echo 1 >release; }}\n"
    ));
    let out = scratch.project().join("out");
    fs::create_dir(&out).unwrap();
    let list = format!("ls {}/small >&2", out.display());
    let ran = on_a_small_disk(&scratch, &out.display().to_string(), 6, ("true", &list));
    assert_output(
        &ran,
        1,
        &format!(
            "error: no space left on the disk of `{}/small/image.raw`\n\
             hint: free some space there, ",
            out.display()
        ),
    );
    assert!(
        ran.stderr.ends_with("\ninitramfs.cpio\nlogs\nnode.efi\nplan.toml\nto-sign\n"),
        "{}",
        ran.stderr
    );
}

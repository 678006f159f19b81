//! The images of the suite's pods, under upstream's names and tags
//! (`test/utils/image/manifest.go`).

use crate::image::{self, CONFORMANCE, LAB};
use crate::site::Site;
use crate::vm::cluster::control_plane::BIN;
use crate::vm::cluster::images::{self, NamedImage};
use crate::vm::cluster::modules;
use osbuild::engine::store::Store;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::Architecture;
use osbuild::produce::podimage::{Content, Entry, Files, Image, from_content};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// The folder of the programs of [`CONFORMANCE`] in the checkout.
pub const SUITE_BIN: &str = "out/conformance/bin";

/// The user of the image `nonroot`, and the mode of a program that runs as its owner.
const NON_ROOT: u32 = 1234;
const SET_USER: u32 = 0o4755;

/// busybox, which upstream's image has in a newer version.
const BUSYBOX: &str = "/bin/busybox";

/// The files in the image of agnhost from this folder of its module.
const PORTER: &str = "test/images/agnhost/porter/";
const CERTIFICATE: [&str; 2] = ["localhost.crt", "localhost.key"];

/// The tag of the image from which some cases change to the newest.
const PREVIOUS_AGNHOST: &str = "2.55";

/// The tag of nginx. The one case with it runs only a shell.
const NGINX: &str = "1.14-4";

/// The registry in the image of agnhost, and the tag of the one image in it
/// (`test/images/agnhost/fakeregistryserver/images.txt`).
const INNER_REGISTRY: &str = "/var/registry/pause";
const INNER_TAG: &str = "testing";

/// Programs that Debian's packages make when they are installed, and their files.
const ALTERNATIVES: [(&str, &str); 2] = [("/bin/sh", "bin/bash"), ("/bin/nc", "bin/nc.openbsd")];

/// The program of the image `nonewprivs`.
const PRIVILEGES: &str = "/usr/local/bin/nnp";

/// A container that does nothing, and ends as soon as it is asked to.
const PAUSE: [&str; 3] =
    ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"];

/// The shell of all images, with its libraries: busybox' own drops variables of the environment
/// whose names it does not accept, such as `data-1`.
const SHELL: &str = "/bin/sh";
const LIBRARIES: [&str; 3] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libtinfo.so.6",
];

/// Makes the images. Their blobs are in `store`.
pub fn all(site: &Site, store: &Store) -> Result<Vec<NamedImage>> {
    let nonewprivs = images::program(site, SUITE_BIN, "nonewprivs")?;
    let debian = images::debian_files(store, &image::lock(site, CONFORMANCE)?, &ALTERNATIVES)?;
    let tools = tools(site, &debian)?;
    let make = |name: &'static str, tag: &str, content: &Content<'_>| -> Result<NamedImage> {
        let image = from_content(store, name, content, Architecture::Amd64)?;
        Ok(NamedImage { name, tag: tag.to_owned(), image })
    };
    let pause = Content { entry_point: PAUSE.map(str::to_owned).into(), ..tools.clone() };
    let pause = make("pause", "3.10.1", &pause)?;
    let agnhost = agnhost_files(site, store, debian.clone(), &pause.image)?;
    let agnhost = agnhost_content(&agnhost, &tools);
    let mut privileges = Content { arguments: vec![PRIVILEGES.to_owned()], ..tools.clone() };
    let program = Entry::File { bytes: &nonewprivs, mode: SET_USER };
    privileges.entries.insert(PRIVILEGES.to_owned(), program);
    let non_root = Content { user: Some(NON_ROOT), ..tools.clone() };
    Ok(vec![
        pause,
        make("e2e-test-images/agnhost", images::AGNHOST, &agnhost)?,
        make("e2e-test-images/agnhost", PREVIOUS_AGNHOST, &agnhost)?,
        make("e2e-test-images/nginx", NGINX, &tools)?,
        make("e2e-test-images/busybox", "1.37.0-1", &tools)?,
        make("e2e-test-images/nonroot", "1.4", &non_root)?,
        make("e2e-test-images/nonewprivs", "1.3", &privileges)?,
    ])
}

/// The files of the image of agnhost, all of which everyone may read and execute.
fn agnhost_files(site: &Site, store: &Store, mut files: Files, pause: &Image) -> Result<Files> {
    files.insert("/agnhost".to_owned(), images::program(site, BIN, "agnhost")?);
    let porter = modules::files(site, &image::lock(site, LAB)?, "kubernetes", PORTER)?;
    for name in CERTIFICATE {
        let missing = || Error::build(format!("the module of agnhost has no `{PORTER}{name}`"));
        let text = porter.get(name).ok_or_else(missing)?;
        files.insert(format!("/{name}"), text.clone().into_bytes());
    }
    for blob in &pause.blobs {
        let (bytes, digest) = (store.read(blob)?, format!("sha256:{}", blob.hex()));
        let is_manifest = digest == pause.manifest.digest;
        let folder = if is_manifest { "manifests" } else { "blobs" };
        files.insert(format!("{INNER_REGISTRY}/{folder}/{digest}"), bytes);
    }
    let tag = format!("{INNER_REGISTRY}/manifests/{INNER_TAG}");
    files.insert(tag, pause.manifest.digest.clone().into_bytes());
    Ok(files)
}

/// These files over those of `tools`: upstream's image has busybox, too.
fn agnhost_content<'f>(files: &'f Files, tools: &Content<'f>) -> Content<'f> {
    let commands: BTreeSet<&str> = files.keys().map(|path| name_in(path)).collect();
    let mut entries = tools.entries.clone();
    // busybox' own may come first in `PATH`.
    entries.retain(|path, _| !commands.contains(name_in(path)));
    entries.extend(files.iter().map(|(path, bytes)| (path.clone(), Entry::program(bytes))));
    entries.insert("/agnhost-2".to_owned(), Entry::Link("agnhost".to_owned()));
    Content {
        entries,
        entry_point: vec!["/agnhost".to_owned()],
        arguments: vec!["pause".to_owned()],
        user: None,
    }
}

/// busybox with a link for each of its commands, and [`SHELL`].
fn tools<'f>(site: &Site, debian: &'f Files) -> Result<Content<'f>> {
    let missing = |path: &str| Error::build(format!("no locked package has `{path}`"));
    let file = |path: &str| debian.get(path).ok_or_else(|| missing(path));
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let program = folder.path().join("busybox");
    fs::write(&program, file(BUSYBOX)?)
        .and_then(|()| fs::set_permissions(&program, PermissionsExt::from_mode(0o755)))
        .or_build(|| "cannot write `busybox`".to_owned())?;
    let commands = site.finish("busybox", Command::new(&program).arg("--list-full"))?;
    let mut content = Content::default();
    for path in commands.output.lines() {
        // Upstream's image has all commands in /bin.
        for path in [format!("/{path}"), format!("/bin/{}", name_in(path))] {
            content.entries.insert(path, Entry::Link(BUSYBOX.to_owned()));
        }
    }
    for path in [&LIBRARIES[..], &[BUSYBOX, SHELL]].concat() {
        content.entries.insert(path.to_owned(), Entry::program(file(path)?));
    }
    Ok(content)
}

fn name_in(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

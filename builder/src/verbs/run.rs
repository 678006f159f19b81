//! `osbuild run`

use super::{Session, image, node};
use crate::cli;
use crate::engine::executor::Rebuild;
use crate::error::{Error, Result};
use crate::host;
use crate::plan::{Locked, Plan, Qemu, Signing};
use crate::produce::out::{Built, Out};
use crate::report::Report;
use crate::ship::cluster::{
    ClusterFiles, Endpoint, KUBEADM_ON_DATA, NewCluster, Nodes, PORT, control_plane,
};
use crate::ship::vm::files::NodeFiles;
use crate::ship::vm::machine::{Accelerator, Download, Firmware, Forward, SecureBoot};
use crate::ship::vm::run::{RunOptions, Until, nameless};
use osbuild_abi::paths::NODE_DOCUMENT;
use serde_json::json;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// `osbuild run`
pub fn run(session: &Session, flags: &cli::Run) -> Result<()> {
    session.check_set(&[&flags.recipe])?;
    let (plan, signing) = session.locked_for(&flags.recipe, &flags.signing)?;
    let qemu = machine(&plan, flags)?;
    check_disk_size(&plan, flags)?;
    check_name(flags)?;
    check_download(session, &plan, signing.as_ref(), flags)?;
    let files = given_files(&plan, flags, session.report)?;
    let out = Out::open(session.root(), &plan.recipe)?;
    let own = OwnCluster::of(session, &plan, flags, &files, &out)?;
    let files = match &own {
        Some(own) => own.files(&plan)?.and(files),
        None => files,
    };
    flags.firmware.as_deref().map(Firmware::named).transpose()?;
    let wants_firmware = flags.firmware.is_none() && !flags.download_firmware;
    let from = session.from(flags.sources.clone())?;
    let tools = host::for_run(plan.architecture, wants_firmware, !files.files.is_empty());
    session.need(&[image::tools(&from), tools].concat())?;
    // Builds need not wait for the end of the machine.
    let Built { image, .. } =
        image::signed(session, &plan, signing.as_ref(), from, Rebuild::Nothing)?;
    let store = session.store()?;
    let until = if flags.until == Some(cli::Until::Ready) { Until::Ready } else { Until::PowerOff };
    let options = RunOptions {
        image,
        architecture: plan.architecture,
        qemu,
        sector_size: plan.board.sector_size,
        firmware: flags.firmware.clone(),
        download: if flags.download_firmware {
            Download::Into(store.state("firmware")?)
        } else {
            Download::Refused
        },
        disk_size_mib: flags.disk_size,
        keep: flags.keep.then(|| out.path(&named("disk", "raw", flags))),
        record: None,
        forwards: own.as_ref().map_or_else(|| flags.forward.clone(), |own| own.forwards.clone()),
        files,
        network: flags.network.clone(),
        name: flags.name.clone(),
        hostname: flags.hostname.clone(),
        watchdog: plan.board.watchdog_s > 0,
        arguments: Vec::new(),
        announcement: own.map(|own| announced(own.kubeconfig(), session.common.json)),
        until,
        secure_boot: secure_boot(session, signing.as_ref(), flags)?,
        timeout: (until == Until::Ready).then(|| Duration::from_secs(flags.timeout)),
        show_console: !session.common.quiet,
        log: out.logs().join(named("console", "log", flags)),
        cache: store.state("run")?,
    };
    let boot = crate::ship::vm::run::run(session.report, &options)?;
    if session.common.json {
        session.report.data(boot.json().to_string());
    }
    Ok(())
}

/// The text for stdout once the node has joined: the path of its kubeconfig.
fn announced(kubeconfig: String, is_json: bool) -> String {
    if is_json { json!({ "kubeconfig": kubeconfig }).to_string() } else { kubeconfig }
}

/// The files that the command line gives to the node.
fn given_files(plan: &Plan<Locked>, flags: &cli::Run, report: &Report) -> Result<NodeFiles> {
    let files = match &flags.files {
        Some(folder) => NodeFiles::read(folder, &plan.writable)?,
        None => NodeFiles::default(),
    };
    match &flags.node {
        Some(document) => with_document(files, document, report),
        None => Ok(files),
    }
}

/// Adds the node document in `file`, which may be a pipe.
fn with_document(files: NodeFiles, file: &Path, report: &Report) -> Result<NodeFiles> {
    let document = NodeFiles::document(node::checked(file, report)?);
    match document.files.iter().any(|file| files.has(&file.path())) {
        true => Err(Error::usage("`--node` and `--files` both have a node document")
            .hint(format!("remove `{NODE_DOCUMENT}` from the folder, or leave out `--node`"))),
        false => Ok(files.and(document)),
    }
}

/// The cluster that a recipe with a control plane makes for itself, if the user gives it no other.
struct OwnCluster {
    files: ClusterFiles,
    forwards: Vec<Forward>,
}

impl OwnCluster {
    fn of(
        session: &Session,
        plan: &Plan<Locked>,
        flags: &cli::Run,
        given: &NodeFiles,
        out: &Out,
    ) -> Result<Option<Self>> {
        let Some(kubernetes) = control_plane(plan).filter(|_| !given.has(KUBEADM_ON_DATA)) else {
            return Ok(None);
        };
        let mut forwards = flags.forward.clone();
        let at = match forwards.iter().find(|forward| forward.node == PORT) {
            Some(forward) => *forward,
            None => Forward { address: Ipv4Addr::LOCALHOST, host: PORT, node: PORT },
        };
        if !forwards.contains(&at) {
            forwards.push(at);
        }
        let administrator = Endpoint { host: at.address.to_string(), port: at.host };
        let cache = session.store()?.state("run")?;
        let host = flags.network.address(&cache, flags.name.as_deref());
        let host = host.map_err(|error| error.hint("a node that makes a cluster needs one"))?;
        let server = Endpoint { host, port: PORT };
        let nodes = match Accelerator::probe(plan.architecture, &cache, session.report)? {
            Accelerator::Kvm => Nodes::Fast,
            Accelerator::Tcg => Nodes::Slow,
        };
        let cluster = NewCluster { kubernetes, server, administrator, nodes };
        let folder = out.path("cluster");
        let files = match ClusterFiles::find(&folder) {
            Some(files) => {
                files.expect_server(&cluster.server)?;
                files.lead_to(&cluster.administrator)?;
                files
            }
            None => ClusterFiles::make(&folder, &cluster, SystemTime::now())?,
        };
        session.report.note(format!("the files of the cluster: {}", folder.display()));
        Ok(Some(OwnCluster { files, forwards }))
    }

    /// The files for the node.
    fn files(&self, plan: &Plan<Locked>) -> Result<NodeFiles> {
        NodeFiles::read(&self.files.first(), &plan.writable)
    }

    /// The path of the administrator's kubeconfig.
    fn kubeconfig(&self) -> String {
        self.files.kubeconfig().display().to_string()
    }
}

/// The name of a file that nodes of other names must not share.
fn named(stem: &str, extension: &str, flags: &cli::Run) -> String {
    match &flags.name {
        Some(name) => format!("{stem}-{name}.{extension}"),
        None => format!("{stem}.{extension}"),
    }
}

/// Refuses a node without a name on a network that others share, before the build.
fn check_name(flags: &cli::Run) -> Result<()> {
    match &flags.network.shared {
        Some(network) if flags.name.is_none() => Err(nameless(network)),
        _ => Ok(()),
    }
}

/// Refuses a download of firmware with `--offline`, before the build. None is needed for a signed
/// image, on a machine with firmware, or after an earlier download.
fn check_download(
    session: &Session,
    plan: &Plan<Locked>,
    signing: Option<&Signing>,
    flags: &cli::Run,
) -> Result<()> {
    let is_never_asked = !flags.download_firmware || !session.common.offline;
    let is_signed = signing.is_some() && !flags.insecure;
    if is_never_asked || is_signed || Firmware::is_installed(plan.architecture, &SecureBoot::Off) {
        return Ok(());
    }
    match Firmware::is_downloaded(&session.store()?.state("firmware")?) {
        true => Ok(()),
        false => Err(Error::usage("cannot download firmware with `--offline`")
            .hint("omit `--download-firmware`, or run once without `--offline`")),
    }
}

/// Refuses a disk that is too small for the image, before the build.
fn check_disk_size(plan: &Plan<Locked>, flags: &cli::Run) -> Result<()> {
    let min = plan.board.image_size_mib();
    match flags.disk_size {
        Some(size) if size < min => Err(Error::usage(format!(
            "a disk of {size} MiB is too small for the image of `{}`",
            plan.recipe
        ))
        .hint(format!("use at least `--disk-size {min}`"))),
        _ => Ok(()),
    }
}

/// The Secure Boot state of the firmware.
fn secure_boot(
    session: &Session,
    signing: Option<&Signing>,
    flags: &cli::Run,
) -> Result<SecureBoot> {
    match flags.trust.as_ref().or(signing.map(|signing| &signing.key)) {
        _ if flags.setup_mode => Ok(SecureBoot::Setup),
        Some(name) if !flags.insecure => Ok(SecureBoot::enforced(session.keys(name)?.trust()?)),
        _ => Ok(SecureBoot::Off),
    }
}

/// The board's machine, with the settings of the command line over it.
fn machine(plan: &Plan<Locked>, flags: &cli::Run) -> Result<Qemu> {
    let board = &plan.board.name;
    let qemu = plan.board.qemu.clone().ok_or_else(|| {
        Error::usage(format!("QEMU cannot run board `{board}`"))
            .hint(format!("add a `[qemu]` section to `boards/{board}.toml`"))
    })?;
    Ok(Qemu {
        memory_mib: flags.memory.unwrap_or(qemu.memory_mib),
        cpus: flags.cpus.unwrap_or(qemu.cpus),
        bus: flags.bus.unwrap_or(qemu.bus),
        ..qemu
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Color, Verbosity};
    use crate::ship::vm::files::Content;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_node_document_can_come_from_a_pipe() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"hostname = \"edge\"\n").unwrap();
        drop(writer);
        let report = Report::new(Verbosity::Quiet, Color::Never);
        let pipe = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let files = with_document(NodeFiles::default(), Path::new(&pipe), &report).unwrap();
        assert_eq!(files.size(), 18);
        assert_eq!(files.files[0].content, Content::Text("hostname = \"edge\"\n".to_owned()));
    }
}

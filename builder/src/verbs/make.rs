//! Verbs that make something: images, running nodes.

use super::Session;
use crate::cli;
use crate::error::{Context, Error, Result};
use crate::pipeline::{self, Setting};
use crate::plan::{Locked, Plan};
use crate::produce::assemble::Built;
use crate::produce::fetch::From;
use crate::produce::out::{Out, PLAN};
use crate::ship::machine::{Bus, Download};
use crate::ship::run::{RunOptions, Until};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// `osbuild build`
pub fn build(session: &Session, recipe: &str, sources: Option<PathBuf>) -> Result<()> {
    let started = std::time::Instant::now();
    let plan = session.locked(recipe)?;
    let built = image(session, &plan, session.from(sources))?;
    let state = if built.was_current { "was up to date" } else { "is built" };
    session.report.note(format!("{recipe} {state} after {}", crate::report::duration(started.elapsed())));
    let json = || json!({ "recipe": recipe, "image": built.image, "uki": built.uki, "initramfs": built.initramfs, "was-current": built.was_current });
    session.data(json, || built.image.display().to_string());
    Ok(())
}

fn image(session: &Session, plan: &Plan<Locked>, from: From) -> Result<Built> {
    let out = Out::open(session.root(), &plan.recipe)?;
    std::fs::write(out.path(PLAN), plan.print()).or_build(|| format!("cannot write `{}`", out.path(PLAN).display()))?;
    let store = session.store()?;
    let setting = Setting { project: session.root(), store: &store, report: session.report, from, jobs: session.jobs() };
    pipeline::build(&setting, plan, &out)
}

/// `osbuild run`
pub fn run(session: &Session, flags: &cli::Run) -> Result<()> {
    let plan = session.locked(&flags.recipe)?;
    let board = plan.board.name.clone();
    let mut qemu = plan.board.qemu.clone().ok_or_else(|| {
        Error::usage(format!("QEMU cannot stand in for board `{board}`"))
            .hint(format!("give `boards/{board}.toml` a `[qemu]` section"))
    })?;
    qemu.memory_mib = flags.memory.unwrap_or(qemu.memory_mib);
    qemu.cpus = flags.cpus.unwrap_or(qemu.cpus);
    let forwards = flags.forward.iter().map(|forward| forward.parse()).collect::<Result<Vec<_>>>()?;
    let built = image(session, &plan, session.from(flags.sources.clone()))?;
    let out = Out::open(session.root(), &plan.recipe)?;
    let until = if flags.until == Some(cli::Until::Ready) { Until::Ready } else { Until::PowerOff };
    let options = RunOptions {
        image: built.image,
        architecture: plan.architecture,
        qemu,
        bus: Bus::VirtioBlk,
        sector_size: plan.board.sector_size,
        firmware: flags.firmware.clone(),
        download: Download::Refused,
        disk_size_mib: flags.disk_size,
        keep: flags.keep.then(|| out.path("disk.qcow2")),
        forwards,
        until,
        timeout: (until == Until::Ready).then(|| Duration::from_secs(flags.timeout)),
        show_console: !session.common.quiet,
        log: out.logs().join("console.log"),
        cache: session.store()?.state("run")?,
    };
    crate::ship::run::run(session.report, &options).map(drop)
}

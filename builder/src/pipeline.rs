//! The whole build on one page:
//!
//! locked plan → sources → sandbox → kernel, binaries, pod images → layers → initramfs → UKI →
//! signatures → image
//!
//! Each stage returns the input of the next one. The graph decides which steps run in parallel, and
//! the store which ones need not run at all.

use crate::engine::graph::Width::{Narrow, Wide};
use crate::error::Result;
use crate::plan::{HostPrograms, Locked, Plan};
use crate::produce::boot_chain::BootChain;
use crate::produce::build::{Build, BuildOptions};
use crate::produce::compile::{self, Programs, kernel};
use crate::produce::out::{Built, Out};
use crate::produce::parts::Parts;
use crate::produce::{image, initramfs, layers, podimage, uki};
use std::path::PathBuf;

/// Builds the image of a locked plan into `out`. Damaged entries of the store are made again.
///
/// # Errors
/// The first error of a stage.
pub fn build(options: &BuildOptions<'_>, plan: &Plan<Locked>, out: &Out) -> Result<Built> {
    options.store.healing(options.report, || build_once(options, plan, out))
}

fn build_once(options: &BuildOptions<'_>, plan: &Plan<Locked>, out: &Out) -> Result<Built> {
    let build = &Build::prepare(options, plan, out)?;
    let parts = &make_parts(build)?;

    let _lock = out.lock(options.store)?;
    let key = image::key(build, parts)?;
    let built = |was_current| out.built(options.signer.is_some(), was_current, build.steps());
    if out.is_current(&key) {
        return Ok(built(true));
    }

    let mut initramfs = initramfs::write(build, parts, out)?;
    let uki = uki::write(build, parts, &mut initramfs, out)?;
    let chain = BootChain::unsigned(build, parts, &uki, &mut initramfs)?.sign(build)?;
    uki::check_size(build, parts, chain.uki.length()?)?;

    out.begin()?;
    let mut files = vec![initramfs.keep()?];
    files.extend(chain.leave(build, out)?);
    files.push(uki.keep()?);
    files.push(image::write(build, parts, &chain, out)?);
    out.finish(&key, &files)?;
    Ok(built(false))
}

/// Makes all parts of an image, in parallel.
fn make_parts(build: &Build<'_>) -> Result<Parts> {
    let plan = build.plan;
    let mut graph = build.graph();
    let kernel = graph.step(Wide, (), |()| kernel::compile(build));
    let slotboot = graph.step(Wide, (), |()| compile::slotboot(build));
    let images = plan
        .images()
        .map(|image| graph.step(Wide, (), move |()| podimage::make(build, image)))
        .collect::<Vec<_>>();
    let mut programs = Vec::new();
    let mut layers = vec![graph.step(Narrow, (), |()| layers::base(build))];
    for component in &plan.components {
        let compiled = graph.step(Wide, (), move |()| compile::host_component(build, component));
        layers.push(graph.step(Narrow, &compiled, move |programs| {
            layers::binaries(build, component.name(), &programs)
        }));
        programs.push(compiled);
    }
    layers.push(graph.step(Narrow, images, |images| layers::pods(build, images)));
    if let Some(carried) = &build.options.carried {
        layers.push(graph.step(Narrow, (), move |()| layers::carried(build, carried)));
    }
    let data = graph.step(Narrow, (), |()| image::data(build));
    build.run_graph(graph)?;

    let programs: Programs = programs.iter().flat_map(|programs| programs.take()).collect();
    let layers = layers.iter().map(|layer| layer.take()).collect();
    Parts::collect(build, kernel.take(), slotboot.take(), &programs, layers, data.take())
}

/// Builds programs for this machine into `out`, and returns their files in order of name.
///
/// # Errors
/// The first error of a stage.
pub fn build_programs(
    options: &BuildOptions<'_>,
    plan: &Plan<Locked, HostPrograms<Locked>>,
    out: &Out,
) -> Result<Vec<PathBuf>> {
    options.store.healing(options.report, || build_programs_once(options, plan, out))
}

fn build_programs_once(
    options: &BuildOptions<'_>,
    plan: &Plan<Locked, HostPrograms<Locked>>,
    out: &Out,
) -> Result<Vec<PathBuf>> {
    let build = &Build::prepare(options, plan, out)?;

    let mut graph = build.graph();
    let compiled = plan
        .components
        .iter()
        .map(|component| graph.step(Wide, (), move |()| compile::host_programs(build, component)))
        .collect::<Vec<_>>();
    build.run_graph(graph)?;

    let _lock = out.lock(options.store)?;
    let programs: Programs = compiled.iter().flat_map(|programs| programs.take()).collect();
    programs.iter().map(|(file, program)| out.program(options.store, file, program)).collect()
}

//! The whole build on one page:
//!
//! locked plan → kernel, binaries, pod images → layers → initramfs → UKI → signatures → image
//!
//! Each stage returns the input of the next one. The graph decides which steps run in parallel, and
//! the store which ones need not run at all. Those that have to run fetch their sources first.

use crate::engine::digest::Digest;
use crate::engine::graph::Width::{Narrow, Wide};
use crate::engine::graph::{Event, Graph, Handle};
use crate::error::Result;
use crate::plan::{HostPrograms, Locked, Plan};
use crate::produce::boot_chain::BootChain;
use crate::produce::build::{Build, BuildOptions};
use crate::produce::compile::{self, CompiledKernel, Programs, kernel};
use crate::produce::layers::{self, BuiltLayer};
use crate::produce::out::{Built, Out};
use crate::produce::parts::Parts;
use crate::produce::{image, initramfs, podimage, uki};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// An image to build.
pub struct Order<'a> {
    /// The options, whose store and workers are those of all orders.
    pub options: BuildOptions<'a>,
    /// The locked plan.
    pub plan: &'a Plan<Locked>,
    /// The folder that gets the image.
    pub out: Out,
}

impl Order<'_> {
    fn prepare(&self) -> Result<Build<'_>> {
        Build::prepare(&self.options, self.plan, &self.out)
    }
}

/// Builds images. A step that several of them have runs once. Damaged entries of the store are made
/// again.
///
/// # Errors
/// The first error of a stage.
pub fn build(orders: &[Order<'_>]) -> Result<Vec<Built>> {
    let Some(Order { options, .. }) = orders.first() else { return Ok(Vec::new()) };
    options.store.healing(options.report, || build_once(options, orders))
}

fn build_once(options: &BuildOptions<'_>, orders: &[Order<'_>]) -> Result<Vec<Built>> {
    let builds = orders.iter().map(Order::prepare).collect::<Result<Vec<_>>>()?;

    let mut graph = Graph::new(options.workers.stop());
    let steps: Vec<_> = builds.iter().map(|build| PartSteps::of(build, &mut graph)).collect();
    run(options, graph)?;
    builds.iter().try_for_each(Build::give_sources)?;

    let mut images = orders.iter().zip(&builds).zip(steps).enumerate().collect::<Vec<_>>();
    // Each image keeps the lock of its folder. Builds of the same recipes take the locks in the
    // same order, so that none of them waits for one that waits for it.
    images.sort_by(|(_, ((one, _), _)), (_, ((other, _), _))| one.out.cmp(&other.out));
    let mut built = BTreeMap::new();
    for (place, ((order, build), steps)) in images {
        built.insert(place, assemble(build, &steps.parts(build)?, &order.out)?);
    }
    Ok(built.into_values().collect())
}

/// Assembles an image from its parts, unless `out` has it.
fn assemble(build: &Build<'_>, parts: &Parts, out: &Out) -> Result<Built> {
    let options = build.options;
    build.check_rebuilt()?;

    let lock = out.lock(options.store, options.report)?;
    let key = image::key(build, parts)?;
    let is_signed = options.signer.is_some();
    if out.is_current(&key) {
        out.write_plan()?;
        return Ok(out.built(is_signed, true, build.steps(), lock));
    }

    let mut initramfs = initramfs::write(build, parts, out)?;
    let uki = uki::write(build, parts, &mut initramfs, out)?;
    let chain = BootChain::unsigned(build, parts, &uki, &mut initramfs)?.sign(build)?;
    uki::check_size(build, parts, chain.uki.length()?)?;

    out.begin()?;
    out.write_plan()?;
    let mut files = vec![initramfs.keep()?];
    files.extend(chain.leave(build, out)?);
    files.push(uki.keep()?);
    files.push(image::write(build, parts, &chain, out)?);
    out.finish(&key, &files)?;
    Ok(out.built(is_signed, false, build.steps(), lock))
}

/// The steps that make the parts of one image.
struct PartSteps {
    kernel: Handle<CompiledKernel>,
    slotboot: Handle<Digest>,
    stub: Handle<Digest>,
    programs: Vec<Handle<Programs>>,
    layers: Vec<Handle<BuiltLayer>>,
    data: Handle<Digest>,
}

impl PartSteps {
    /// Adds them to a graph.
    fn of<'g>(build: &'g Build<'_>, graph: &mut Graph<'g>) -> Self {
        let plan = build.plan;
        let kernel = graph.step(Wide, (), |()| kernel::compile(build));
        let slotboot = graph.step(Wide, (), |()| compile::slotboot(build));
        let stub = graph.step(Narrow, (), |()| uki::stub(build));
        let images = plan
            .images()
            .map(|image| graph.step(Wide, (), move |()| podimage::make(build, image)))
            .collect::<Vec<_>>();
        let mut programs = Vec::new();
        let mut layers = vec![
            graph.step(Narrow, (), |()| layers::base(build)),
            graph.step(Narrow, &kernel, |kernel| layers::kernel(build, &kernel)),
        ];
        for component in &plan.components {
            let compiled =
                graph.step(Wide, (), move |()| compile::host_component(build, component));
            layers.push(graph.step(Narrow, &compiled, move |programs| {
                layers::binaries(build, component.name(), &programs)
            }));
            programs.push(compiled);
        }
        layers.push(graph.step(Narrow, (), |()| layers::pods(build)));
        layers.push(graph.step(Narrow, images, |images| layers::images(build, images)));
        if let Some(carried) = &build.options.carried {
            layers.push(graph.step(Narrow, (), move |()| layers::carried(build, carried)));
        }
        let data = graph.step(Narrow, (), |()| image::data(build));
        PartSteps { kernel, slotboot, stub, programs, layers, data }
    }

    /// Collects the parts once the graph has run.
    fn parts(self, build: &Build<'_>) -> Result<Parts> {
        let programs: Programs =
            self.programs.iter().flat_map(|programs| programs.take()).collect();
        let layers = self.layers.iter().map(|layer| layer.take()).collect();
        let (kernel, files) = (self.kernel.take(), [&self.slotboot, &self.stub, &self.data]);
        Parts::collect(build, kernel, files.map(Handle::take), &programs, layers)
    }
}

/// Runs all steps of a graph.
fn run(options: &BuildOptions<'_>, graph: Graph<'_>) -> Result<()> {
    let progress = options.report.progress(graph.count());
    graph.run(options.jobs, &|event| match event {
        Event::Done => progress.advance(),
        Event::Failed(error) => {
            let failed = &error.problems[0].message;
            options.report.note(format!(
                "{failed}; waiting for running steps to finish, or press Ctrl-C to end them"
            ));
        }
    })
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

    let mut graph = Graph::new(options.workers.stop());
    let compiled = plan
        .components
        .iter()
        .map(|component| graph.step(Wide, (), move |()| compile::host_programs(build, component)))
        .collect::<Vec<_>>();
    run(options, graph)?;
    build.give_sources()?;
    build.check_rebuilt()?;

    let _lock = out.lock(options.store, options.report)?;
    out.write_plan()?;
    let programs: Programs = compiled.iter().flat_map(|programs| programs.take()).collect();
    let put = |(file, program): (&String, &Digest)| out.program(options.store, file, program);
    let files = programs.iter().map(put).collect::<Result<Vec<_>>>()?;
    out.keep_programs(&files)?;
    Ok(files)
}

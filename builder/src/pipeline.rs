//! The whole build on one page:
//!
//! locked plan → sources → sandbox → kernel, binaries, pod images → layers → initramfs → UKI → image
//!
//! Each stage is a noun that the next one takes. What runs at the same time is the graph's business, what need not run again the store's.

use crate::error::Result;
use crate::plan::{Locked, Plan};
use crate::produce::assemble::{Assembly, Built};
use crate::produce::compile::Sandbox;
use crate::produce::executor::Executor;
use crate::produce::fetch::{Fetcher, From};
use crate::produce::graph::{Graph, Width};
use crate::produce::out::Out;
use crate::produce::store::Store;
use crate::produce::work::Work;
use crate::report::Report;
use std::path::Path;

/// What a build has to work with.
pub struct Setting<'a> {
    /// The root of the project.
    pub project: &'a Path,
    /// Where results are kept.
    pub store: &'a Store,
    /// Who is told.
    pub report: &'a Report,
    /// Where sources may come from.
    pub from: From,
    /// How many steps run at once.
    pub jobs: usize,
}

/// Builds the image of a locked plan into `out`.
pub fn build(setting: &Setting, plan: &Plan<Locked>, out: &Out) -> Result<Built> {
    let (store, report) = (setting.store, setting.report);
    Fetcher { store, report, project: setting.project, from: setting.from.clone() }.fetch(plan)?;
    let sandbox = Sandbox::unpack(store, report, plan.lock.get())?;
    let executor = Executor::new(store, report, setting.jobs, out.logs());
    let work = Work { executor: &executor, store, sandbox: &sandbox, project: setting.project, plan };

    let mut graph = Graph::new(executor.stop());
    let kernel = graph.step("kernel", Width::Wide, (), |()| work.kernel());
    let binaries = plan.components().map(|component| graph.step(component.name(), Width::Wide, (), move |()| work.binaries(&component)));
    let binaries = binaries.collect::<Vec<_>>();
    let programs = plan.pod_programs().map(|package| graph.step(package, Width::Wide, (), move |()| work.pod_image(package)));
    let images = graph.step("pod images", Width::Narrow, programs.collect::<Vec<_>>(), |images| work.images(images));

    let base = graph.step("layer base", Width::Narrow, (), |()| work.base_layer());
    let pods = graph.step("layer pods", Width::Narrow, images, |images| work.pods_layer(&images));
    let own = binaries.iter().map(|binaries| graph.step("layer", Width::Narrow, binaries, |binaries| work.binaries_layer(&binaries)));
    let own = own.collect::<Vec<_>>();
    let data = graph.step("data", Width::Narrow, (), |()| work.data());
    graph.run(setting.jobs)?;

    Assembly { plan, kernel: kernel.take(), layers: vec![], data: data.take() }.write(store, report, out)
}

//! The whole build on one page:
//!
//! locked plan → sources → sandbox → kernel, binaries, pod images → layers → initramfs → UKI →
//! signed UKI and slotboot → image
//!
//! Each stage is a noun that the next one takes. What runs at the same time is the graph's
//! business, what need not run again the store's.

use crate::error::Result;
use crate::plan::{HostPrograms, Locked, Plan};
use crate::produce::assemble::{Assembly, Built};
use crate::produce::compile::Sandbox;
use crate::produce::digest::Digest;
use crate::produce::disk::OnDisk;
use crate::produce::executor::{Executor, Rebuild};
use crate::produce::fetch::{Fetcher, From};
use crate::produce::graph::{Graph, Width};
use crate::produce::inventory::Inventory;
use crate::produce::out::Out;
use crate::produce::sign::Signer;
use crate::produce::stages::{BuiltLayer, Carried, Programs, Stages, host_programs};
use crate::produce::store::Store;
use crate::report::Report;
use std::path::{Path, PathBuf};

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
    /// Which steps run although their results are known.
    pub rebuild: Rebuild,
    /// How many steps run at once.
    pub jobs: usize,
    /// Who signs what the firmware starts and the UKI; nobody for an unsigned image.
    pub signer: Option<&'a dyn Signer>,
    /// The image that an installer carries.
    pub carried: Option<Carried>,
}

/// Builds the image of a locked plan into `out`. An entry of the store that turns out to be damaged
/// is made again.
pub fn build(setting: &Setting, plan: &Plan<Locked>, out: &Out) -> Result<Built> {
    setting.store.healing(setting.report, || build_once(setting, plan, out))
}

fn build_once(setting: &Setting, plan: &Plan<Locked>, out: &Out) -> Result<Built> {
    let (store, report) = (setting.store, setting.report);
    Fetcher { store, report, project: setting.project, from: setting.from.clone() }.fetch(plan)?;
    let sandbox = Sandbox::unpack(store, report, plan.lock.get())?;
    let executor = Executor::new(store.clone(), report.clone(), setting.jobs, out.logs())
        .rebuilding(setting.rebuild.clone());
    let stages =
        &Stages { executor: &executor, store, sandbox: &sandbox, project: setting.project, plan };

    let mut graph = Graph::new(executor.stop());
    let kernel = graph.step(Width::Wide, (), |()| stages.kernel());
    let boot = graph.step(Width::Wide, (), |()| stages.boot_program());
    let images = plan
        .images()
        .map(|image| graph.step(Width::Wide, (), move |()| stages.pod_image(image)))
        .collect::<Vec<_>>();
    let mut programs = Vec::new();
    let mut layers = vec![graph.step(Width::Narrow, (), |()| stages.base_layer())];
    for component in &plan.components {
        let compiled = graph.step(Width::Wide, (), move |()| stages.component(component));
        layers.push(graph.step(Width::Narrow, &compiled, move |programs| {
            stages.component_layer(component.name(), &programs)
        }));
        programs.push(compiled);
    }
    layers.push(graph.step(Width::Narrow, images, |images| stages.pods_layer(images)));
    layers.extend(
        setting
            .carried
            .iter()
            .map(|carried| graph.step(Width::Narrow, (), move |()| stages.carried_layer(carried))),
    );
    let data = graph.step(Width::Narrow, (), |()| stages.data());
    graph.run(setting.jobs, &|error| {
        report.note(format!(
            "{}; what runs is finished first, or Ctrl-C ends it",
            error.problems[0].message
        ));
    })?;

    executor.check_rebuilt()?;
    let kernel = kernel.take();
    let programs: Programs = programs.iter().flat_map(|programs| programs.take()).collect();
    let lock = Digest::of(plan.lock.get().print().as_bytes());
    let inventory = Inventory::new(plan, &lock, &kernel.release, &programs);
    let layers = layers.iter().map(|layer| layer.take()).collect::<Vec<BuiltLayer>>();
    let (boot, data, signer) = (boot.take(), data.take(), setting.signer);
    let settings = plan.installs.as_ref().map(|installs| setting.project.join(&installs.settings));
    let settings = settings.map(|path| std::fs::read(&path).at("read", &path)).transpose()?;
    let (init, steps) = (programs["init"], executor.steps());
    Assembly { plan, settings, kernel, boot, layers, init, data, inventory, signer, steps }
        .write(store, report, out)
}

/// Builds programs for this machine into `out`, and gives their files in order of name.
pub fn build_programs(
    setting: &Setting,
    plan: &Plan<Locked, HostPrograms<Locked>>,
    out: &Out,
) -> Result<Vec<PathBuf>> {
    setting.store.healing(setting.report, || build_programs_once(setting, plan, out))
}

fn build_programs_once(
    setting: &Setting,
    plan: &Plan<Locked, HostPrograms<Locked>>,
    out: &Out,
) -> Result<Vec<PathBuf>> {
    let (store, report) = (setting.store, setting.report);
    Fetcher { store, report, project: setting.project, from: setting.from.clone() }.fetch(plan)?;
    let sandbox = &Sandbox::unpack(store, report, plan.lock.get())?;
    let executor = &Executor::new(store.clone(), report.clone(), setting.jobs, out.logs())
        .rebuilding(setting.rebuild.clone());

    let mut graph = Graph::new(executor.stop());
    let step = |component| {
        graph.step(Width::Wide, (), move |()| {
            host_programs(executor, store, sandbox, plan, component)
        })
    };
    let compiled = plan.components.iter().map(step).collect::<Vec<_>>();
    graph.run(setting.jobs, &|error| {
        report.note(format!(
            "{}; what runs is finished first, or Ctrl-C ends it",
            error.problems[0].message
        ));
    })?;

    executor.check_rebuilt()?;
    let programs: Programs = compiled.iter().flat_map(|programs| programs.take()).collect();
    let _writing = out.lock(store)?;
    programs.iter().map(|(file, program)| out.program(store, file, program)).collect()
}

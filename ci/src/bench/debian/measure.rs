//! The measurement of a machine.

use super::memory;
use super::running::Running;
use super::systems::{Candidate, System};
use crate::site::Site;
use crate::vm::cluster::control_plane::ControlPlane;
use crate::vm::cluster::kubectl::Kubectl;
use crate::vm::cluster::registry::Registry;
use crate::vm::cluster::wait::Seen;
use osbuild::error::Result;
use osbuild::ship::vm::boot::Boot;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The objects of the measurement.
const OBJECTS: &str = include_str!("objects.yaml");

/// Pods that are started at once.
pub const CROWD: usize = 30;

/// Pods that fill a node: the kubelet allows 110, of which one is the first pod and two are the
/// node's own.
pub const FULL: usize = 107;

/// The memory in MiB for so many pods: each has a shim and a program.
const FULL_MEMORY_MIB: u64 = 6144;

/// How long a machine has nothing to do before its memory is read.
const SETTLES: Duration = Duration::from_secs(60);

/// How long a machine without work is watched.
pub const IDLE: Duration = Duration::from_secs(300);

/// The labels of the first pod and of the others.
const METER: &str = "meter";
const OTHERS: &str = "crowd";

/// The numbers of one system.
pub struct Measured {
    /// From power-on until the node is Ready in its cluster, for the first time and again.
    pub first_boot: Duration,
    pub later_boot: Duration,
    /// From then until a pod runs that waited for the node, with the pull of its image.
    pub first_pod: Duration,
    /// The processor time of the machine without work, as a share of the time.
    pub idle: f64,
    /// The memory of the host without pods and with [`CROWD`].
    pub memory: [u64; 2],
    /// Until [`CROWD`] pods run that were created at once.
    pub crowd: Duration,
    /// From the press of the power button until the machine is off, with these pods.
    pub shutdown: Duration,
    /// The parts of the later boot, if the console has reported them.
    pub boot: Option<Boot>,
}

/// The numbers of a system with as many pods as the kubelet allows.
pub struct Full {
    /// Until [`FULL`] pods run that were created at once.
    pub crowd: Duration,
    /// The memory of the host with them.
    pub memory: u64,
}

/// A cluster, and a machine that will be its only node.
struct Lab<'a> {
    plane: ControlPlane,
    _registry: Registry,
    candidate: Candidate<'a>,
    kubectl: Kubectl<'a>,
}

impl<'a> Lab<'a> {
    fn new(site: &'a Site<'a>, system: System) -> Result<Self> {
        let plane = ControlPlane::start(site)?;
        let registry = Registry::start(site, plane.authority())?;
        let candidate = Candidate::new(site, system, &plane, &registry)?;
        let kubectl = Kubectl::new(site, &plane)?;
        kubectl.apply(OBJECTS)?;
        Ok(Lab { plane, _registry: registry, candidate, kubectl })
    }
}

/// Measures a system on a cluster of its own.
pub fn measure(site: &Site, system: System) -> Result<Measured> {
    let Lab { mut plane, _registry, candidate, kubectl } = Lab::new(site, system)?;
    let mut machine = Running::start(&mut plane, &candidate, "first")?;
    let (first, first_boot) = machine.ready(None)?;
    let ready = Instant::now();
    machine.pods(METER, 1)?;
    let first_pod = ready.elapsed();
    sleep(SETTLES);
    let empty = memory(&mut machine, &kubectl, 0)?;
    let idle = idle(&machine)?;
    machine.shut_down()?;

    let mut machine = Running::start(&mut plane, &candidate, "later")?;
    let (_, later_boot) = machine.ready(Some(&first))?;
    let boot = (system == System::Osbuild).then(|| heard(&mut machine)).transpose()?;
    machine.pods(METER, 1)?;
    sleep(SETTLES);
    let crowd = fill(&mut machine, &kubectl, CROWD)?;
    let full = memory(&mut machine, &kubectl, CROWD)?;
    let shutdown = machine.shut_down()?;
    let memory = [empty, full];
    Ok(Measured { first_boot, later_boot, first_pod, idle, memory, crowd, shutdown, boot })
}

/// Measures a system with as many pods as the kubelet allows.
pub fn measure_full(site: &Site, system: System) -> Result<Full> {
    let Lab { mut plane, _registry, candidate, kubectl } = Lab::new(site, system)?;
    let candidate = candidate.with_memory(FULL_MEMORY_MIB);
    let mut machine = Running::start(&mut plane, &candidate, "full")?;
    machine.ready(None)?;
    machine.pods(METER, 1)?;
    let crowd = fill(&mut machine, &kubectl, FULL)?;
    Ok(Full { crowd, memory: memory(&mut machine, &kubectl, FULL)? })
}

/// Creates pods, and returns the time until they run. Then the machine settles.
fn fill(machine: &mut Running, kubectl: &Kubectl, count: usize) -> Result<Duration> {
    let began = Instant::now();
    kubectl.output(&["scale", "deployment/crowd", &format!("--replicas={count}")])?;
    machine.pods(OTHERS, count)?;
    let took = began.elapsed();
    sleep(SETTLES);
    Ok(took)
}

/// The boot as the console has reported it.
fn heard(machine: &mut Running) -> Result<Boot> {
    machine.hear_ready()?;
    Ok(machine.boot().clone())
}

/// The memory of the host with the first pod and `others`.
fn memory(machine: &mut Running, kubectl: &Kubectl, others: usize) -> Result<u64> {
    let mut pods = machine.pods(METER, 1)?;
    let name = pods[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    pods.extend(machine.pods(OTHERS, others)?);
    let output = machine.until("the first pod cannot read the memory", |_| {
        let ran = kubectl.run(&["exec", &name, "--", "sh", "-c", memory::SCRIPT])?;
        Ok(if ran.code == Some(0) { Seen::Yes(ran.output) } else { Seen::NotYet(ran.output) })
    })?;
    memory::in_use(&output, &pods)
}

/// The share of a processor of this host that the machine takes without work.
fn idle(machine: &Running) -> Result<f64> {
    let (began, before) = (Instant::now(), machine.processor_time()?);
    sleep(IDLE);
    let used = machine.processor_time()?.saturating_sub(before);
    Ok(used.as_secs_f64() / began.elapsed().as_secs_f64())
}

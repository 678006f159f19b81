//! The node beside a minimal Debian 12 with systemd: the same kubelet, containerd and runc, the
//! same pods and the same emulated machine. One is measured after the other, each with a cluster of
//! its own.

mod measure;
mod memory;
mod running;
mod systems;

use super::{Measure, Row};
use crate::site::Site;
use measure::{CROWD, FULL, Full, IDLE, Measured, measure, measure_full};
use osbuild::error::Result;
use systems::System;

/// The shares of Debian's numbers that the node aims at: of its time until it is Ready, of its
/// memory without pods, and of all others.
const READY: f64 = 0.5;
const MEMORY: f64 = 0.65;
const ANY: f64 = 1.1;

pub fn rows(site: &Site) -> Result<Vec<Row>> {
    let debian = measure(site, System::Debian)?;
    let node = measure(site, System::Osbuild)?;
    let row = |name: &str, aim: f64, value: fn(&Measured) -> Measure| {
        Row::beside(format!("beside Debian: {name}"), value(&node), value(&debian), aim)
    };
    let minutes = IDLE.as_secs() / 60;
    let mut rows = vec![
        row("power-on to Ready, first boot", READY, |one| Measure::Time(one.first_boot)),
        row("power-on to Ready, later boot", READY, |one| Measure::Time(one.later_boot)),
        row("Ready to the first pod", ANY, |one| Measure::Time(one.first_pod)),
        row(&format!("{CROWD} pods at once"), ANY, |one| Measure::Time(one.crowd)),
        row("memory of the host, 0 pods", MEMORY, |one| Measure::Size(one.memory[0])),
        row(&format!("memory of the host, {CROWD} pods"), ANY, |one| Measure::Size(one.memory[1])),
        row(&format!("processor, idle for {minutes} min"), ANY, |one| Measure::Share(one.idle)),
        row(&format!("shutdown with {CROWD} pods"), ANY, |one| Measure::Time(one.shutdown)),
    ];
    if let Some(boot) = node.boot {
        let part = |name: &str, time| Row::time(format!("later boot: {name}"), time);
        rows.push(part("firmware", boot.firmware));
        rows.extend(boot.phases.iter().map(|(name, time)| part(name, *time)));
        rows.extend(boot.ready.map(|time| part("power-on to READY", time)));
    }
    Ok(rows)
}

/// The same with as many pods as the kubelet allows, which takes much longer.
pub fn full_rows(site: &Site) -> Result<Vec<Row>> {
    let debian = measure_full(site, System::Debian)?;
    let node = measure_full(site, System::Osbuild)?;
    let row = |name: String, value: fn(&Full) -> Measure| {
        Row::beside(format!("beside Debian: {name}"), value(&node), value(&debian), ANY)
    };
    Ok(vec![
        row(format!("{FULL} pods at once"), |one| Measure::Time(one.crowd)),
        row(format!("memory of the host, {FULL} pods"), |one| Measure::Size(one.memory)),
    ])
}

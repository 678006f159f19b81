//! `BpfPrograms.osbuild`: the BPF programs of the kernel, as `init` finds them. Only a process with
//! the capability `SYS_ADMIN` may ask the kernel for them.

use super::ObservedType;
use super::rows::Rows;
use crate::settings::{column, names};
use osbuild_cosi::v1::BpfProgramSpec;
use osbuild_protocol::{BpfProgram, MAX_BPF_PROGRAMS, NodeStatus};
use std::time::Duration;

pub const TYPE: ObservedType = ObservedType {
    names: names("BpfPrograms", "BpfProgram"),
    columns: &[
        column("Type", "{.type}"),
        column("Name", "{.name}"),
        column("Targets", "{.targets[:]}"),
        column("Runs", "{.runs}"),
        column("Run ns", "{.runNanoseconds}"),
        column("Bytes", "{.jitedBytes}"),
    ],
    max_count: MAX_BPF_PROGRAMS,
};

/// The specs.
///
/// # Errors
/// `init` has not looked, as it does after the first request, or could not.
pub fn rows(status: &NodeStatus) -> Result<Rows<BpfProgramSpec>, String> {
    let found = status.bpf_programs.as_ref().ok_or("init has not looked at the BPF programs")?;
    let mut rows = Rows::at_most(TYPE.max_count);
    for program in &found.programs {
        rows.insert(0, program.id.to_string(), spec(program.clone()));
    }
    rows.left_out += found.left_out;
    Ok(rows)
}

fn spec(program: BpfProgram) -> BpfProgramSpec {
    let number = |value: u128| value.try_into().unwrap_or(u64::MAX);
    BpfProgramSpec {
        r#type: program.program_type,
        name: program.name,
        tag: format!("{:016x}", program.tag),
        since_milliseconds: number(Duration::as_millis(&program.loaded)),
        uid: program.uid,
        translated_bytes: program.translated_bytes,
        jited_bytes: program.jited_bytes,
        map_ids: program.maps,
        target_count: program.target_count,
        targets: program.targets,
        runs: program.runs,
        run_nanoseconds: number(Duration::as_nanos(&program.run_time)),
    }
}

//! `Diagnostics.osbuild`: what is wrong with the node, as `init` reports it.

use super::ObservedType;
use super::rows::Rows;
use crate::settings::{column, names};
use osbuild_cosi::v1::DiagnosticSpec;
use osbuild_protocol::NodeStatus;

pub const TYPE: ObservedType = ObservedType {
    names: names("Diagnostics", "Diagnostic"),
    columns: &[column("Problem", "{.problem}")],
    max_count: super::FEW,
};

/// The specs: none while nothing is wrong.
pub fn rows(status: &NodeStatus) -> Rows<DiagnosticSpec> {
    let mut rows = Rows::at_most(TYPE.max_count);
    for problem in &status.problems {
        rows.insert(0, problem.id.clone(), DiagnosticSpec { problem: problem.text.clone() });
    }
    rows
}

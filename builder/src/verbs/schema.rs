//! `osbuild schema`: needs no project.

use crate::cli::SchemaKind;
use crate::report::Report;

/// `osbuild schema`
pub fn run(report: &Report, kind: SchemaKind) {
    let schema = crate::plan::schema(kind.into());
    report.data(serde_json::to_string_pretty(&schema).expect("a schema always serializes"));
}

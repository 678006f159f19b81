//! The slot that the node runs from: which one, what both hold, its trial, and how the other one is
//! updated.

pub mod boot_source;
pub mod content;
pub mod last_report;
pub mod reached;
pub mod trial;
pub mod update_job;

//! `ObservationStatuses.osbuild`: what is missing among the resources of the other observed types.

use super::ObservedType;
use crate::settings::{column, names};

pub const TYPE: ObservedType = ObservedType {
    names: names("ObservationStatuses", "ObservationStatus"),
    columns: &[column("Left out", "{.leftOut}"), column("Error", "{.error}")],
    max_count: super::FEW,
};

//! The whole program, as a user runs it.
//!
//! | fault | tests |
//! |---|---|
//! | a mistake in a recipe, a board or a component | `tests/plan/wrong.rs` |
//! | a script or a dynamic program among the binaries | `wrong::a_script_…`, `wrong::a_dynamic_…` |
//! | an unknown kernel option | `wrong::an_unknown_kernel_option_…` |
//! | a wrong digest | `gone::bytes_that_…`, `downloads::a_changed_…`, `exports::a_damaged_…` |
//! | a truncated download, no network | `downloads::a_truncated_…`, `downloads::a_missing_…` |
//! | a full disk during a step, or while the image is written | `wrong::a_disk_full_…` |
//! | a read-only `out/` | `wrong::a_read_only_out_…` |
//! | a missing tool or firmware, an old Go, a system without a sandbox | `lacking` |
//! | a mirror that the host does not trust, or no mirror | `mirrors` |
//! | a step that fails, or is killed for memory | `wrong::a_failed_…`, `wrong::a_step_killed_…` |
//! | a damaged store entry | `wrong::a_damaged_result_…`, `wrong::a_damaged_source_…` |
//! | an image too large for its partition | `wrong::a_uki_too_large_…` |
//! | a disk in use, too small, with other sectors, that loses writes; a power cut | `flash` |
//! | too little memory | `ci/src/vm/refusals.rs` |
//! | Ctrl-C, kill -9, concurrent builds, other compilers | `interrupted`, `downloads`, `builds` |

mod archive;
mod builds;
#[path = "../produce/casd.rs"]
mod casd;
mod cleaning;
mod cloud;
mod copies;
mod devices;
mod diff;
mod downloads;
mod exports;
mod faults;
mod flash;
mod gone;
mod goproxy;
mod hostile;
mod http;
mod identity;
mod in_use;
mod interrupted;
mod keys;
mod kms;
mod lacking;
mod locks;
mod loops;
mod messages;
mod mirrors;
mod moto;
mod node_documents;
mod offline;
mod offline_release;
mod pipelines;
mod plans;
mod pods;
mod programs;
mod provenance;
mod prunes;
mod publish;
mod publishers;
mod registry;
mod releases;
mod remote;
mod repositories;
mod results;
mod rollouts;
mod rotation;
mod sbom;
mod scratch;
mod signing;
mod summary;
mod terminal;
mod tokens;
mod updates;
mod verify;
mod workshop;
mod wrong;

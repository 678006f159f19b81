//! The whole program, as a user runs it: what a lock keeps and an update moves, where sources come
//! from, what a build says, and how it fails.
//!
//! | what is wrong | test that meets it |
//! |---|---|
//! | unknown key, wrong type, unknown component, inheritance cycle, an eighth binary, a missing one | `tests/plan/wrong.rs`, each with its whole message |
//! | a script or a dynamic program among the binaries | `wrong::a_script_…`, `wrong::a_dynamic_program_…` |
//! | a kernel option that does not exist | `wrong::a_kernel_option_that_does_not_exist_…` |
//! | a digest that does not match | `gone::bytes_that_are_not_the_locked_ones_…`, `downloads::a_package_with_other_bytes_…`, `exports::a_damaged_source_…` |
//! | a truncated download, no network | `downloads::…_cut_short_…`, `downloads::no_network_…` |
//! | a disk that is full during a step, or when the image is written | `wrong::a_disk_that_is_full_…` |
//! | read-only `out/` | `wrong::a_read_only_out_…` |
//! | a missing tool, QEMU, firmware; an old Go, a system that allows no sandbox | `lacking` |
//! | a mirror that the host does not trust, or none | `mirrors` |
//! | a step that fails, or is killed for memory | `wrong::a_failed_step_…`, `wrong::a_step_that_is_killed_…` |
//! | a corrupted store entry | `wrong::a_damaged_product_…`, `wrong::a_damaged_source_…` |
//! | an image too big for its partition | `wrong::a_uki_that_is_too_big_…` |
//! | a disk that is in use, too small, of other sectors, or does not keep what is written; the power fails while it is written | `flash` |
//! | too little RAM | `ci/src/vm/refusals.rs` |
//! | Ctrl-C, kill -9, two builds at once, other compilers on the host | `interrupted`, `downloads::a_stop_…`, `builds` |

mod archive;
mod builds;
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
mod interrupted;
mod keys;
mod kms;
mod lacking;
mod locks;
mod loops;
mod mirrors;
mod offline;
mod pipelines;
mod plans;
mod pods;
mod programs;
mod publish;
mod releases;
mod repositories;
mod rotation;
mod scratch;
mod signing;
mod summary;
mod terminal;
mod tokens;
mod updates;
mod verify;
mod workshop;
mod wrong;

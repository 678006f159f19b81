//! The plan from outside: what ships is whole, and what is wrong is said well.

mod shipped;

use osbuild::checkout::Checkout;
use osbuild::plan::{Date, Project};
use std::path::Path;

/// The day on which these tests happen.
const TODAY: Date = Date { year: 2026, month: 11, day: 21 };

/// This checkout.
fn shipped() -> Project {
    Checkout::around(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap().read().unwrap()
}

//! Plugins: what their grants permit, and what wakes their controllers.

mod access;
mod connected;
mod docs;
mod faults;
mod finalizers;
mod grants;
mod limits;
mod node;
mod recorded;
mod wakes;

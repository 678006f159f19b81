//! The parts of the pod `osd`, which keeps the resources of a node and serves them.
//!
//! [`state`], [`configuration`] and [`node`] are the services, for clients of the node and of the
//! [`network`], and [`access`] decides who may call them. [`shared`] is the store behind them:
//! [`keeper`] writes it to a file with its last [`generations`], and [`host`] holds the node to it
//! through [`init`]. [`plugins`] are programs of others that do the same. [`observed`] is what it
//! sees of the node. [`talos`] has the call that `talosctl` needs. [`inspection`] forwards calls to
//! [`inspect`], which runs in a container of its own. [`debug`] connects clients with debug
//! containers, in which [`attach`] runs.

#![deny(unsafe_code)]

pub mod access;
pub mod adopt;
pub mod apply;
pub mod attach;
pub mod catalog;
pub mod client_type;
pub mod configuration;
pub mod connections;
pub mod debug;
pub mod documents;
pub mod encoded_events;
mod error_text;
#[cfg(test)]
mod fake_init;
pub mod generations;
pub mod host;
pub mod init;
pub mod inspect;
pub mod inspection;
pub mod keeper;
pub mod limits;
pub mod network;
pub mod node;
pub mod observed;
pub mod plugins;
pub mod server;
pub mod settings;
pub mod shared;
pub mod socket;
pub mod state;
pub mod talos;
pub mod tried;
pub mod watch;
pub mod watches;
pub mod wire;
pub mod yaml;

//! The whole program, as a user runs it: what a lock keeps and an update moves, where sources come from, what a build says, and how
//! it fails.

mod archive;
mod builds;
mod cleaning;
mod downloads;
mod exports;
mod gone;
mod goproxy;
mod http;
mod interrupted;
mod lacking;
mod locks;
mod scratch;
mod terminal;
mod updates;
mod workshop;
mod wrong;

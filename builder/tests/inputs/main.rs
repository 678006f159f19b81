//! Inputs from outside, through the whole program: what a lock keeps, what an update moves, and where sources come from.

mod archive;
mod cleaning;
mod exports;
mod gone;
mod goproxy;
mod locks;
mod scratch;
mod updates;

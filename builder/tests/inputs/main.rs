//! Inputs from outside, through the whole program: what a lock keeps, what an update moves, and where sources come from.

mod exports;
mod locks;
mod scratch;

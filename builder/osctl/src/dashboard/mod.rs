//! `osctl dashboard`: nodes on a terminal screen.
//!
//! [`source`] asks a node, [`state`] keeps what the nodes answer and what the user wants to see,
//! [`drawing`] makes a frame of it, and [`terminal`] shows the frame. Only the first and the last
//! do I/O.

mod action;
mod drawing;
mod facts;
mod history;
mod log;
mod network;
mod node;
mod reading;
mod source;
mod state;
mod terminal;
mod theme;
mod untrusted;

pub use action::action;
pub use node::Node;
pub use reading::Reading;
pub use source::Source;
pub use state::Dashboard;
pub use terminal::{Input, Screen, refuse_pipes};
pub use theme::Theme;

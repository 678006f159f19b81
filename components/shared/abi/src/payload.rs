//! What an image carries for the pod's program to install on the node. The builder puts it below
//! these paths of the image.

/// Static programs, each under its name.
pub const PROGRAMS: &str = "/payload/programs";

/// Dynamically linked programs: a folder each, called as the program is, with the program,
/// [`LOADER`] and every library that it needs.
pub const DYNAMIC: &str = "/payload/dynamic";

/// In the folder of a dynamically linked program: what loads its libraries and starts it
/// (ld.so(8)).
pub const LOADER: &str = "ld.so";

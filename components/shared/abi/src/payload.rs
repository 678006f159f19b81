//! The payload of an image: files that the pod's program installs on the node. The builder puts it
//! below these paths of the image.

/// Static programs.
pub const PROGRAMS: &str = "/payload/programs";

/// Dynamically linked programs: for each a folder of the same name, with the program, [`LOADER`]
/// and all its libraries.
pub const DYNAMIC: &str = "/payload/dynamic";

/// In the folder of a dynamically linked program: the dynamic loader (ld.so(8)).
pub const LOADER: &str = "ld.so";

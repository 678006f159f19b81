//! The tags of an image and its snapshot.

use osbuild_aws::Tag;

/// The recipe.
pub(super) const RECIPE: &str = "osbuild:recipe";
/// The SHA-256 of the disk.
pub(super) const IMAGE: &str = "osbuild:image";
/// How many blocks an incomplete snapshot has.
pub(super) const SENT: &str = "osbuild:sent";
/// AWS has accepted a snapshot as complete, and may still be assembling it.
pub(super) const SEALED: &str = "osbuild:sealed";
/// The publisher, of several in one account. `--prune` removes images of this publisher only.
pub const OWNER: &str = "osbuild:owner";

/// The upper limit of AWS for a value, in characters.
const MAX_VALUE: usize = 256;

/// The tags of a disk with this SHA-256, and `more` of them.
pub fn tags(recipe: &str, image: &str, more: &[(&str, String)]) -> Vec<Tag> {
    let own = [(RECIPE, recipe.to_owned()), (IMAGE, image.to_owned())];
    let cut = |value: &String| value.chars().take(MAX_VALUE).collect::<String>();
    own.iter().chain(more).map(|(name, value)| ((*name).to_owned(), cut(value))).collect()
}

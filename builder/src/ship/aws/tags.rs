//! What AWS knows of an image and its snapshot, as tags.

/// The recipe that it is of.
pub(super) const RECIPE: &str = "osbuild:recipe";
/// The SHA-256 of the disk.
pub(super) const IMAGE: &str = "osbuild:image";
/// How many of its blocks a snapshot has that is not complete yet.
pub(super) const SENT: &str = "osbuild:sent";
/// That AWS has accepted a snapshot as complete, and may still be putting it together.
pub(super) const SEALED: &str = "osbuild:sealed";
/// Who publishes, of all who do in one account: the only one whose `--prune` removes it.
pub const OWNER: &str = "osbuild:owner";

/// AWS takes no longer value.
const LONGEST: usize = 256;

/// Names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(Vec<(String, String)>);

impl Tags {
    /// Those of a disk with this SHA-256, and those that say more of it.
    pub fn new(recipe: &str, image: &str, more: &[(&str, String)]) -> Self {
        let own = [(RECIPE, recipe.to_owned()), (IMAGE, image.to_owned())];
        let cut = |value: &String| value.chars().take(LONGEST).collect::<String>();
        Tags(own.iter().chain(more).map(|(name, value)| ((*name).to_owned(), cut(value))).collect())
    }

    /// Each with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of the tag with this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// As EC2's calls want them that make something, for each of these kinds of things.
    pub(super) fn specifications(&self, kinds: &[&str]) -> Vec<(String, String)> {
        let mut parameters = Vec::new();
        for (number, kind) in (1..).zip(kinds) {
            let name = format!("TagSpecification.{number}");
            parameters.push((format!("{name}.ResourceType"), (*kind).to_owned()));
            for (tag, (key, value)) in (1..).zip(self.iter()) {
                parameters.push((format!("{name}.Tag.{tag}.Key"), key.to_owned()));
                parameters.push((format!("{name}.Tag.{tag}.Value"), value.to_owned()));
            }
        }
        parameters
    }
}

//! The secret of the node, made at the first boot, from which the keys are derived that the node
//! makes for itself.

use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;
use osbuild_protocol::{KEY, LinkName, SecretKey};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};

use crate::data;

/// Its file on DATA.
const FILE: &str = "secret";
/// The permission bits of the file.
const MODE: u32 = 0o400;

/// The secret.
#[derive(Clone)]
pub struct NodeSecret(SecretKey);

impl NodeSecret {
    /// Takes the bytes.
    pub fn new(bytes: [u8; KEY]) -> Self {
        NodeSecret(SecretKey::new(bytes))
    }

    /// Reads the secret from DATA, and makes it if there is no whole one.
    pub fn make() -> Outcome<Self> {
        Self::make_in(&data::folder::open()?).explain(format_args!("keep {FILE} on DATA"))
    }

    fn make_in(folder: &Folder) -> Outcome<Self> {
        // A secret that cannot be read now is not replaced: peers know the node by its keys.
        let kept = folder.read(FILE, KEY as u64).explain("read it")?;
        if let Some(bytes) = kept.and_then(|bytes| bytes.try_into().ok()) {
            return Ok(NodeSecret::new(bytes));
        }
        let mut bytes = [0; KEY];
        getrandom(&mut bytes, GetRandomFlags::empty()).explain("ask for random bytes")?;
        let made = NodeSecret::new(bytes);
        folder.replace(FILE, made.0.reveal(), MODE).explain("write it")?;
        Ok(made)
    }

    /// The private key of a link of WireGuard: SHA-256 of the secret, a word and the link's name.
    /// No name of a link has the padding that could extend a hash to that of another one.
    pub fn wireguard_key(&self, link: &LinkName) -> SecretKey {
        let hash = Sha256::new().chain_update(self.0.reveal()).chain_update("wireguard ");
        SecretKey::new(hash.chain_update(link.as_str()).finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(&place.path().canonicalize().unwrap(), ".aside").unwrap();
        (place, folder)
    }

    #[test]
    fn a_secret_is_made_once_and_a_torn_one_again() {
        let (place, folder) = folder();
        let made = NodeSecret::make_in(&folder).unwrap();
        assert!(NodeSecret::make_in(&folder).unwrap().0 == made.0);
        std::fs::remove_file(place.path().join(FILE)).unwrap();
        std::fs::write(place.path().join(FILE), "torn").unwrap();
        assert!(NodeSecret::make_in(&folder).unwrap().0 != made.0);
    }

    #[test]
    fn a_secret_that_cannot_be_read_is_not_replaced() {
        let (place, folder) = folder();
        std::fs::create_dir(place.path().join(FILE)).unwrap();
        assert!(NodeSecret::make_in(&folder).is_err());
        assert!(place.path().join(FILE).is_dir());
    }

    #[test]
    fn each_link_has_a_key_of_its_own() {
        let secret = NodeSecret::new([7; KEY]);
        let key = |name| secret.wireguard_key(&LinkName::parse(name).unwrap());
        assert!(key("wg0") == key("wg0") && key("wg0") != key("wg1"));
        // `(head -c 32 /dev/zero | tr '\0' '\7'; printf 'wireguard wg0') | sha256sum`
        assert_eq!(key("wg0").reveal()[..4], [0x6a, 0x59, 0xde, 0xa0]);
    }
}

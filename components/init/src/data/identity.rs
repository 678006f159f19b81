//! Gives the disk and DATA identifiers of their own. All copies of an image have the image's
//! identifiers, and two of them in one machine could be mixed up. `osbuild flash` and the installer
//! change them; for all other disks the first boot does.

use std::fs::File;

use osbuild_abi::paths::DATA;
use osbuild_failure::{Explain, Outcome};
use osbuild_formats::gpt::Table;
use rustix::rand::{GetRandomFlags, getrandom};
use uuid::{Builder, Uuid, Version};

use crate::sys;

/// The table with identifiers of its own, if it has an image's.
pub fn of_table(table: &Table) -> Outcome<Option<Table>> {
    if is_own(table.disk_guid) {
        return Ok(None);
    }
    let mut own = table.clone();
    own.disk_guid = random()?;
    for partition in &mut own.partitions {
        partition.guid = random()?;
    }
    Ok(Some(own))
}

/// Gives the mounted file system of DATA an identifier of its own, if it has an image's.
pub fn of_file_system() -> Outcome {
    let root = File::open(DATA).explain(format_args!("open {DATA}"))?;
    if is_own(sys::ext4_uuid(&root).explain("read the file system's identifier")?) {
        return Ok(());
    }
    sys::set_ext4_uuid(&root, random()?).explain("change the file system's identifier")
}

/// Whether an identifier is random. An image's are made from names (RFC 9562, version 5).
fn is_own(identifier: Uuid) -> bool {
    identifier.get_version() == Some(Version::Random)
}

fn random() -> Outcome<Uuid> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty()).explain("ask for random bytes")?;
    Ok(Builder::from_random_bytes(bytes).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_formats::gpt::{Partition, guid_from_name};

    #[test]
    fn a_disk_gets_identifiers_of_its_own_once_and_nothing_else_changes() {
        let partition = Partition {
            number: 1,
            type_guid: guid_from_name("type"),
            guid: guid_from_name("partition"),
            first: 2048,
            last: 4095,
            attributes: 5,
            name: "DATA".to_owned(),
        };
        let image = Table { disk_guid: guid_from_name("disk"), partitions: vec![partition] };
        let own = of_table(&image).unwrap().unwrap();
        assert!(
            is_own(own.disk_guid)
                && is_own(own.partitions[0].guid)
                && own.disk_guid != own.partitions[0].guid
        );
        let mut back = own.clone();
        back.disk_guid = image.disk_guid;
        back.partitions[0].guid = image.partitions[0].guid;
        assert_eq!(back, image);
        assert_eq!(of_table(&own).unwrap(), None);
    }
}

//! Disks beside the node's own and folders of DATA, for pods: `[[volumes]]`. Their names and values
//! are those of the specs of `osbuild.v1`.

use crate::bounded::bounded;
use osbuild_protocol::{DiskId, MAX_VOLUMES, Volume, VolumeBacking, VolumeName};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(deserialize_with = "name")]
    name: VolumeName,
    #[serde(default, deserialize_with = "disk")]
    disk: Option<DiskId>,
    #[serde(default)]
    folder: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Disk {
    #[serde(default)]
    serial: String,
    #[serde(default)]
    wwid: String,
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VolumeName, D::Error> {
    let text = String::deserialize(deserializer)?;
    VolumeName::parse(&text).map_err(|refusal| D::Error::custom(refusal.reason))
}

fn disk<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DiskId>, D::Error> {
    let Disk { serial, wwid } = Disk::deserialize(deserializer)?;
    DiskId::parse(&serial, &wwid).map(Some).map_err(|refusal| D::Error::custom(refusal.reason))
}

/// Reads volumes, of which no two have the same name or the same disk.
pub fn volumes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Volume>, D::Error> {
    let mut volumes: Vec<Volume> = Vec::new();
    for Entry { name, disk, folder } in Vec::<Entry>::deserialize(deserializer)? {
        let backing = VolumeBacking::new(disk, folder);
        let backing = backing.map_err(|refusal| D::Error::custom(refusal.reason))?;
        if volumes.iter().any(|other| *other.name() == name) {
            return Err(D::Error::custom(format!("the volume `{name}` is there twice")));
        }
        let has_disk =
            |other: &&Volume| backing.disk().is_some() && other.backing().disk() == backing.disk();
        if let Some(other) = volumes.iter().find(has_disk) {
            let reason = format!("{backing} is that of the volume `{}` already", other.name());
            return Err(D::Error::custom(reason));
        }
        volumes.push(Volume::new(name, backing));
    }
    bounded(volumes, MAX_VOLUMES, "volumes")
}

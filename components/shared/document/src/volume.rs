//! Disks beside the node's own, for pods: `[[volumes]]`. Their names and values are those of the
//! specs of `osbuild.v1`.

use osbuild_protocol::{DiskId, Volume, VolumeName};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(deserialize_with = "name")]
    name: VolumeName,
    #[serde(deserialize_with = "disk")]
    disk: DiskId,
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

fn disk<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DiskId, D::Error> {
    let Disk { serial, wwid } = Disk::deserialize(deserializer)?;
    DiskId::parse(&serial, &wwid).map_err(|refusal| D::Error::custom(refusal.reason))
}

/// Reads volumes, of which no two have the same name or the same disk.
pub fn volumes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Volume>, D::Error> {
    let mut volumes: Vec<Volume> = Vec::new();
    for Entry { name, disk } in Vec::<Entry>::deserialize(deserializer)? {
        if volumes.iter().any(|other| *other.name() == name) {
            return Err(D::Error::custom(format!("the volume `{name}` is there twice")));
        }
        if let Some(other) = volumes.iter().find(|other| *other.disk() == disk) {
            let other = other.name();
            let reason =
                format!("the disk with the {disk} is that of the volume `{other}` already");
            return Err(D::Error::custom(reason));
        }
        volumes.push(Volume::new(name, disk));
    }
    Ok(volumes)
}

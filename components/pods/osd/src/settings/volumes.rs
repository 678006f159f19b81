//! `Volumes.osbuild`: disks beside the node's own and folders of DATA, for pods.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET_BY, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_abi::paths::VOLUME_MOUNTS;
use osbuild_cosi::v1::{VolumeDisk, VolumeSpec, VolumeStatusSpec};
use osbuild_protocol::{
    DiskId, Observed, Refusal, Setting, SettingName, Volume, VolumeBacking, VolumeName,
    VolumePhase, VolumeState,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Volumes", "Volume"),
    columns: &[NAME, column("Serial", "{.disk.serial}"), column("WWID", "{.disk.wwid}")],
    status_names: names("VolumeStatuses", "VolumeStatus"),
    status_columns: &[
        NAME,
        column("State", "{.phase}"),
        column("Path", "{.path}"),
        column("Device", "{.device}"),
        column("Bytes", "{.bytes}"),
        SET_BY,
        ERROR,
    ],
    // A disk that is blank gets a file system, and the kernel reads one that was made elsewhere.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<VolumeSpec>,
    write: spec::write::<VolumeSpec>,
    subject: |settings| format!("a volume `{}`", VolumeSpec::of(settings).name),
    conflict,
    covers: |name| matches!(name, SettingName::Volume(_)),
    statuses,
};

const NAME: PrintColumn = column("Name", "{.name}");

impl HostSpec for VolumeSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let VolumeSpec { name, disk, folder } = self;
        let disk = disk.as_ref().map(|VolumeDisk { serial, wwid }| DiskId::parse(serial, wwid));
        let backing = VolumeBacking::new(disk.transpose()?, *folder)?;
        Ok(vec![Setting::Volume(Volume::new(VolumeName::parse(name)?, backing))])
    }

    fn of(settings: &[Setting]) -> Self {
        let volume = settings.iter().find_map(|setting| match setting {
            Setting::Volume(volume) => Some(VolumeSpec {
                name: volume.name().to_string(),
                disk: volume.backing().disk().map(disk_of),
                folder: *volume.backing() == VolumeBacking::Folder,
            }),
            _ => None,
        });
        volume.unwrap_or_default()
    }
}

fn disk_of(disk: &DiskId) -> VolumeDisk {
    let text = disk.text().as_str().to_owned();
    match disk {
        DiskId::Serial(_) => VolumeDisk { serial: text, ..VolumeDisk::default() },
        DiskId::Wwid(_) => VolumeDisk { wwid: text, ..VolumeDisk::default() },
    }
}

/// Why two volumes exclude each other.
fn conflict(settings: &[Setting]) -> Option<String> {
    let volumes: Vec<&Volume> = settings.iter().filter_map(volume).collect();
    let mut pairs = volumes
        .iter()
        .enumerate()
        .flat_map(|(index, one)| volumes[index + 1..].iter().map(move |other| (one, other)));
    let disk = |volume: &Volume| volume.backing().disk().cloned();
    let (one, other) =
        pairs.find(|(one, other)| disk(one).is_some() && disk(one) == disk(other))?;
    let (one, other, disk) = (one.name(), other.name(), one.backing());
    Some(format!("the volumes `{one}` and `{other}` both have {disk}"))
}

fn volume(setting: &Setting) -> Option<&Volume> {
    match setting {
        Setting::Volume(volume) => Some(volume),
        _ => None,
    }
}

/// A status for each resource, with its identifier, and for each other volume, with its name.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let others = report.others(TYPE.covers).filter_map(|observed| {
        let status = state(&observed.name, Some(observed));
        let status = VolumeStatusSpec { error: observed.error.clone(), ..status };
        Some((status.name.clone(), spec::both(&status))).filter(|(name, _)| !name.is_empty())
    });
    others.chain(report.wanted.iter().map(|wanted| status(report, wanted))).collect()
}

fn status(report: &Report, wanted: &Wanted) -> (String, Spec) {
    let name = wanted.settings.first().map(Setting::name);
    let status = name.map(|name| state(&name, report.observed(&name))).unwrap_or_default();
    let status =
        VolumeStatusSpec { error: report.error(wanted), version: wanted.version.clone(), ..status };
    (wanted.id.clone(), spec::both(&status))
}

/// The status of a volume as `init` has it; `refused` if `init` does not have it.
fn state(name: &SettingName, observed: Option<&Observed>) -> VolumeStatusSpec {
    let SettingName::Volume(name) = name else { return VolumeStatusSpec::default() };
    let found = observed.and_then(|observed| VolumeState::parse(&observed.current));
    let refused = VolumeState { phase: VolumePhase::Refused, ..VolumeState::default() };
    let VolumeState { phase, device, bytes } = found.unwrap_or(refused);
    let source = observed.and_then(|observed| observed.source);
    VolumeStatusSpec {
        name: name.to_string(),
        phase: phase.word().to_owned(),
        path: format!("{VOLUME_MOUNTS}/{name}"),
        device,
        bytes,
        set_by: source.map_or("", |source| source.name()).to_owned(),
        ..VolumeStatusSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_ranks::Source;

    fn observed(line: &str, source: Option<Source>, current: &str, error: &str) -> Observed {
        let wanted = Setting::parse(line).unwrap();
        let (current, error) = (current.to_owned(), error.to_owned());
        Observed { name: wanted.name(), wanted: Some(wanted), source, current, error }
    }

    fn yaml(report: &Report, id: &str) -> String {
        TYPE.statuses(report)[id].yaml.clone()
    }

    #[test]
    fn a_status_shows_the_phase_and_where_the_volume_is() {
        let line = "volume db serial=a%20b";
        let settings = vec![Setting::parse(line).unwrap()];
        let (id, version) = ("mine".to_owned(), "3".to_owned());
        let wanted = [Wanted { id, version, settings, unreadable: None }];
        let all = [
            observed(line, Some(Source::Api), "mounted device=vdb bytes=1073741824", ""),
            observed("volume old serial=c", None, "leaving device=vdc bytes=1", "it is in use"),
        ];
        let no_errors = BTreeMap::new();
        let report = Report {
            wanted: &wanted,
            observed: &all,
            errors: &no_errors,
            pods: &[],
            wireguard: &[],
            cluster: None,
        };
        assert_eq!(
            yaml(&report, "mine"),
            "name: db\nphase: mounted\npath: /var/mnt/db\ndevice: vdb\nbytes: 1073741824\nsetBy: \
             api\nversion: \"3\"\n"
        );
        assert_eq!(
            yaml(&report, "old"),
            "name: old\nphase: leaving\npath: /var/mnt/old\ndevice: vdc\nbytes: 1\nerror: it is in \
             use\n"
        );
        let errors = BTreeMap::from([(all[0].name.clone(), "the image allows no".to_owned())]);
        assert_eq!(
            yaml(&Report { observed: &[], errors: &errors, ..report }, "mine"),
            "name: db\nphase: refused\npath: /var/mnt/db\nerror: the image allows no\nversion: \
             \"3\"\n"
        );
    }

    #[test]
    fn two_volumes_do_not_share_a_disk() {
        let settings = |lines: &[&str]| -> Vec<Setting> {
            lines.iter().map(|line| Setting::parse(line).unwrap()).collect()
        };
        let apart = settings(&[
            "volume a serial=x",
            "volume b wwid=x",
            "volume c serial=y",
            "volume d folder",
            "volume e folder",
        ]);
        assert_eq!(conflict(&apart), None);
        let both = settings(&["volume a serial=x%20y", "volume b serial=x%20y"]);
        let reason = "the volumes `a` and `b` both have the disk with the serial `x y`";
        assert_eq!(conflict(&both).as_deref(), Some(reason));
    }
}

//! Decides which disk may be written, and explains why others may not.

use super::host_disk::{Found, HostDisk, find};
use super::uses::Use;
use crate::error::{Error, Kind, Problem, Result};
use crate::report::bytes;
use osbuild_formats::fat;
use std::path::{Path, PathBuf};

/// The requirements of an image on its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// The recipe.
    pub recipe: String,
    /// Its board.
    pub board: String,
    /// Size of the image in bytes.
    pub size: u64,
    /// The image's sector size in bytes.
    pub sector_size: u32,
}

impl Requirements {
    /// Why the image cannot be written to this disk, even if the user insists.
    fn obstacles(&self, disk: &HostDisk) -> Vec<Problem> {
        let Requirements { recipe, board, size, sector_size } = self;
        let (path, its) = (disk.device.display(), disk.sector_size);
        let mut problems = Vec::new();
        if disk.is_read_only {
            problems.push(
                Problem::new(format!("`{path}` is write-protected"))
                    .hint("look for a switch on the card or stick"),
            );
        }
        if disk.size < *size {
            let sizes = format!("it has {}, the image needs {}", bytes(disk.size), bytes(*size));
            problems.push(
                Problem::new(format!("`{path}` is too small for the image of `{recipe}`"))
                    .cause(sizes),
            );
        }
        if its != *sector_size {
            let message = format!(
                "`{path}` has sectors of {its} bytes, but the image of `{recipe}` is made for \
                 {sector_size}"
            );
            let esp = fat::min_size(its.into()) >> 20;
            problems.push(Problem::new(message).hint(format!(
                "set `sector-size = {its}` in `boards/{board}.toml`, or in a board that inherits \
                 it, with `esp-size-mib` of {esp} or more"
            )));
        }
        problems
    }

    /// Whether the disk is offered when the user names none.
    pub fn fits(&self, disk: &HostDisk) -> bool {
        self.obstacles(disk).is_empty() && warnings(disk).is_empty()
    }

    /// Why the disk is not offered; empty if it is.
    pub fn reasons(&self, disk: &HostDisk) -> Vec<String> {
        let obstacles = self.obstacles(disk).into_iter().map(|problem| problem.message);
        obstacles.chain(warnings(disk)).collect()
    }

    /// The disk that the user named, once or twice.
    ///
    /// # Errors
    /// It is not a disk, or the image cannot be written to it; or it has warnings, and was not
    /// named twice.
    pub fn choose(&self, named: &[PathBuf]) -> Result<HostDisk> {
        let disk = self.named(&named[0])?;
        let twice = match named {
            [_] => false,
            [_, other] => {
                let other = self.named(other)?;
                if other.device != disk.device {
                    let both =
                        format!("`{}` and `{}`", disk.device.display(), other.device.display());
                    return Err(Error::usage(format!(
                        "{both} are two disks, but only one is written at a time"
                    )));
                }
                true
            }
            _ => return Err(Error::usage("name the disk once or twice")),
        };
        let obstacles = self.obstacles(&disk);
        if !obstacles.is_empty() {
            return Err(Error::many(Kind::Usage, obstacles));
        }
        match warnings(&disk) {
            warnings if warnings.is_empty() || twice => Ok(disk),
            warnings => {
                let path = disk.device.display();
                let contents = format!("its contents: {}", disk.contents);
                let error = Error::usage(warnings.join("; ")).cause(contents);
                Err(error
                    .hint(format!("to erase it, name it twice: `--device {path} --device {path}`")))
            }
        }
    }

    fn named(&self, path: &Path) -> Result<HostDisk> {
        let (shown, recipe) = (path.display(), &self.recipe);
        match find(path) {
            Found::Disk(disk) => Ok(*disk),
            Found::Partition(whole) => Err(Error::usage(format!(
                "`{shown}` is a partition, but a node needs a whole disk"
            ))
            .hint(format!("name its disk: `--device {}`", whole.display()))),
            Found::Nothing => Err(Error::usage(format!("`{shown}` is not a disk"))
                .hint(format!("list the disks: `cargo osbuild flash {recipe}`"))),
        }
    }
}

/// Why the user might not want to write to this disk.
fn warnings(disk: &HostDisk) -> Vec<String> {
    let path = disk.device.display();
    let places = |places: Vec<&str>| {
        places.iter().map(|place| format!("`{place}`")).collect::<Vec<_>>().join(", ")
    };
    let system = disk
        .uses
        .iter()
        .filter_map(|what| if let Use::System(place) = what { Some(place.as_str()) } else { None });
    let mounted = disk.uses.iter().filter_map(|what| {
        if let Use::Mounted(place) = what { Some(place.as_str()) } else { None }
    });
    let (system, mounted): (Vec<_>, Vec<_>) = (system.collect(), mounted.collect());
    let mut warnings = Vec::new();
    if !system.is_empty() {
        warnings.push(format!("`{path}` has this machine's own system: {}", places(system)));
    }
    if !mounted.is_empty() {
        warnings.push(format!("`{path}` is mounted: {}", places(mounted)));
    }
    if disk.uses.contains(&Use::Swap) {
        warnings.push(format!("this machine swaps to `{path}`"));
    }
    if !disk.is_removable {
        warnings.push(format!("`{path}` is a fixed disk"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ship::flash::host_disk::Identity;

    fn stick() -> HostDisk {
        HostDisk {
            device: "/dev/sdx".into(),
            name: "sdx".into(),
            model: Some("Stick".into()),
            identity: Identity { diskseq: Some(7), serial: Some("A1".into()), size: 8 << 30 },
            bus: "usb".into(),
            size: 8 << 30,
            sector_size: 512,
            is_removable: true,
            is_read_only: false,
            uses: Vec::new(),
            contents: "FAT `PHOTOS`".into(),
        }
    }

    fn requirements() -> Requirements {
        Requirements {
            recipe: "edge".into(),
            board: "uefi".into(),
            size: 600 << 20,
            sector_size: 512,
        }
    }

    fn reasons(disk: HostDisk) -> String {
        requirements().reasons(&disk).join("; ")
    }

    #[test]
    fn only_an_unused_removable_disk_is_offered() {
        assert!(requirements().fits(&stick()));
        assert_eq!(
            reasons(HostDisk { is_removable: false, ..stick() }),
            "`/dev/sdx` is a fixed disk"
        );
        assert_eq!(
            reasons(HostDisk { is_read_only: true, ..stick() }),
            "`/dev/sdx` is write-protected"
        );
        assert_eq!(
            reasons(HostDisk { size: 599 << 20, ..stick() }),
            "`/dev/sdx` is too small for the image of `edge`"
        );
        let uses = vec![Use::System("/boot".into()), Use::Mounted("/mnt".into()), Use::Swap];
        assert_eq!(
            reasons(HostDisk { uses, ..stick() }),
            "`/dev/sdx` has this machine's own system: `/boot`; `/dev/sdx` is mounted: `/mnt`; \
             this machine swaps to `/dev/sdx`"
        );
    }

    #[test]
    fn a_different_sequence_or_serial_number_or_size_is_another_disk() {
        let named = stick().identity;
        assert!(stick().is_still(&named).is_ok());
        let others = [
            Identity { diskseq: Some(8), ..named.clone() },
            Identity { serial: Some("A2".into()), ..named.clone() },
            Identity { serial: None, ..named.clone() },
            Identity { size: 9 << 30, ..named.clone() },
        ];
        for identity in others {
            let error = HostDisk { identity, ..stick() }.is_still(&named).unwrap_err().to_string();
            assert!(
                error.starts_with("error: `/dev/sdx` is not the disk that was named\n"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_different_sector_size_is_refused_with_the_settings_to_change() {
        let problems = requirements().obstacles(&HostDisk { sector_size: 4096, ..stick() });
        assert_eq!(
            problems[0].message,
            "`/dev/sdx` has sectors of 4096 bytes, but the image of `edge` is made for 512"
        );
        assert_eq!(
            problems[0].hint.as_deref(),
            Some(
                "set `sector-size = 4096` in `boards/uefi.toml`, or in a board that inherits it, \
                 with `esp-size-mib` of 257 or more"
            )
        );
    }
}

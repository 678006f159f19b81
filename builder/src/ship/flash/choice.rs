//! Which disk may be written, and why another may not.

use super::disk::{Disk, Found, find};
use super::uses::Use;
use crate::error::{Error, Kind, Problem, Result};
use crate::report::bytes;
use osbuild_formats::fat;
use std::path::{Path, PathBuf};

/// What an image asks of a disk.
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
    /// Why the image cannot be on this disk, whatever the user says.
    fn obstacles(&self, disk: &Disk) -> Vec<Problem> {
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
            let sizes = format!("it has {}, and the image {}", bytes(disk.size), bytes(*size));
            problems.push(
                Problem::new(format!("`{path}` is too small for the image of `{recipe}`"))
                    .cause(sizes),
            );
        }
        if its != *sector_size {
            let message = format!(
                "`{path}` has sectors of {its} bytes, and the image of `{recipe}` is made for \
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
    pub fn fits(&self, disk: &Disk) -> bool {
        self.obstacles(disk).is_empty() && warnings(disk).is_empty()
    }

    /// Why the disk is not offered; nothing if it is.
    pub fn reasons(&self, disk: &Disk) -> Vec<String> {
        let obstacles = self.obstacles(disk).into_iter().map(|problem| problem.message);
        obstacles.chain(warnings(disk)).collect()
    }

    /// The disk that the user named, once or twice.
    ///
    /// # Errors
    /// It is no disk, or the image cannot be on it; or it is not one of those that people flash,
    /// and was not named twice.
    pub fn choose(&self, named: &[PathBuf]) -> Result<Disk> {
        let disk = self.named(&named[0])?;
        let twice = match named {
            [_] => false,
            [_, other] => {
                let other = self.named(other)?;
                if other.device != disk.device {
                    let both =
                        format!("`{}` and `{}`", disk.device.display(), other.device.display());
                    return Err(Error::usage(format!(
                        "{both} are two disks, and one is written at a time"
                    )));
                }
                true
            }
            _ => return Err(Error::usage("a disk is named once or twice")),
        };
        let obstacles = self.obstacles(&disk);
        if !obstacles.is_empty() {
            return Err(Error::many(Kind::Usage, obstacles));
        }
        match warnings(&disk) {
            warnings if warnings.is_empty() || twice => Ok(disk),
            warnings => {
                let (path, on_it) = (disk.device.display(), format!("on it: {}", disk.contents));
                let error = Error::usage(warnings.join("; ")).cause(on_it);
                Err(error.hint(format!(
                    "if all of it may be lost, name it twice: `--device {path} --device {path}`"
                )))
            }
        }
    }

    fn named(&self, path: &Path) -> Result<Disk> {
        let (shown, recipe) = (path.display(), &self.recipe);
        match find(path) {
            Found::Disk(disk) => Ok(*disk),
            Found::Partition(whole) => Err(Error::usage(format!(
                "`{shown}` is a partition, and a node needs a whole disk"
            ))
            .hint(format!("name the disk that it is on: `--device {}`", whole.display()))),
            Found::Nothing => Err(Error::usage(format!("`{shown}` is not a disk"))
                .hint(format!("see which there are: `cargo osbuild flash {recipe}`"))),
        }
    }
}

/// Why nobody should write to this disk by mistake.
fn warnings(disk: &Disk) -> Vec<String> {
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
    use crate::ship::flash::disk::Identity;

    fn stick() -> Disk {
        Disk {
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

    fn reasons(disk: Disk) -> String {
        requirements().reasons(&disk).join("; ")
    }

    #[test]
    fn an_idle_removable_disk_is_offered_and_no_other() {
        assert!(requirements().fits(&stick()));
        assert_eq!(reasons(Disk { is_removable: false, ..stick() }), "`/dev/sdx` is a fixed disk");
        assert_eq!(
            reasons(Disk { is_read_only: true, ..stick() }),
            "`/dev/sdx` is write-protected"
        );
        assert_eq!(
            reasons(Disk { size: 599 << 20, ..stick() }),
            "`/dev/sdx` is too small for the image of `edge`"
        );
        let uses = vec![Use::System("/boot".into()), Use::Mounted("/mnt".into()), Use::Swap];
        assert_eq!(
            reasons(Disk { uses, ..stick() }),
            "`/dev/sdx` has this machine's own system: `/boot`; `/dev/sdx` is mounted: `/mnt`; \
             this machine swaps to `/dev/sdx`"
        );
    }

    #[test]
    fn a_disk_of_another_number_serial_number_or_size_is_not_the_one_that_was_named() {
        let named = stick().identity;
        assert!(stick().is_still(&named).is_ok());
        let others = [
            Identity { diskseq: Some(8), ..named.clone() },
            Identity { serial: Some("A2".into()), ..named.clone() },
            Identity { serial: None, ..named.clone() },
            Identity { size: 9 << 30, ..named.clone() },
        ];
        for identity in others {
            let error = Disk { identity, ..stick() }.is_still(&named).unwrap_err().to_string();
            assert!(
                error.starts_with("error: `/dev/sdx` is not the disk that was named\n"),
                "{error}"
            );
        }
    }

    #[test]
    fn other_sectors_are_refused_with_what_to_set() {
        let problems = requirements().obstacles(&Disk { sector_size: 4096, ..stick() });
        assert_eq!(
            problems[0].message,
            "`/dev/sdx` has sectors of 4096 bytes, and the image of `edge` is made for 512"
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

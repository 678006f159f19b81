//! `osbuild flash`

use super::{Session, image};
use crate::cli;
use crate::error::Result;
use crate::plan::{Locked, Plan};
use crate::ship::flash::{self, Requirements};
use serde_json::json;

/// `osbuild flash`: builds the image and writes it to the named disk. Without a disk, lists those
/// that fit.
pub fn run(session: &Session, flags: &cli::Flash) -> Result<()> {
    session.check_set(&[&flags.recipe])?;
    let (plan, signing) = session.locked_for(&flags.recipe, &flags.signing)?;
    let requirements = requirements(&plan);
    if flags.device.is_empty() {
        list(session, &requirements);
        return Ok(());
    }
    // Check the disk before the build, which may take hours, and again after it: another disk may
    // have the name by then.
    let named = requirements.choose(&flags.device)?.identity;
    let built = image::build(session, &plan, signing.as_ref(), flags.sources.clone())?;
    let disk = requirements.choose(&flags.device)?;
    disk.is_still(&named)?;
    session.report.note(format!(
        "overwriting everything on `{}`: {}",
        disk.device.display(),
        disk.contents
    ));
    let flashed = flash::flash(session.report, &built.image, &disk)?;
    session.report.note(format!("`{}` is ready and can be unplugged", disk.device.display()));
    session.data(|| json!(flashed), || flashed.device.display().to_string());
    Ok(())
}

fn requirements(plan: &Plan<Locked>) -> Requirements {
    let board = &plan.board;
    Requirements {
        recipe: plan.recipe.clone(),
        board: board.name.clone(),
        size: board.image_size_mib() << 20,
        sector_size: board.sector_size,
    }
}

/// Lists the disks that fit on stdout, and explains on stderr why others do not.
fn list(session: &Session, requirements: &Requirements) {
    let disks = flash::all();
    requirements.others(&disks).iter().for_each(|line| session.report.note(line));
    let fit: Vec<_> = disks.into_iter().filter(|disk| requirements.fits(disk)).collect();
    let name = &requirements.recipe;
    session.report.note(match fit.first() {
        Some(disk) => format!(
            "write to a disk: `cargo osbuild flash {name} --device {}`",
            disk.device.display()
        ),
        None => "no disk is offered: plug one in, or name one of the others twice".to_owned(),
    });
    if session.common.json || !fit.is_empty() {
        session.data(|| json!(fit), || flash::list(&fit));
    }
}

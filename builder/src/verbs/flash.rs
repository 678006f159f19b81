//! `osbuild flash`.

use super::{Session, image};
use crate::cli;
use crate::error::Result;
use crate::plan::{Locked, Plan};
use crate::ship::flash::{self, Requirements};
use serde_json::json;

/// Lists the disks that fit, or builds the image and puts it onto the disk that was named.
pub fn run(session: &Session, flags: &cli::Flash) -> Result<()> {
    let (plan, signing) = session.locked_for(&flags.recipe, &flags.signing)?;
    let requirements = requirements(&plan);
    if flags.device.is_empty() {
        list(session, &requirements);
        return Ok(());
    }
    // What cannot be is said before hours are spent on the image. In those hours disks come and go,
    // and another one gets the name.
    let named = requirements.choose(&flags.device)?.identity;
    let built = image::build(session, &plan, signing.as_ref(), flags.sources.clone())?;
    let disk = requirements.choose(&flags.device)?;
    disk.is_still(&named)?;
    session.report.note(format!(
        "this overwrites all that is on `{}`: {}",
        disk.device.display(),
        disk.contents
    ));
    let flashed = flash::flash(session.report, &built.image, &disk)?;
    session
        .report
        .note(format!("`{}` holds the node, and can be unplugged", disk.device.display()));
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

/// The disks that fit go to stdout; about the others, people are told why.
fn list(session: &Session, requirements: &Requirements) {
    let disks = flash::all();
    requirements.others(&disks).iter().for_each(|line| session.report.note(line));
    let fit: Vec<_> = disks.into_iter().filter(|disk| requirements.fits(disk)).collect();
    let name = &requirements.recipe;
    session.report.note(match fit.first() {
        Some(disk) => format!(
            "write to one of these: `cargo osbuild flash {name} --device {}`",
            disk.device.display()
        ),
        None => "no disk is offered: plug one in, or name another one twice".to_owned(),
    });
    if session.common.json || !fit.is_empty() {
        session.data(|| json!(fit), || flash::list(&fit));
    }
}

//! `osbuild verify`: needs a project only for `--key` and `--against`.

use super::{Session, image, not_releases, now, read_argument};
use crate::cli::{self, Common};
use crate::engine::executor::Rebuild;
use crate::engine::remote::Trust;
use crate::error::{Error, Kind, Result};
use crate::plan::Date;
use crate::produce::out::Built;
use crate::report::Report;
use crate::ship::audit::diff::is_repository;
use crate::ship::audit::verify::{Policy, Reader, Rebuilt, Verification, verify, verify_release};
use crate::ship::tuf::Root;
use osbuild_signatures::certificate::Certificate;
use std::path::Path;

/// `osbuild verify`
pub fn run(common: &Common, report: &Report, flags: &cli::Verify) -> Result<()> {
    check(flags)?;
    let mut policy = Policy {
        signed: !flags.unsigned,
        db: flags.cert.iter().map(|path| certificate(path)).collect::<Result<_>>()?,
        dbx: Vec::new(),
        day: flags.as_of.map_or_else(|| now().map(Date::from_unix), Ok)?,
    };
    let session = || Session::begin(common.clone(), report);
    if let Some(name) = &flags.key {
        let session = session()?;
        let (db, dbx) = session.keys(name)?.image_trust()?;
        policy.db.extend(db);
        policy.dbx.extend(dbx);
    }
    if flags.file.is_dir() {
        let root = root(flags, session)?;
        check_folder(&flags.file)?;
        let reader =
            Reader { root, channel: flags.channel, all: flags.all, memory: flags.memory.clone() };
        return print(common, report, &verify_release(&flags.file, &reader, &policy)?);
    }
    if flags.unsigned {
        report.note("`--unsigned`: signatures are not checked");
    }
    let rebuilt = flags.against.as_ref().map(|recipe| rebuilt(session()?, recipe, flags));
    let (_built, rebuilt) = rebuilt.transpose()?.unzip();
    let found = verify(&flags.file, &policy, rebuilt.as_ref())?;
    print(common, report, &found)
}

/// Refuses flags without a trusted certificate, and flags that do not apply to the file.
fn check(flags: &cli::Verify) -> Result<()> {
    if flags.cert.is_empty() && flags.key.is_none() && !flags.unsigned {
        let hint = "name certificates with `--cert FILE`, keys of the project with `--key NAME`, \
                    or skip signatures with `--unsigned`";
        return Err(Error::usage("no trusted certificate given").hint(hint));
    }
    let (is_folder, file) = (flags.file.is_dir(), flags.file.display());
    let of_folders = [
        ("root", flags.root.is_some()),
        ("channel", flags.channel.is_some()),
        ("all", flags.all),
        ("memory", flags.memory.is_some()),
    ];
    let of_files = [("against", flags.against.is_some())];
    let wrong = if is_folder { &of_files[..] } else { &of_folders[..] }
        .iter()
        .find(|(_, is_there)| *is_there);
    match wrong {
        Some((name, _)) if is_folder => {
            Err(Error::usage(format!("`--{name}` has no effect: `{file}` is a folder"))
                .hint(format!("name the UKI in `{file}/targets`")))
        }
        Some((name, _)) => {
            Err(Error::usage(format!("`--{name}` has no effect: `{file}` is not a folder")))
        }
        None => Ok(()),
    }
}

/// Refuses a folder without metadata, such as `out/RECIPE`, which nobody has signed: its signature
/// is not wrong. One whose metadata is incomplete is left to the check of signatures.
fn check_folder(folder: &Path) -> Result<()> {
    if is_repository(folder) { Ok(()) } else { Err(not_releases(folder)) }
}

fn print(common: &Common, report: &Report, found: &Verification) -> Result<()> {
    report.data(match common.json {
        true => serde_json::to_string(found).expect("a verification always serializes"),
        false => found.to_string(),
    });
    found.outcome()
}

/// The root of trust from the command line, or that of the keys.
fn root<'a>(flags: &cli::Verify, session: impl Fn() -> Result<Session<'a>>) -> Result<Root> {
    match (&flags.root, &flags.key) {
        (Some(path), _) => {
            let root = Root::parse(&read_argument(path)?);
            root.map_err(|error| {
                Error { kind: Kind::Usage, ..error }
                    .cause(format!("while reading `{}`", path.display()))
            })
        }
        (None, Some(name)) => {
            // The oldest root, as in a node with an old image.
            let mut roots = session()?.keys(name)?.roots()?.into_iter();
            roots
                .next()
                .ok_or_else(|| Error::build(format!("the keys `{name}` have no root of trust")))
        }
        (None, None) if flags.unsigned => Err(Error::usage(format!(
            "`{}` is a folder, but a release is always signed",
            flags.file.display()
        ))
        .hint("omit `--unsigned`, and name the root of trust with `--root root.json`")),
        (None, None) => Err(Error::usage(format!(
            "`{}` is a folder, but no root of trust is given",
            flags.file.display()
        ))
        .hint("name the root of trust with `--root root.json`")),
    }
}

/// The products to compare with. They stay as they are until the build is dropped. A comparison
/// with what a cache has would prove nothing, so none is asked.
fn rebuilt(mut session: Session, recipe: &str, flags: &cli::Verify) -> Result<(Built, Rebuilt)> {
    session.trust = Trust::Here;
    let rebuild = if flags.rebuild { Rebuild::Everything } else { Rebuild::Nothing };
    let built = image::unsigned(&session, recipe, flags.sources.clone(), rebuild)?;
    let rebuilt = Rebuilt {
        recipe: recipe.to_owned(),
        image: built.image.clone(),
        uki: built.uki.clone(),
        initramfs: built.initramfs.clone(),
        steps: built.steps.clone(),
        has_run: flags.has_run,
    };
    Ok((built, rebuilt))
}

fn certificate(path: &Path) -> Result<Certificate> {
    Certificate::from_pem(&read_argument(path)?).map_err(|error| {
        Error::usage(format!("`{}` has no certificate", path.display()))
            .cause(error)
            .hint("the certificate of `keys/NAME` is `keys/NAME/db.crt`")
    })
}

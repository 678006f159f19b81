//! `fuzz seeds FOLDER` writes the seeds of each target to a folder with its name, and prints the
//! names. `fuzz replay TARGET FILE…` runs one target on files, and panics if a property does not
//! hold.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: fuzz seeds FOLDER\n       fuzz replay TARGET FILE...";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["seeds", folder] => seeds(Path::new(folder)),
        ["replay", target, ref files @ ..] if !files.is_empty() => replay(target, files),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn seeds(folder: &Path) -> Result<(), Box<dyn Error>> {
    for target in fuzz::TARGETS {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
        println!("{}", target.name);
    }
    Ok(())
}

fn replay(name: &str, files: &[&str]) -> Result<(), Box<dyn Error>> {
    let target = fuzz::find(name).ok_or_else(|| format!("there is no target `{name}`"))?;
    for file in files {
        let outcome = target.check(&fs::read(file)?);
        println!("{file}: {outcome:?}");
    }
    Ok(())
}

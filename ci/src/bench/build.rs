//! How long builds take, each in a copy of the checkout.

use super::Row;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often what is quick is measured; the fastest counts.
const ROUNDS: usize = 5;

/// A copy of the checkout that builds.
struct Builder<'a> {
    site: &'a Site<'a>,
    copy: PathBuf,
}

pub fn rows(site: &Site, cold: bool) -> Result<Vec<Row>> {
    let builder = Builder { site, copy: site.root.join("out/ci/bench") };
    site.copy_to(&builder.copy)?;
    let mut rows = Vec::new();
    builder.build(&[])?;
    if cold {
        rows.push(Row::time("cold build, with sources", builder.build(&["--rebuild"])?));
    }
    rows.push(Row::time("no-op build", builder.fastest(|_| Ok(()))?).below(Duration::from_millis(100)));
    let out = builder.copy.join("out").join(RECIPE);
    let nothing = |_| fs::remove_dir_all(&out).or_build(|| "cannot remove the output".into());
    rows.push(Row::time("binaries there, nothing assembled", builder.fastest(nothing)?).below(Duration::from_secs(2)));
    let hosts = |_| {
        edit(&builder.copy.join("recipes/node.toml"), |text| {
            text.replacen("::1 localhost", &format!("::1 localhost at-{}", now()), 1)
        })
    };
    rows.push(Row::time("one changed file in [files]", builder.fastest(hosts)?).below(Duration::from_secs(1)));
    let line = |text: &str| format!("{text}\n#[used]\nstatic BENCH: u64 = {};\n", now() as u64);
    edit(&builder.copy.join("components/init/src/main.rs"), line)?;
    rows.push(Row::time("one changed line in init", builder.build(&[])?).below(Duration::from_secs(15)));
    Ok(rows)
}

impl Builder<'_> {
    fn build(&self, flags: &[&str]) -> Result<Duration> {
        let mut osbuild = self.site.osbuild()?;
        osbuild.current_dir(&self.copy).args(["build", RECIPE, "--yes"]).args(flags);
        let started = Instant::now();
        self.site.finish("bench-build", &mut osbuild)?;
        Ok(started.elapsed())
    }

    /// The fastest of some builds, before each of which something is done.
    fn fastest(&self, before: impl Fn(usize) -> Result<()>) -> Result<Duration> {
        let mut fastest = Duration::MAX;
        for round in 0..ROUNDS {
            before(round)?;
            fastest = fastest.min(self.build(&[])?);
        }
        Ok(fastest)
    }
}

fn edit(path: &Path, change: impl Fn(&str) -> String) -> Result<()> {
    let cannot = || format!("cannot change `{}`", path.display());
    let text = fs::read_to_string(path).or_build(cannot)?;
    fs::write(path, change(&text)).or_build(cannot)
}

/// Nanoseconds since 1970: a text that no store has seen.
fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos())
}

//! Build times, measured in a copy of the checkout.

use super::Row;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rounds of each quick measurement. The fastest counts.
const ROUNDS: usize = 5;

/// `USER_HZ`: clock ticks per second on both architectures.
const TICKS: u64 = 100;

/// The time that signing may add to a build.
const SIGNING: Duration = Duration::from_millis(300);

/// A copy of the checkout for builds.
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
        rows.extend(builder.cold()?);
    }
    rows.push(
        Row::time("no-op build", builder.fastest(&[], |_| Ok(()))?)
            .below(Duration::from_millis(100)),
    );
    let out = builder.copy.join("out").join(RECIPE);
    let remove_output = || fs::remove_dir_all(&out).or_build(|| "cannot remove the output".into());
    let signed = builder.fastest(&[], |_| remove_output())?;
    let unsigned = builder.fastest(&["--unsigned"], |_| remove_output())?;
    rows.push(Row::time("assembly from existing layers", signed).below(Duration::from_secs(2)));
    rows.push(Row::time("signing's share of that", signed.saturating_sub(unsigned)).below(SIGNING));
    remove_output()?;
    rows.push(Row::time(
        "layers from existing binaries",
        builder.build(&["--rebuild=layer,data"])?,
    ));
    let groups = |_| {
        edit(&builder.copy.join("recipes/node.toml"), |text| {
            text.replacen("root:x:0:\\n", &format!("root:x:0:\\nat{}:x:1:\\n", now()), 1)
        })
    };
    rows.push(
        Row::time("one changed file in [files]", builder.fastest(&[], groups)?)
            .below(Duration::from_secs(1)),
    );
    let line = |text: &str| format!("{text}\n#[used]\nstatic BENCH: u64 = {};\n", now() as u64);
    edit(&builder.copy.join("components/init/src/main.rs"), line)?;
    rows.push(
        Row::time("one changed line in init", builder.build(&[])?).below(Duration::from_secs(15)),
    );
    Ok(rows)
}

impl Builder<'_> {
    /// A build that runs every step. The aim is its processor time divided by the number of
    /// processors, plus a tenth.
    fn cold(&self) -> Result<[Row; 2]> {
        let before = processor_time()?;
        let wall = self.build(&["--rebuild"])?;
        let busy = processor_time()?.saturating_sub(before);
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Ok([
            Row::time("cold build, with sources", wall).below(busy / cores * 11 / 10),
            Row::time("cold build: processor time", busy),
        ])
    }

    fn build(&self, flags: &[&str]) -> Result<Duration> {
        let mut osbuild = self.site.osbuild()?;
        osbuild.current_dir(&self.copy).args(["build", RECIPE, "--yes"]).args(flags);
        let started = Instant::now();
        self.site.finish("bench-build", &mut osbuild)?;
        Ok(started.elapsed())
    }

    /// The fastest of [`ROUNDS`] builds with these flags, each after a call of `before`.
    fn fastest(&self, flags: &[&str], before: impl Fn(usize) -> Result<()>) -> Result<Duration> {
        let mut fastest = Duration::MAX;
        for round in 0..ROUNDS {
            before(round)?;
            fastest = fastest.min(self.build(flags)?);
        }
        Ok(fastest)
    }
}

/// Changes a file.
///
/// # Errors
/// The file cannot be read or written, or the change leaves it as it was.
fn edit(path: &Path, change: impl Fn(&str) -> String) -> Result<()> {
    let cannot = || format!("cannot change `{}`", path.display());
    let text = fs::read_to_string(path).or_build(cannot)?;
    let changed = change(&text);
    if changed == text {
        return Err(Error::build(cannot()).cause("it has no such text"));
    }
    fs::write(path, changed).or_build(cannot)
}

/// Nanoseconds since 1970, to make a text that no store contains.
fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos())
}

/// Processor time of all children that this process has waited for (proc_pid_stat(5)).
fn processor_time() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")
        .or_build(|| "cannot read `/proc/self/stat`".to_owned())?;
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // The first field after the name is number 3; 16 and 17 are the children's user and system
    // time.
    let ticks: u64 =
        [16, 17].iter().filter_map(|field| fields.get(field - 3)?.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

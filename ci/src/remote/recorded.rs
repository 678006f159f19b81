//! The steps of a build as the store recorded them, with their results and inputs.

use crate::image;
use crate::site::Site;
use osbuild::checkout::Checkout;
use osbuild::engine::action::ActionResult;
use osbuild::engine::digest::Digest;
use osbuild::engine::executor::{Made, Rebuild, Workers};
use osbuild::engine::reapi;
use osbuild::engine::remote::Trust;
use osbuild::engine::store::Store;
use osbuild::error::{Context, Error, Result};
use osbuild::pipeline::{self, Order};
use osbuild::plan::{Date, Strictness, resolve};
use osbuild::produce::build::BuildOptions;
use osbuild::produce::compile::Workspace;
use osbuild::produce::fetch::SourceOrigin;
use osbuild::produce::out::Out;
use osbuild_remote::{Access, BlobId, Cache, Retry, Source};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A step with its result.
pub struct Recorded {
    /// Its name.
    pub name: String,
    /// Its action.
    pub action: Digest,
    /// Its result.
    pub result: ActionResult,
    /// The digests of its inputs.
    pub inputs: BTreeSet<Digest>,
}

impl Recorded {
    /// The files of its result.
    pub fn files(&self) -> BTreeSet<Digest> {
        let outputs = self.result.outputs.values().map(|output| output.digest);
        outputs.chain(self.result.log).collect()
    }
}

/// Builds an image in `project` with the user's store, and returns its steps.
///
/// # Errors
/// The build fails, or the store lost the record of a step.
pub fn build(site: &Site, recipe: &str, project: &Path) -> Result<Vec<Recorded>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let files = Checkout { root: project.to_owned() }.read()?;
    let plan = resolve(&files, recipe, Date::from_unix(now), Strictness::Build)?;
    let plan = plan.lock(image::lock(site, recipe)?)?;
    let store = &site.store()?;
    let options = BuildOptions {
        project,
        workspace: Workspace::of(project),
        store,
        report: site.report,
        origin: SourceOrigin::Registries,
        rebuild: Rebuild::Nothing,
        remote: None,
        trust: Trust::Everywhere,
        jobs: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
        workers: Workers::default(),
        signer: None,
        carried: None,
    };
    let order = Order { options, plan: &plan, out: Out::open(project, recipe)? };
    let built = pipeline::build(&[order])?.pop();
    let built = built.ok_or_else(|| Error::build("a build made no image"))?;
    fs::remove_dir_all(project.join("out")).or_build(|| "cannot remove an image".to_owned())?;
    read(store, &built.steps.made)
}

/// Gives a cache the results of steps with their files.
///
/// # Errors
/// The cache does not take them, or the store lost a file.
pub fn give(steps: &[Recorded], store: &Store, url: &str) -> Result<()> {
    let address = url.parse().or_build(|| "the address is malformed".to_owned())?;
    let cannot = || "cannot fill the cache".to_owned();
    let cache = Cache::new(&address, &Access::default(), Retry::default()).or_build(cannot)?;
    let blob = |digest: &Digest| BlobId::new(digest.hex(), digest.size());
    for step in steps {
        let blobs: Vec<BlobId> = step.files().iter().chain([&step.action]).map(blob).collect();
        let mut source = |blob: &BlobId| {
            let digest = Digest::parse(&blob.hash, blob.length());
            let digest = digest.ok_or(std::io::ErrorKind::InvalidInput)?;
            store.path(&digest).map(Source::File).map_err(std::io::Error::other)
        };
        cache.write(&blobs, &mut source).or_build(cannot)?;
        cache.put_result(&blob(&step.action), &step.result.encode()).or_build(cannot)?;
    }
    Ok(())
}

fn read(store: &Store, made: &BTreeMap<String, Made>) -> Result<Vec<Recorded>> {
    let one = |(name, made): (&String, &Made)| {
        let lost = || Error::build(format!("the store lost the record of `{name}`"));
        let result = store.recall(&made.action).ok_or_else(lost)?;
        let action = reapi::Action::decode(&store.read(&made.action)?[..]);
        let action = action.or_build(|| format!("cannot read the action of `{name}`"))?;
        let root = action.input_root_digest.and_then(|root| root.to_ours()).ok_or_else(lost)?;
        let mut inputs = BTreeSet::new();
        collect(store, &root, &mut inputs)?;
        Ok(Recorded { name: name.clone(), action: made.action, result, inputs })
    };
    made.iter().map(one).collect()
}

/// Adds the digests of all files below a directory.
fn collect(store: &Store, directory: &Digest, files: &mut BTreeSet<Digest>) -> Result<()> {
    let message = reapi::Directory::decode(&store.read(directory)?[..])
        .or_build(|| "cannot read the inputs of a step".to_owned())?;
    let ours = |digest: &Option<reapi::Digest>| digest.as_ref().and_then(reapi::Digest::to_ours);
    files.extend(message.files.iter().filter_map(|file| ours(&file.digest)));
    for below in message.directories.iter().filter_map(|below| ours(&below.digest)) {
        collect(store, &below, files)?;
    }
    Ok(())
}

//! `osbuild update`: updates versions in recipes and locks. Everything is resolved before the first
//! file is written, except `Cargo.lock`, which cargo writes.

use super::Session;
use super::lock::epoch;
use crate::error::{Error, Result};
use crate::host;
use crate::plan::{
    Crate, GoUpstream, KUBERNETES, Lock, Minor, Moved, Origin, Peg, PreviousLock, Project,
    Releases, Strictness, Upstream, Version, moved, moved_crates, moved_releases, nearest,
    resolve_any, set_go_toolchain, set_version, upstream, version_lines,
};
use crate::produce::fetch::Fetcher;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the Go toolchain.
const TOOLCHAIN: &str = "toolchain";
/// The name of the crates of this workspace, which are updated only by name.
const CRATES: &str = "crates";

/// `osbuild update`
pub fn run(session: &Session, names: &[String]) -> Result<()> {
    if session.common.offline {
        return Err(Error::usage("an update needs the network, which `--offline` forbids")
            .hint("run it without `--offline`"));
    }
    let store = session.store()?;
    let mut update = Update::begin(session, session.fetcher(&store), names)?;
    update.refuse_unknown()?;
    session.need(&host::for_sources())?;
    update.releases()?;
    update.versions()?;
    update.crates()?;
    let locks = update.pin()?;
    update.write(locks)
}

/// A recipe that has a lock.
struct Recipe {
    name: String,
    lock: Lock,
    upstream: Upstream,
}

struct Update<'a> {
    session: &'a Session<'a>,
    fetcher: Fetcher<'a>,
    /// The names to update; empty for all but crates.
    names: BTreeSet<&'a str>,
    recipes: Vec<Recipe>,
    /// The updated project.
    project: Project,
    /// The changed files.
    files: BTreeMap<String, String>,
    /// The updates, each with the recipes whose locks have it.
    moved: BTreeMap<Moved, BTreeSet<String>>,
    /// The new version of a component on each line that names one, with the recipe that asked for
    /// it first.
    versions: BTreeMap<(Origin, String), (String, Version)>,
    /// The newest minor of Kubernetes before the update, if there was a table of releases.
    newest_before: Option<Minor>,
    /// Whether the update has found a newer one.
    has_new_minor: bool,
}

impl<'a> Update<'a> {
    fn begin(session: &'a Session, fetcher: Fetcher<'a>, names: &'a [String]) -> Result<Self> {
        let locked = session
            .project
            .files
            .keys()
            .filter_map(|path| path.strip_prefix("recipes/")?.strip_suffix(".lock"));
        let recipe = |name: &str| {
            let upstream = upstream(&session.project, name)?;
            Ok(Recipe { name: name.to_owned(), lock: session.checkout.lock(name)?, upstream })
        };
        let recipes: Vec<Recipe> = locked.map(recipe).collect::<Result<_>>()?;
        if recipes.is_empty() {
            return Err(
                Error::lock("no recipe has a lock to update").hint("cargo osbuild lock RECIPE")
            );
        }
        let names = names.iter().map(String::as_str).collect();
        let (project, files, moved) = (session.project.clone(), BTreeMap::new(), BTreeMap::new());
        let (versions, newest_before, has_new_minor) = (BTreeMap::new(), None, false);
        Ok(Update {
            session,
            fetcher,
            names,
            recipes,
            project,
            files,
            moved,
            versions,
            newest_before,
            has_new_minor,
        })
    }

    fn may_move(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(name)
    }

    /// Whether the version of a component may be updated. With a new minor of Kubernetes, all that
    /// is built from its module is: a kubelet joins no older control plane, and the distance of a
    /// lab's from the newest minor is known only in this update.
    fn may_move_go(&self, go: &GoUpstream) -> bool {
        self.may_move(&go.component) || self.has_new_minor && go.module == KUBERNETES
    }

    fn refuse_unknown(&self) -> Result<()> {
        let upstreams = || self.recipes.iter().map(|recipe| &recipe.upstream);
        let mut components: BTreeSet<&str> =
            upstreams().flat_map(|all| &all.go).map(|go| go.component.as_str()).collect();
        components.extend(
            upstreams().flat_map(|all| &all.kernel).map(|kernel| kernel.component.as_str()),
        );
        components.extend([TOOLCHAIN, CRATES]);
        let packages = self.recipes.iter().flat_map(|recipe| recipe.lock.debian_packages());
        let packages: BTreeSet<&str> = packages.map(|package| package.package.as_str()).collect();
        let unknown =
            self.names.iter().find(|name| !components.contains(*name) && !packages.contains(*name));
        let Some(unknown) = unknown else { return Ok(()) };
        let ours = ["", "pods/", "lab/"]
            .map(|folder| format!("components/{folder}{unknown}/component.toml"));
        if ours.iter().any(|path| self.project.files.contains_key(path)) {
            let error = Error::usage(format!(
                "`{unknown}` has no version to update: no locked recipe uses it from an upstream"
            ));
            return Err(error
                .hint("update the crates of our own programs with `cargo osbuild update crates`"));
        }
        let list = components.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let error = Error::usage(format!("no lock has an input named `{unknown}`")).cause(format!(
            "updates exist for {list}, and each of {} Debian packages",
            packages.len()
        ));
        let near = nearest(unknown, components.iter().chain(&packages).copied());
        Err(near
            .into_iter()
            .fold(error, |error, near| error.hint(format!("did you mean `{near}`?"))))
    }

    /// Updates the table of Kubernetes releases if the kubelet may be updated, as its peg depends
    /// on the newest release.
    fn releases(&mut self) -> Result<()> {
        let components = self.recipes.iter().flat_map(|recipe| &recipe.upstream.go);
        if !components.into_iter().any(|go| go.module == KUBERNETES && self.may_move(&go.component))
        {
            return Ok(());
        }
        let before = self.table()?;
        let after = self.fetcher.releases(before.as_ref(), self.session.today)?;
        self.newest_before = before.as_ref().map(Releases::newest);
        self.has_new_minor = self.newest_before.is_some_and(|before| before < after.newest());
        self.moved.extend(
            moved_releases(before.as_ref(), &after)
                .into_iter()
                .map(|moved| (moved, BTreeSet::new())),
        );
        self.change(BTreeMap::from([(Releases::PATH.to_owned(), after.print())]));
        Ok(())
    }

    fn table(&self) -> Result<Option<Releases>> {
        let bytes = self.project.files.get(Releases::PATH);
        bytes.map(|bytes| Releases::parse(&String::from_utf8_lossy(bytes))).transpose()
    }

    /// Sets the newest versions in the recipes.
    fn versions(&mut self) -> Result<()> {
        let table = self.table()?;
        let mut known: Vec<(GoUpstream, Version)> = Vec::new();
        let mut toolchains = BTreeMap::<Version, Version>::new();
        for index in 0..self.recipes.len() {
            let Recipe { name, upstream, .. } = &self.recipes[index];
            let (name, upstream) = (name.clone(), upstream.clone());
            let moving = upstream.go.iter().filter(|go| self.may_move_go(go)).cloned();
            for go in moving.collect::<Vec<_>>() {
                let newest = match known.iter().find(|(known, _)| *known == go) {
                    Some((_, newest)) => *newest,
                    None => self.newest(&go, table.as_ref())?,
                };
                self.agree(&name, &go, newest)?;
                self.change(set_version(&self.project, &name, &go.component, newest)?);
                known.push((go, newest));
            }
            if self.may_move(TOOLCHAIN) {
                let newest = match toolchains.get(&upstream.toolchain) {
                    Some(newest) => *newest,
                    None => self.fetcher.newest_go(upstream.toolchain)?,
                };
                toolchains.insert(upstream.toolchain, newest);
                self.change(set_go_toolchain(&self.project, &name, newest)?);
            }
        }
        Ok(())
    }

    /// Refuses a second version on a line that several recipes inherit: the last of them would win.
    fn agree(&mut self, recipe: &str, go: &GoUpstream, newest: Version) -> Result<()> {
        let component = &go.component;
        for (line, section) in version_lines(&self.project, recipe, component)? {
            let first = self.versions.entry((line.clone(), component.clone()));
            let (other, version) = first.or_insert_with(|| (recipe.to_owned(), newest));
            if *version == newest {
                continue;
            }
            // Only a recipe with an exception stays on its own minor.
            let odd = if go.peg == Peg::Own { recipe } else { other.as_str() };
            return Err(Error::usage(format!(
                "{line}: `{other}` needs `{component}` {version}, and `{recipe}` needs {newest}"
            ))
            .cause("both inherit this line")
            .hint(format!("give `{odd}` its own `{component}` in `[{section}]`")));
        }
        Ok(())
    }

    fn newest(&self, go: &GoUpstream, table: Option<&Releases>) -> Result<Version> {
        let minor = match (go.peg, table) {
            (Peg::Kubernetes, Some(table)) => table.pegged(),
            (Peg::Distance, Some(table)) => {
                let before = self.newest_before.unwrap_or_else(|| table.newest());
                table.as_far_behind(before, go.version.minor)
            }
            _ => return self.fetcher.newest(go, go.version.minor, None),
        };
        let known = table.and_then(|table| table.minors.get(&minor)).map(|release| release.newest);
        self.fetcher.newest(go, minor, known)
    }

    fn change(&mut self, files: BTreeMap<String, String>) {
        for (path, text) in files {
            self.project.files.insert(path.clone(), text.clone().into_bytes());
            self.files.insert(path, text);
        }
    }

    fn crates(&mut self) -> Result<()> {
        if !self.names.contains(CRATES) {
            return Ok(());
        }
        let before = self.all_crates()?;
        self.fetcher.update_crates()?;
        let path = "Cargo.lock".to_owned();
        let fresh = self.session.checkout.read()?.files.remove(&path).unwrap_or_default();
        self.project.files.insert(path, fresh);
        let moved = moved_crates(&before, &self.all_crates()?);
        self.moved.extend(moved.into_iter().map(|moved| (moved, BTreeSet::new())));
        Ok(())
    }

    /// The crates of all recipes that have a lock.
    fn all_crates(&self) -> Result<Vec<Crate>> {
        let mut all = BTreeSet::new();
        for Recipe { name, .. } in &self.recipes {
            let plan = resolve_any(&self.project, name, self.session.today, Strictness::Build)?;
            all.extend(plan.requirements().crates.iter().cloned());
        }
        Ok(all.into_iter().collect())
    }

    /// Makes a new lock for every recipe.
    fn pin(&mut self) -> Result<Vec<Lock>> {
        let mut fresh: Vec<Lock> = Vec::new();
        for Recipe { name, lock, upstream } in &self.recipes {
            let plan = resolve_any(&self.project, name, self.session.today, Strictness::Lock)?;
            plan.warnings().iter().for_each(|warning| self.session.report.warning(warning));
            let mut held = PreviousLock::of(Some(lock.clone()));
            let packages = lock.debian_packages().map(|package| package.package.as_str());
            held.release(packages.filter(|package| self.may_move(package)));
            let kernel = upstream.kernel.iter().filter(|kernel| self.may_move(&kernel.component));
            held.release(kernel.map(|kernel| kernel.package.as_str()));
            fresh.iter().for_each(|lock| held.add(lock.clone()));
            fresh.push(self.fetcher.pin(&*plan, &held, epoch(self.session))?);
        }
        for (Recipe { name, lock, .. }, after) in self.recipes.iter().zip(&fresh) {
            for moved in moved(lock, after) {
                self.moved.entry(moved).or_default().insert(name.clone());
            }
        }
        Ok(fresh)
    }

    /// Writes the changed files and reports the updates.
    fn write(self, locks: Vec<Lock>) -> Result<()> {
        let report = self.session.report;
        let locks =
            locks.into_iter().zip(&self.recipes).filter(|(after, recipe)| *after != recipe.lock);
        let locks = locks.map(|(after, _)| (Lock::path(&after.recipe), after.print()));
        let files: BTreeMap<String, String> = self.files.into_iter().chain(locks).collect();
        let written = files
            .iter()
            .map(|(path, text)| Ok(self.session.checkout.write(path, text)?.display().to_string()));
        let written: Vec<String> = written.collect::<Result<_>>()?;
        for (moved, recipes) in &self.moved {
            let recipes = recipes.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            report.note(if recipes.is_empty() {
                moved.to_string()
            } else {
                format!("{moved} ({recipes})")
            });
        }
        if self.moved.is_empty() {
            report.note("everything is up to date");
        }
        let one = |(moved, recipes): (&Moved, &BTreeSet<String>)| -> Value {
            json!({ "name": moved.name, "from": moved.from, "to": moved.to, "recipes": recipes })
        };
        let moved: Vec<_> = self.moved.iter().map(one).collect();
        let json = || json!({ "moved": moved, "files": written });
        self.session.data(json, || written.join("\n"));
        Ok(())
    }
}

//! The rest of the root: what the recipe lists, and the empty places on which `init` mounts.

use super::Resolver;
use crate::error::Problem;
use crate::plan::document::{Entry, Node, Value};
use crate::plan::nearest::nearest;
use crate::plan::{Content, RootFile, WritablePath};
use osbuild_abi::paths;
use osbuild_abi::writable::{Backing, WRITABLE};
use std::collections::BTreeMap;

/// Where the builder alone puts things.
const TAKEN: [(&str, &str); 9] = [
    (paths::BIN, "it holds the seven binaries"),
    (paths::EARLY_INIT, "`init` starts there"),
    (paths::LAYERS, "the root's layers are there while it boots"),
    (paths::IMAGES, "the builder puts the pods' images there"),
    (paths::POD_MANIFESTS, "the builder puts the pods' manifests there"),
    (paths::POD_LIST, "the builder writes it from the pods' manifests"),
    (paths::WRITABLE_PATHS, "the builder writes it from `[writable]`"),
    (paths::UPDATE, "the builder writes it from `[updates]`"),
    (paths::INSTALL, "the builder writes it from `[installs]`"),
];

/// Folders of the root that are mounted on, besides the writable ones. They stand empty in the
/// root.
const MOUNT_POINTS: [&str; 4] = ["/dev", "/proc", "/sys", paths::DATA];

impl Resolver<'_> {
    /// What the recipe lists, the builder's `own` files, and what is mounted on, the declared paths
    /// among that.
    pub(super) fn files(
        &mut self,
        recipe: &Node,
        declared: &[WritablePath],
        own: impl IntoIterator<Item = RootFile>,
    ) -> Vec<RootFile> {
        let own = mount_points().chain(declared.iter().map(WritablePath::mount_point)).chain(own);
        let mut files: BTreeMap<String, RootFile> =
            own.map(|file| (file.path.clone(), file)).collect();
        let asked = recipe.get("files").and_then(Node::table);
        for (path, entry) in asked.into_iter().flatten() {
            self.note(format!("files.{path}"), &entry.key);
            self.place_in_root(path, entry, declared);
            if let Some(file) = self.file(path, &entry.node) {
                files.insert(path.clone(), file);
            }
        }
        for (path, entry) in asked.into_iter().flatten() {
            self.parents_are_folders(path, entry, &files);
        }
        for (path, entry) in recipe.entries_of("writable") {
            self.parents_are_folders(path, entry, &files);
        }
        files.into_values().collect()
    }

    fn place_in_root(&mut self, path: &str, entry: &Entry, declared: &[WritablePath]) {
        let taken = TAKEN.iter().find(|(taken, _)| is_at_or_below(path, taken));
        if let Some((taken, why)) = taken {
            let problem = Problem::new(format!("`{path}` cannot be listed in `[files]`"))
                .at(entry.key.place());
            self.problems.push(problem.cause(format!("`{taken}` is the builder's: {why}")));
        }
        let mounted = WRITABLE.iter().map(|one| one.path).chain(MOUNT_POINTS);
        let mut mounted = mounted.chain(declared.iter().map(|one| one.path.as_str()));
        let hidden = mounted.find(|mounted| is_at_or_below(path, mounted));
        if let Some(mounted) = hidden {
            let problem = Problem::new(format!("`{path}` would never be seen on the node"))
                .at(entry.key.place());
            self.problems.push(problem.cause(format!("`init` mounts over `{mounted}` at boot")));
        }
    }

    fn file(&mut self, path: &str, node: &Node) -> Option<RootFile> {
        let content = self.content(node)?;
        let mode = match (&content, node.get("mode").map(|mode| &mode.value)) {
            (Content::Symlink(_), _) => 0o777,
            (_, Some(Value::Integer { value: value @ 0..=0o1777, radix: 8 })) => *value as u32,
            // The reader has said so already.
            _ => return None,
        };
        let is_plain = !matches!(content, Content::Directory | Content::Symlink(_));
        if is_plain && mode & 0o1111 != 0 {
            let problem = Problem::new(format!(
                "`{path}` must not be executable or sticky, and its mode is `{mode:#o}`"
            ));
            let problem = problem.at(node.get("mode").unwrap_or(node).spot.place());
            self.problems
                .push(problem.cause("the only programs of the host are the seven in `/bin`"));
        }
        Some(RootFile { path: path.to_owned(), mode, content })
    }

    fn content(&mut self, node: &Node) -> Option<Content> {
        if let Some(source) = node.get("source") {
            let path = source.text()?;
            if !self.project.has(path) {
                let near = nearest(path, self.project.paths())
                    .map(|near| format!("did you mean `{near}`?"));
                let problem = Problem::new(format!("no file `{path}` in the project"))
                    .at(source.spot.place());
                self.problems.push(Problem { hint: near, ..problem });
            }
            return Some(Content::File(path.to_owned()));
        }
        if let Some(text) = node.text_of("text") {
            return Some(Content::Text(text.to_owned()));
        }
        if let Some(target) = node.text_of("symlink") {
            return Some(Content::Symlink(target.to_owned()));
        }
        if let (Some(package), Some(path)) = (node.text_of("debian"), node.text_of("path")) {
            return Some(Content::Debian { package: package.to_owned(), path: path.to_owned() });
        }
        matches!(node.get("directory")?.value, Value::Flag(true)).then_some(Content::Directory)
    }

    fn parents_are_folders(
        &mut self,
        path: &str,
        entry: &Entry,
        files: &BTreeMap<String, RootFile>,
    ) {
        let above =
            files.values().find(|file| file.path != path && is_at_or_below(path, &file.path));
        if let Some(above) = above.filter(|above| above.content != Content::Directory) {
            self.problem(
                &entry.key,
                format!("`{path}` cannot lie below `{}`, which is no folder", above.path),
            );
        }
    }
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// An empty folder or file for each place that is mounted on and does not lie on another such
/// place.
fn mount_points() -> impl Iterator<Item = RootFile> {
    let fixed = MOUNT_POINTS.into_iter().map(|path| RootFile {
        path: path.to_owned(),
        mode: 0o755,
        content: Content::Directory,
    });
    let covered = |path: &str| {
        WRITABLE.iter().any(|other| other.path != path && is_at_or_below(path, other.path))
    };
    let writable =
        WRITABLE.iter().filter(move |one| !covered(one.path)).map(|one| match one.backing {
            Backing::DataFile(_) => RootFile {
                path: one.path.to_owned(),
                mode: one.mode,
                content: Content::Text(String::new()),
            },
            Backing::Data(_) | Backing::Memory(_) => {
                RootFile { path: one.path.to_owned(), mode: one.mode, content: Content::Directory }
            }
        });
    fixed.chain(writable)
}

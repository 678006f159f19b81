//! The rest of the root: the files of the recipe, and the empty mount points that `init` mounts on.

use super::Resolver;
use crate::error::Problem;
use crate::plan::document::{Located, Spot, nearest};
use crate::plan::keys::{FileEntry, Mode, RecipeFile};
use crate::plan::{Content, FilePackage, RootFile, WritablePath};
use osbuild_abi::paths;
use osbuild_abi::program_names::APPARMOR_PARSER;
use osbuild_abi::writable::{Backing, WRITABLE};
use osbuild_document::Motd;
use std::collections::BTreeMap;

/// Paths that only the builder fills.
const RESERVED: [(&str, &str); 18] = [
    (paths::BIN, "it holds the seven binaries"),
    (paths::KUBELET_PROGRAMS, "it holds the other names of binaries that the kubelet finds"),
    (APPARMOR_PARSER.path, "containerd uses AppArmor if the file exists"),
    (paths::EARLY_INIT, "`init` starts there"),
    (paths::LAYERS, "it holds the root's layers during boot"),
    (paths::IMAGES, "the builder puts the pods' images there"),
    (paths::POD_MANIFESTS, "the builder puts the pods' manifests there"),
    (paths::POD_LIST, "the builder writes it from the pods' manifests"),
    (paths::PACKAGES, "the builder writes it from the packages"),
    (paths::KERNEL_MODULES, "the builder writes it from the kernel"),
    (paths::APPARMOR_PROFILE, "the builder compiles it"),
    (paths::WRITABLE_PATHS, "the builder writes it from `[writable]`"),
    (paths::API, "the builder writes it from `[api]`"),
    (paths::UPDATE, "the builder writes it from `[updates]`"),
    (paths::IMAGE_SETTINGS, "the builder writes it from `[node]`"),
    (paths::VOLUMES, "the builder writes it from `[volumes]`"),
    (paths::CONSOLE, "the builder writes it from `[console]`"),
    (paths::INSTALL, "the builder writes it from `[installs]`"),
];

/// Mount points of the root in addition to the writable paths. They are empty in the root.
const MOUNT_POINTS: [&str; 5] = ["/dev", "/proc", "/sys", paths::DATA, paths::VOLUME_MOUNTS];

impl Resolver<'_> {
    /// The files of the recipe, the builder's `own` files, and the mount points, those of the
    /// declared paths included.
    pub(super) fn files(
        &mut self,
        recipe: &RecipeFile,
        declared: &[WritablePath],
        own: impl IntoIterator<Item = RootFile>,
    ) -> Vec<RootFile> {
        let own: Vec<RootFile> = mount_points().chain(own).collect();
        let own_paths: Vec<String> = own.iter().map(|file| file.path.clone()).collect();
        let own = own.into_iter().chain(declared.iter().map(WritablePath::mount_point));
        let mut files: BTreeMap<String, RootFile> =
            own.map(|file| (file.path.clone(), file)).collect();
        let entries = || recipe.files.iter().flat_map(|files| files.iter());
        for (path, entry) in entries() {
            self.note(format!("files.{}", &**path), &entry.key);
            self.check_path(path, &entry.key, declared);
            if let Some(file) = self.file(path, entry) {
                files.insert(path.to_string(), file);
            }
        }
        for (path, entry) in entries() {
            self.check_parents(path, &entry.key, &files);
            self.check_children(path, &entry.key, &files, &own_paths);
        }
        for (path, entry) in recipe.writable.iter().flat_map(|paths| paths.iter()) {
            self.check_parents(path, &entry.key, &files);
        }
        files.into_values().collect()
    }

    fn check_path(&mut self, path: &str, key: &Spot, declared: &[WritablePath]) {
        let reserved = RESERVED.iter().find(|(reserved, _)| is_at_or_below(path, reserved));
        if let Some((reserved, reason)) = reserved {
            let problem =
                Problem::new(format!("`{path}` cannot be listed in `[files]`")).at(key.place());
            self.problems
                .push(problem.cause(format!("`{reserved}` is reserved for the builder: {reason}")));
        }
        let mounted = WRITABLE.iter().map(|one| one.path).chain(MOUNT_POINTS);
        let mut mounted = mounted.chain(declared.iter().map(|one| one.path.as_str()));
        if let Some(mounted) = mounted.find(|mounted| is_at_or_below(path, mounted)) {
            let problem =
                Problem::new(format!("`{path}` would be hidden on the node")).at(key.place());
            self.problems.push(problem.cause(format!("`init` mounts over `{mounted}` at boot")));
        }
    }

    fn file(&mut self, path: &str, entry: &Located<FileEntry>) -> Option<RootFile> {
        let (content, mode) = match &entry.value {
            FileEntry::Source(table) => {
                let source = table.source.as_ref()?;
                self.check_source(source, &source.spot);
                (Content::File(source.to_string()), table.mode.as_ref()?)
            }
            FileEntry::Text(table) => {
                let text = table.text.as_ref()?;
                self.check_text(path, text, &text.spot);
                (Content::Text(text.to_string()), table.mode.as_ref()?)
            }
            FileEntry::Symlink(table) => {
                let target = table.symlink.as_ref()?.to_string();
                let (path, content) = (path.to_owned(), Content::Symlink(target));
                return Some(RootFile { path, mode: 0o777, content });
            }
            FileEntry::Directory(table) => {
                table.directory.as_ref()?;
                (Content::Directory, table.mode.as_ref()?)
            }
            FileEntry::Debian(table) => {
                let package = FilePackage::named(table.debian.as_ref()?.to_string());
                let path = table.path.as_ref()?.to_string();
                (Content::Debian { package, path }, table.mode.as_ref()?)
            }
        };
        self.check_owner(path, mode, content == Content::Directory);
        let Located { spot, value: Mode(bits), .. } = mode;
        if content != Content::Directory && bits & 0o1111 != 0 {
            let problem = Problem::new(format!(
                "`{path}` must not be executable or sticky, and its mode is `{bits:#05o}`"
            ));
            let cause = "the only programs of the host are the seven in `/bin`";
            self.problems.push(problem.at(spot.place()).cause(cause));
        }
        Some(RootFile { path: path.to_owned(), mode: *bits, content })
    }

    /// Refuses a mode with which the build cannot read what it puts into the root.
    pub(super) fn check_owner(&mut self, path: &str, mode: &Located<Mode>, is_folder: bool) {
        let (needed, verbs) = if is_folder { (0o500, "read and enter") } else { (0o400, "read") };
        let Mode(bits) = mode.value;
        if bits & needed == needed {
            return;
        }
        let problem = Problem::new(format!(
            "the owner of `{path}` must be able to {verbs} it, and its mode is `{bits:#05o}`"
        ));
        let problem = problem.at(mode.spot.place()).cause("the build reads it as its owner");
        self.problems.push(problem.hint(format!("write `{:#05o}`", bits | needed)));
    }

    fn check_source(&mut self, path: &str, spot: &Spot) {
        if !self.project.has(path) {
            let near = nearest(path, self.project.paths());
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            let problem = Problem::new(format!("no file `{path}` in the project")).at(spot.place());
            self.problems.push(Problem { hint, ..problem });
        }
    }

    /// The message of the image is shown on consoles, as that of a setting.
    fn check_text(&mut self, path: &str, text: &str, spot: &Spot) {
        if path == paths::MOTD
            && let Err(refusal) = Motd::parse(text)
        {
            self.problem(spot, refusal.reason);
        }
    }

    fn check_parents(&mut self, path: &str, key: &Spot, files: &BTreeMap<String, RootFile>) {
        let above = files.values().find(|file| {
            let is_above = file.path != path && is_at_or_below(path, &file.path);
            is_above && file.content != Content::Directory
        });
        if let Some(above) = above {
            let above = &above.path;
            self.problem(key, format!("`{path}` cannot be below `{above}`, which is not a folder"));
        }
    }

    /// The folders of the node's `own` files and mount points have to be folders.
    fn check_children(
        &mut self,
        path: &str,
        key: &Spot,
        files: &BTreeMap<String, RootFile>,
        own: &[String],
    ) {
        let is_folder = files.get(path).is_none_or(|file| file.content == Content::Directory);
        let below = own.iter().find(|own| *own != path && is_at_or_below(own, path));
        if let Some(below) = below.filter(|_| !is_folder) {
            self.problem(key, format!("`{path}` must be a folder: the node has `{below}`"));
        }
    }
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// An empty folder or file for each mount point that is not below another one.
fn mount_points() -> impl Iterator<Item = RootFile> {
    let file = |path: &str, mode, content| RootFile { path: path.to_owned(), mode, content };
    let fixed = MOUNT_POINTS.into_iter().map(move |path| file(path, 0o755, Content::Directory));
    let covered = |path: &str| {
        WRITABLE.iter().any(|other| other.path != path && is_at_or_below(path, other.path))
    };
    let writable = WRITABLE.iter().filter(move |one| !covered(one.path)).map(move |one| {
        let content = match one.backing {
            Backing::DataFile(_) => Content::Text(String::new()),
            Backing::Data(_) | Backing::Memory(_) => Content::Directory,
        };
        file(one.path, one.mode, content)
    });
    fixed.chain(writable)
}

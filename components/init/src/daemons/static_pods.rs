//! The kubelet has one folder of static pods. `init` fills it with the manifests of the image, and
//! with those that an administrator's pod, such as kubeadm's, has written on DATA. A file of the
//! image wins over one of the same name on DATA. The file of a [debug container](super::debug_pod)
//! and those of [settings](crate::host::pod_settings) are in the folder as well, and are left alone
//! here.
//!
//! The kubelet gets the pods of the image in [waves](Wave), as the start of many at once takes each
//! of them as long as all: first those that give the node its network, without which the kubelet
//! asks its cluster in vain and ever more seldom, and last those that READY does not wait for.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use osbuild_abi::paths::{DATA_MANIFESTS, DEBUG_MANIFEST, POD_LIST, POD_MANIFESTS, STATIC_PODS};
use osbuild_abi::pods::{self, Runs};
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;

use super::setting_manifest;
use crate::data;
use crate::host::run_files;

/// How often to look for changes on DATA.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long the other pods wait for those that run first.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the pods of the last wave wait for READY.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest number of manifests on DATA that are used.
const MAX_FILES: usize = 64;
/// The size of the largest manifest, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// The number of files on DATA that are not used and have a line of their own: PID 1 compares and
/// prints these in one turn.
const MAX_LINES: usize = 16;
/// The permission bits of the kubelet's copies. A manifest may contain a secret.
const MODE: u32 = 0o600;
/// How the name of a manifest ends. An editor's copy beside it would be another static pod.
const SUFFIXES: [&str; 3] = [".yaml", ".yml", ".json"];

/// The pods that the kubelet has now. Each wave has those of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wave {
    /// Those that run first, or those of the next wave if the image has none.
    #[default]
    First,
    /// Also those that READY waits for, and those on DATA.
    Awaited,
    /// All.
    All,
}

impl Wave {
    /// How long until the next wave, if there is one.
    fn timeout(self) -> Option<Duration> {
        match self {
            Self::First => Some(NETWORK_TIMEOUT),
            Self::Awaited => Some(READY_TIMEOUT),
            Self::All => None,
        }
    }

    fn next(self) -> Self {
        match self {
            Self::First => Self::Awaited,
            Self::Awaited | Self::All => Self::All,
        }
    }
}

/// The outcome for manifests on DATA.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// A line for each of the first files on DATA that are not used, and one for all others; or why
    /// DATA cannot be read.
    pub refused: Vec<String>,
    /// The names of the files on DATA that are used.
    pub of_data: Vec<String>,
}

/// When to look again, and what the console has already shown.
#[derive(Debug, Default)]
pub struct StaticPods {
    /// `None` before the first look, and during one.
    next: Option<Duration>,
    wave: Wave,
    /// When the next wave begins, since boot, once the pods of this one are in place.
    next_wave: Option<Duration>,
    shown: Vec<String>,
}

impl StaticPods {
    /// When to look again, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.next
    }

    /// The pods of the next look.
    pub fn wave(&self) -> Wave {
        self.wave
    }

    /// A pod that gives the node its network runs. Returns whether other pods have waited for it.
    pub fn on_network(&mut self) -> bool {
        self.begin(Wave::Awaited)
    }

    /// The node is READY. Returns whether pods have waited for that.
    pub fn on_ready(&mut self) -> bool {
        self.begin(Wave::All)
    }

    fn begin(&mut self, wave: Wave) -> bool {
        let begins = self.wave < wave;
        if begins {
            (self.wave, self.next_wave) = (wave, None);
        }
        begins
    }

    /// It is time to look again. `now` is the time since boot.
    pub fn on_due(&mut self, now: Duration) {
        if self.next_wave.is_some_and(|begins| begins <= now) {
            self.begin(self.wave.next());
        }
    }

    /// A job that looks was asked for, unless the disk worker refused it. `now` is the time since
    /// boot.
    pub fn on_asked(&mut self, is_asked: bool, now: Duration) {
        self.next = (!is_asked).then_some(now + INTERVAL);
    }

    /// The job has ended. Returns what the console has to show, which is each line once until it
    /// changes.
    pub fn on_placed(&mut self, placed: Outcome<Placed>, now: Duration) -> Vec<String> {
        self.next = Some(now + INTERVAL);
        self.next_wave = self.next_wave.or(self.wave.timeout().map(|timeout| now + timeout));
        let lines = placed.map(|placed| placed.refused);
        let lines = lines.unwrap_or_else(|failure| vec![failure.to_string()]);
        let shown = std::mem::replace(&mut self.shown, lines);
        self.shown.iter().filter(|line| !shown.contains(line)).cloned().collect()
    }
}

/// Makes the kubelet's folder have the manifests of now, of these pods. Those of the image do not
/// depend on DATA.
///
/// # Errors
/// A folder of the image or of the kubelet cannot be read or written. The kubelet keeps the
/// manifests that it has.
pub fn place(wave: Wave) -> Outcome<Placed> {
    let manifests = of_image(Path::new(POD_MANIFESTS))?;
    let list = fs::read_to_string(POD_LIST).explain(format_args!("read {POD_LIST}"))?;
    let kubelet = run_files::folder(STATIC_PODS).explain(format_args!("make {STATIC_PODS}"))?;
    place_in(&kubelet, manifests, data::folder::open(), |manifests| {
        keep_wave(manifests, wave, &list);
    })
}

fn place_in(
    kubelet: &Folder,
    mut manifests: Manifests,
    data: Outcome<Folder>,
    keep: impl FnOnce(&mut Manifests),
) -> Outcome<Placed> {
    let placed = data.and_then(|data| add_of_data(&mut manifests, &data));
    keep(&mut manifests);
    let write = || -> io::Result<Placed> {
        fill(kubelet, &manifests)?;
        let others = others(kubelet, &manifests)?;
        match placed {
            Ok(placed) => {
                others.iter().try_for_each(|name| kubelet.remove(name))?;
                Ok(placed)
            }
            // The kubelet keeps those of DATA that it has.
            Err(failure) => Ok(Placed { refused: vec![failure.to_string()], of_data: others }),
        }
    };
    write().explain(format_args!("write to {STATIC_PODS}"))
}

/// The bytes of manifests by the names of their files.
type Manifests = BTreeMap<String, Vec<u8>>;

/// The manifests in the image's folder.
fn of_image(folder: &Path) -> Outcome<Manifests> {
    let list = || -> io::Result<Manifests> {
        let entry = |entry: io::Result<fs::DirEntry>| {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok((name, fs::read(&path)?))
        };
        fs::read_dir(folder)?.map(entry).collect()
    };
    list().explain(format_args!("read {}", folder.display()))
}

/// Removes the manifests that do not belong to the wave. `list` has the pods of the image.
fn keep_wave(manifests: &mut Manifests, wave: Wave, list: &str) {
    let named = |runs| -> Vec<String> {
        let pods = pods::parse(list).filter(|pod| pod.runs == runs);
        pods.map(|pod| format!("{}.yaml", pod.name)).collect()
    };
    let (first, last) = (named(Runs::First), named(Runs::Unawaited));
    match wave {
        Wave::First if !first.is_empty() => manifests.retain(|name, _| first.contains(name)),
        Wave::First | Wave::Awaited => manifests.retain(|name, _| !last.contains(name)),
        Wave::All => {}
    }
}

/// Adds the manifests of the folder on DATA, if there is one.
fn add_of_data(manifests: &mut Manifests, data: &Folder) -> Outcome<Placed> {
    let (kubernetes, name) = DATA_MANIFESTS.rsplit_once('/').unwrap_or_default();
    match data::folder::behind(data, kubernetes)?.existing_folder(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Placed::default()),
        folder => {
            let folder = folder.explain(format_args!("open {DATA_MANIFESTS}"))?;
            add(manifests, &folder).explain(format_args!("list {DATA_MANIFESTS}"))
        }
    }
}

/// Adds the manifests of a folder on DATA.
fn add(manifests: &mut Manifests, folder: &Folder) -> io::Result<Placed> {
    let names = folder.names()?.into_iter().map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    let (mut of_data, mut refused, mut more) = (Manifests::new(), Vec::new(), 0);
    for name in names {
        let is_taken = manifests.contains_key(&name);
        match usable(&name, is_taken, of_data.len()).and_then(|()| read(folder, &name)) {
            Ok(Some(bytes)) => drop(of_data.insert(name, bytes)),
            // It was removed a moment ago.
            Ok(None) => {}
            Err(_) if refused.len() == MAX_LINES => more += 1,
            Err(reason) => refused.push(format!("{DATA_MANIFESTS}/{name} is not used: {reason}")),
        }
    }
    if more > 0 {
        refused.push(format!("{DATA_MANIFESTS} has {more} more that `init` does not use"));
    }
    let names = of_data.keys().cloned().collect();
    manifests.append(&mut of_data);
    Ok(Placed { refused, of_data: names })
}

/// Refuses a file by its name, by that of a file of the image, or after too many others.
fn usable(name: &str, is_taken: bool, others: usize) -> Result<(), String> {
    if !SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        return Err(format!("its name does not end with {}", SUFFIXES.join(", ")));
    }
    if name == DEBUG_MANIFEST {
        return Err("the name is that of a debug container".to_owned());
    }
    if setting_manifest::is_one(name) {
        return Err("the name is that of a static pod of settings".to_owned());
    }
    if is_taken {
        return Err("the image has a pod in a file of this name".to_owned());
    }
    match others < MAX_FILES {
        true => Ok(()),
        false => Err(format!("there are more than {MAX_FILES}")),
    }
}

fn read(folder: &Folder, name: &str) -> Result<Option<Vec<u8>>, String> {
    folder.read(name, MAX_BYTES).map_err(|error| error.to_string())
}

/// Writes these files to the kubelet's folder. Those that are the same already are not replaced,
/// because the kubelet reads each file that changes.
fn fill(kubelet: &Folder, manifests: &Manifests) -> io::Result<()> {
    for (name, bytes) in manifests {
        let is_same = kubelet.read(name, MAX_BYTES).is_ok_and(|now| now.as_ref() == Some(bytes));
        if !is_same {
            kubelet.replace(name, bytes, MODE)?;
        }
    }
    Ok(())
}

/// The names of the other files in the kubelet's folder, without those of other parts of `init`.
fn others(kubelet: &Folder, manifests: &Manifests) -> io::Result<Vec<String>> {
    let names = kubelet.names()?.into_iter().map(|name| name.to_string_lossy().into_owned());
    let is_other = |name: &String| {
        !manifests.contains_key(name) && name != DEBUG_MANIFEST && !setting_manifest::is_one(name)
    };
    Ok(names.filter(is_other).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_failure::Failure;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    const MINUTE: Duration = Duration::from_secs(60);

    /// An image with the pod `dhcp`, DATA with a folder with these files, and the kubelet's.
    struct Folders {
        place: tempfile::TempDir,
        data: Folder,
        manifests: PathBuf,
        kubelet: Folder,
    }

    impl Folders {
        fn new(files: &[(&str, &str)]) -> Self {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().canonicalize().unwrap();
            let all = Folder::open(&path, ".aside").unwrap();
            let [image, data, kubelet] =
                ["image", "data", "kubelet"].map(|name| all.folder(name, 0o700).unwrap());
            fs::write(image.path().join("dhcp.yaml"), "signed").unwrap();
            let kubernetes = data.folder("kubernetes", 0o700).unwrap();
            let manifests = kubernetes.folder("manifests", 0o700).unwrap().path().to_owned();
            let folders = Folders { place, data, manifests, kubelet };
            files.iter().for_each(|(name, text)| folders.write(name, text));
            folders
        }

        fn path(&self, name: &str) -> PathBuf {
            self.manifests.join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).unwrap();
        }

        /// Places them. Returns the lines, and the kubelet's files.
        fn placed(&self) -> (Vec<String>, Vec<(String, String)>) {
            let manifests = of_image(&self.place.path().join("image")).unwrap();
            let data = Ok(self.data.clone());
            let lines = place_in(&self.kubelet, manifests, data, |_| {}).unwrap().refused;
            let text = |name: &str| fs::read_to_string(self.kubelet.path().join(name)).unwrap();
            let names = self.kubelet.names().unwrap();
            let names = names.iter().map(|name| name.to_str().unwrap().to_owned());
            let mut files: Vec<_> = names.map(|name| (name.clone(), text(&name))).collect();
            files.sort();
            (lines, files)
        }
    }

    fn files(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn the_kubelet_gets_the_pods_of_the_image_and_of_data() {
        let folders = Folders::new(&[("etcd.yaml", "etcd")]);
        let both = files(&[("dhcp.yaml", "signed"), ("etcd.yaml", "etcd")]);
        assert_eq!(folders.placed(), (vec![], both));
        folders.write("etcd.yaml", "newer");
        assert_eq!(folders.placed().1[1].1, "newer");
        fs::remove_file(folders.path("etcd.yaml")).unwrap();
        assert_eq!(folders.placed().1, files(&[("dhcp.yaml", "signed")]));
    }

    #[test]
    fn a_pod_of_the_image_wins_over_one_on_data() {
        let folders = Folders::new(&[("dhcp.yaml", "false")]);
        let (lines, placed) = folders.placed();
        assert_eq!(placed, files(&[("dhcp.yaml", "signed")]));
        let line = "/etc/kubernetes/manifests/dhcp.yaml is not used: the image has a pod in a file \
                    of this name";
        assert_eq!(lines, [line]);
    }

    #[test]
    fn the_pods_of_the_image_go_on_whatever_is_in_the_place_of_the_folder_on_data() {
        let folders = Folders::new(&[]);
        fs::remove_dir(&folders.manifests).unwrap();
        let link = |to: &Path| symlink(to, &folders.manifests).unwrap();
        let plants: [&dyn Fn(); 3] = [
            &|| fs::write(&folders.manifests, "in the way").unwrap(),
            &|| link(&folders.place.path().join("image")),
            &|| link(Path::new("nowhere")),
        ];
        for plant in plants {
            plant();
            let (lines, placed) = folders.placed();
            assert_eq!(placed, files(&[("dhcp.yaml", "signed")]), "{lines:?}");
            assert!(lines.len() == 1 && lines[0].contains(DATA_MANIFESTS), "{lines:?}");
            fs::remove_file(&folders.manifests).unwrap();
            fs::remove_file(folders.kubelet.path().join("dhcp.yaml")).unwrap();
        }
    }

    #[test]
    fn the_pods_of_data_stay_while_it_cannot_be_read() {
        let folders = Folders::new(&[("etcd.yaml", "etcd")]);
        let both = files(&[("dhcp.yaml", "signed"), ("etcd.yaml", "etcd")]);
        assert_eq!(folders.placed(), (vec![], both.clone()));
        fs::rename(&folders.manifests, folders.place.path().join("away")).unwrap();
        fs::write(&folders.manifests, "in the way").unwrap();
        assert_eq!(folders.placed().1, both);
        let image = of_image(&folders.place.path().join("image")).unwrap();
        let placed = place_in(&folders.kubelet, image, Err(Failure::new("EIO")), |_| {}).unwrap();
        assert_eq!(
            (placed.refused, placed.of_data),
            (vec!["EIO".into()], vec!["etcd.yaml".into()])
        );
    }

    #[test]
    fn the_file_of_a_debug_container_is_left_alone_and_nobody_else_writes_it() {
        let folders = Folders::new(&[(DEBUG_MANIFEST, "false")]);
        fs::write(folders.kubelet.path().join(DEBUG_MANIFEST), "debug").unwrap();
        let (lines, placed) = folders.placed();
        assert_eq!(placed, files(&[("dhcp.yaml", "signed"), (DEBUG_MANIFEST, "debug")]));
        assert!(lines[0].ends_with("the name is that of a debug container"), "{lines:?}");
    }

    #[test]
    fn the_files_of_settings_are_left_alone_and_nobody_else_writes_them() {
        let name = setting_manifest::of_pod("web");
        let folders = Folders::new(&[(&name, "false")]);
        fs::write(folders.kubelet.path().join(&name), "setting").unwrap();
        let (lines, placed) = folders.placed();
        assert_eq!(placed, files(&[("dhcp.yaml", "signed"), (&name, "setting")]));
        assert!(lines[0].ends_with("the name is that of a static pod of settings"), "{lines:?}");
    }

    #[test]
    fn only_regular_files_with_the_name_of_a_manifest_are_used() {
        let folders =
            Folders::new(&[("a.yaml.bak", "old"), (".hidden.yaml", "x"), ("b.json", "b")]);
        fs::create_dir(folders.path("folder.yaml")).unwrap();
        symlink("/dev/zero", folders.path("link.yaml")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folders.path("fifo.yaml"), 0o600.into()).unwrap();
        fs::write(folders.path("large.yaml"), vec![b' '; MAX_BYTES as usize + 1]).unwrap();
        let (lines, placed) = folders.placed();
        assert_eq!(placed, files(&[("b.json", "b"), ("dhcp.yaml", "signed")]));
        let reasons = lines.iter().map(|line| line.split_once(" is not used: ").unwrap().1);
        let expected = [
            "its name does not end with .yaml, .yml, .json",
            "it is a FIFO",
            "it is a folder",
            "it has more than 1048576 bytes",
            "it is a symbolic link",
        ];
        assert_eq!(reasons.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_number_of_pods_on_data_is_bounded() {
        let folders = Folders::new(&[]);
        (0..=MAX_FILES).for_each(|number| folders.write(&format!("{number:03}.yaml"), "pod"));
        let (lines, placed) = folders.placed();
        assert_eq!((lines.len(), placed.len()), (1, MAX_FILES + 1));
        assert!(lines[0].contains("064.yaml"), "{lines:?}");
    }

    #[test]
    fn ten_thousand_files_that_are_not_used_are_a_few_lines() {
        let folders = Folders::new(&[]);
        (0..10_000).for_each(|number| folders.write(&format!("{number:04}.bak"), ""));
        let (lines, placed) = folders.placed();
        assert_eq!((lines.len(), placed.len()), (MAX_LINES + 1, 1));
        assert!(lines[MAX_LINES - 1].contains("/0015.bak is not used"), "{lines:?}");
        assert!(lines[MAX_LINES].contains(" has 9984 more "), "{lines:?}");
    }

    #[test]
    fn each_wave_has_the_pods_of_the_one_before() {
        let wave = |wave, list: &str| {
            let names = ["dhcp.yaml", "etcd.yaml", "osd.yaml", "time.yaml"];
            let mut manifests = names.map(|name| (name.to_owned(), vec![])).into();
            keep_wave(&mut manifests, wave, list);
            manifests.into_keys().collect::<Vec<_>>().join(" ")
        };
        let list = "dhcp -first dhcp\nosd -unawaited osd\ntime time\n";
        assert_eq!(wave(Wave::First, list), "dhcp.yaml");
        assert_eq!(wave(Wave::Awaited, list), "dhcp.yaml etcd.yaml time.yaml");
        assert_eq!(wave(Wave::All, list), "dhcp.yaml etcd.yaml osd.yaml time.yaml");
        let list = "dhcp dhcp\nosd -unawaited osd\ntime time\n";
        assert_eq!(wave(Wave::First, list), "dhcp.yaml etcd.yaml time.yaml");
    }

    #[test]
    fn a_wave_begins_with_what_it_waits_for_or_after_a_time() {
        let mut pods = StaticPods::default();
        assert!(pods.on_network() && pods.wave() == Wave::Awaited);
        assert!(!pods.on_network() && pods.on_ready() && pods.wave() == Wave::All);
        assert!(!pods.on_network() && !pods.on_ready() && pods.wave() == Wave::All);
        let mut pods = StaticPods::default();
        let mut waves = Vec::new();
        for look in 0..6 {
            let now = MINUTE + look * INTERVAL;
            pods.on_due(now);
            waves.push(pods.wave());
            pods.on_placed(Ok(Placed::default()), now);
            assert_eq!(pods.deadline(), Some(now + INTERVAL), "it looks as often in each wave");
        }
        let [first, awaited, all] = [Wave::First, Wave::Awaited, Wave::All];
        assert_eq!(waves, [first, awaited, awaited, awaited, all, all]);
    }

    #[test]
    fn a_manifest_that_did_not_change_is_not_written_again() {
        use std::os::unix::fs::MetadataExt;
        let folders = Folders::new(&[("etcd.yaml", "etcd")]);
        let file = || fs::metadata(folders.kubelet.path().join("etcd.yaml")).unwrap().ino();
        folders.placed();
        let before = file();
        folders.placed();
        assert_eq!(file(), before);
        folders.write("etcd.yaml", "newer");
        folders.placed();
        assert_ne!(file(), before);
    }

    #[test]
    fn the_console_shows_each_line_once_until_it_changes() {
        let mut pods = StaticPods::default();
        let mut lines = |lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            pods.on_placed(Ok(Placed { refused: lines, ..Placed::default() }), MINUTE)
        };
        assert_eq!(lines(&["a", "b"]), ["a", "b"]);
        assert_eq!(lines(&["a", "b"]), [""; 0]);
        assert_eq!(lines(&["a", "c"]), ["c"]);
        assert_eq!(lines(&[]), [""; 0]);
        assert_eq!(lines(&["a"]), ["a"]);
    }

    #[test]
    fn the_next_look_waits_for_the_end_of_this_one() {
        let mut pods = StaticPods::default();
        assert_eq!(pods.deadline(), None);
        pods.on_asked(true, MINUTE);
        assert_eq!(pods.deadline(), None);
        pods.on_placed(Ok(Placed::default()), MINUTE);
        assert_eq!(pods.deadline(), Some(MINUTE + INTERVAL));
        pods.on_asked(false, 2 * MINUTE);
        assert_eq!(pods.deadline(), Some(2 * MINUTE + INTERVAL), "the disk worker is busy");
    }
}

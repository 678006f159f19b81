use super::*;
use crate::engine::action::{ActionResult, Origin, OutputFile};
use crate::engine::key::Key;
use crate::engine::stop::Stop;
use crate::error::Kind;
use crate::report::{Color, Verbosity};
use proptest::prelude::*;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use tempfile::TempDir;

fn store() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("store")).unwrap();
    (directory, store)
}

/// Replaces a stored file with one of the same length and another first byte.
fn damage(store: &Store, digest: &Digest) {
    let path = store.blob(digest);
    let mut bytes = fs::read(&path).unwrap();
    bytes[0] ^= 1;
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
}

fn result(digest: Digest) -> ActionResult {
    let outputs = [("out".to_owned(), OutputFile { digest, executable: true })].into();
    ActionResult {
        outputs,
        log: Some(digest),
        wall: Duration::from_millis(1500),
        cpu: Duration::from_nanos(7),
        origin: Some(Origin::Cache("grpc://cache:1".to_owned())),
    }
}

fn sha256sum(path: &Path) -> String {
    let output = std::process::Command::new("sha256sum")
        .arg(path)
        .output()
        .expect("coreutils are installed");
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

#[test]
fn builds_that_open_a_new_store_at_the_same_time_all_get_it() {
    for _ in 0..50 {
        let directory = tempfile::tempdir().unwrap();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            let open = || {
                start.wait();
                Store::open(directory.path().join("store")).map(drop)
            };
            let builds = [(); 4].map(|()| scope.spawn(open));
            builds.into_iter().for_each(|build| build.join().unwrap().unwrap());
        });
    }
}

#[test]
fn bytes_are_in_a_read_only_file_with_the_name_of_sha256sum() {
    let (directory, store) = store();
    let digest = store.put_bytes(b"some bytes").unwrap();
    assert_eq!(store.read(&digest).unwrap(), b"some bytes");
    let path = store.path(&digest).unwrap();
    assert_eq!(path.file_name().unwrap().to_str(), Some(sha256sum(&path).as_str()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o444);
    fs::write(directory.path().join("file"), b"some bytes").unwrap();
    assert_eq!(store.put_file(&directory.path().join("file")).unwrap(), digest);
    assert_eq!(store.find(&digest.hex()), Some(digest));
    assert!(!store.contains(&Digest::new(*digest.hash(), 9)));
}

#[test]
fn unfinished_bytes_leave_nothing() {
    let (_directory, store) = store();
    let mut incoming = store.incoming().unwrap();
    incoming.write_all(b"half").unwrap();
    let path = incoming.path().to_owned();
    drop(incoming);
    assert!(!path.exists());
    assert!(!store.contains(&Digest::of(b"half")));
}

#[test]
fn a_damaged_entry_is_moved_away_and_never_returned() {
    type Read = fn(&Store, &Digest, &Path) -> Result<()>;
    let reads: [Read; 3] = [
        |store, digest, _| store.read(digest).map(|_| ()),
        |store, digest, _| store.path(digest).map(|_| ()),
        |store, digest, target| store.copy_to(digest, target, 0o644),
    ];
    for read in reads {
        let (directory, store) = store();
        let digest = store.put_bytes(b"some bytes").unwrap();
        store.path(&digest).unwrap();
        damage(&store, &digest);
        let error = read(&store, &digest, &directory.path().join("target")).unwrap_err();
        assert_eq!(error.kind, Kind::Digest);
        assert_eq!(error.problems[0].message, format!("the stored copy of `{digest}` is damaged"));
        assert!(!store.contains(&digest));
        assert_eq!(store.put_bytes(b"some bytes").unwrap(), digest);
        assert_eq!(store.read(&digest).unwrap(), b"some bytes");
    }
}

#[test]
fn a_result_is_recalled_while_all_its_files_have_their_sizes() {
    let (_directory, store) = store();
    let (key, made) = (Digest::of(b"key"), store.put_bytes(b"made").unwrap());
    assert_eq!(store.recall(&key), None);
    store.remember(&key, &result(made)).unwrap();
    assert_eq!(store.recall(&key), Some(result(made)));
    fs::remove_file(store.blob(&made)).unwrap();
    fs::write(store.blob(&made), b"mad").unwrap();
    assert_eq!(store.recall(&key), None);
}

#[test]
fn a_torn_result_is_not_used() {
    let (_directory, store) = store();
    let (key, made) = (Digest::of(b"key"), store.put_bytes(b"made").unwrap());
    store.remember(&key, &result(made)).unwrap();
    let memo = Key::new("kind").field("input", "a");
    store.remember_memo(&memo, &made).unwrap();
    assert_eq!(store.recall_memo(&memo), Some(made));
    assert_eq!(store.recall_memo(&Key::new("another").field("input", "a")), None);
    let (result_path, memo_path) = (store.result_path(&key), store.memo_path(&memo));
    let (whole_result, whole_memo) =
        (fs::read(&result_path).unwrap(), fs::read(&memo_path).unwrap());
    for length in 0..whole_result.len().max(whole_memo.len()) {
        fs::write(&result_path, &whole_result[..length.min(whole_result.len() - 1)]).unwrap();
        fs::write(&memo_path, &whole_memo[..length.min(whole_memo.len() - 1)]).unwrap();
        assert_eq!((store.recall(&key), store.recall_memo(&memo)), (None, None), "{length}");
    }
    fs::write(&result_path, vec![0; whole_result.len()]).unwrap();
    fs::write(&memo_path, vec![0; whole_memo.len()]).unwrap();
    assert_eq!((store.recall(&key), store.recall_memo(&memo)), (None, None));
}

#[test]
fn a_stored_failure_is_not_used() {
    let (_directory, store) = store();
    let (key, made) = (Digest::of(b"key"), store.put_bytes(b"made").unwrap());
    // As in a shared cache: the outputs exist, and the exit code (field 4) is 2.
    let failure = [result(made).encode(), vec![0x20, 2]].concat();
    store.write_sealed(&store.result_path(&key), &failure).unwrap();
    assert_eq!(store.recall(&key), None);
    store.remember(&key, &result(made)).unwrap();
    assert_eq!(store.recall(&key), Some(result(made)));
}

#[test]
fn a_tree_is_made_once_and_appears_whole() {
    let (_directory, store) = store();
    let key = Digest::of(b"tree");
    let fail = store.tree(&key, |root| {
        fs::write(root.join("half"), "").unwrap();
        Err(Error::build("no"))
    });
    assert!(fail.is_err());
    assert_eq!(store.find_tree(&key), None);
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let root = store.tree(&key, |root| {
                    made.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(50));
                    fs::write(root.join("file"), "whole").at("write", root)
                });
                assert_eq!(fs::read(root.unwrap().join("file")).unwrap(), b"whole");
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
}

#[test]
fn verify_moves_damaged_entries_away() {
    let (_directory, store) = store();
    let (good, bad) = (store.put_bytes(b"good").unwrap(), store.put_bytes(b"bad").unwrap());
    let fill = |root: &Path| {
        symlink("target", root.join("link")).unwrap();
        fs::write(root.join("file"), "content").at("write", root)
    };
    let (sound, damaged) = (
        store.tree(&Digest::of(b"1"), fill).unwrap(),
        store.tree(&Digest::of(b"2"), fill).unwrap(),
    );
    assert_eq!(store.verify(&|_| ()).unwrap(), Vec::<String>::new());
    damage(&store, &bad);
    fs::set_permissions(damaged.join("file"), Permissions::from_mode(0o755)).unwrap();
    let [blob, tree] = <[String; 2]>::try_from(store.verify(&|_| ()).unwrap()).unwrap();
    assert!(blob.ends_with(&bad.hex()) && tree.ends_with(&Digest::of(b"2").hex()));
    assert!(store.contains(&good) && !store.contains(&bad) && sound.exists() && !damaged.exists());
}

#[test]
fn collect_keeps_recently_used_entries() {
    let (_directory, store) = store();
    let (old, new) = (store.put_bytes(b"old").unwrap(), store.put_bytes(b"new").unwrap());
    let used_again = store.put_bytes(b"used again").unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(100 * 24 * 60 * 60);
    for digest in [&old, &used_again] {
        File::open(store.blob(digest)).unwrap().set_modified(long_ago).unwrap();
    }
    assert!(store.contains(&used_again));
    let month = Duration::from_secs(30 * 24 * 60 * 60);
    assert_eq!(store.collect(Collect::Unused(month)).unwrap().entries, 1);
    assert!(!store.contains(&old) && store.contains(&new) && store.contains(&used_again));
    store.tree(&Digest::of(b"tree"), |_| Ok(())).unwrap();
    store.remember_memo(&Key::new("kind").field("input", old), &new).unwrap();
    let client = store.state("apt").unwrap();
    store.collect(Collect::Unused(month)).unwrap();
    assert!(client.exists());
    store.collect(Collect::Everything).unwrap();
    assert!(!client.exists());
    let Sizes { blobs, trees, results, damaged, .. } = store.sizes().unwrap();
    assert!([blobs, trees, results, damaged].into_iter().all(|size| size < 100_000));
    assert!(store.find_tree(&Digest::of(b"tree")).is_none() && !store.contains(&new));
}

/// Sets the last use of an entry, in hours before now.
fn age(store: &Store, digest: &Digest, hours: u64) {
    let time = SystemTime::now() - Duration::from_secs(hours * 3600);
    File::open(store.blob(digest)).unwrap().set_modified(time).unwrap();
}

#[test]
fn collect_keeps_what_a_running_build_may_use() {
    let (directory, store) = store();
    let [old, new] = ["old", "new"].map(|text| store.put_bytes(text.as_bytes()).unwrap());
    let other = Store::open(directory.path().join("store")).unwrap();
    let (scratch, client) = (other.scratch().unwrap(), store.state("apt").unwrap());
    // The other build may have used it: a use is recorded once a day.
    age(&store, &new, 23);
    age(&store, &old, 25);
    let collected = store.collect(Collect::Everything).unwrap();
    assert_eq!((collected.entries, collected.in_use), (1, 1));
    assert!(
        other.contains(&new) && !other.contains(&old) && scratch.path().exists() && client.exists()
    );
    drop((scratch, other));
    assert_eq!(store.collect(Collect::Everything).unwrap().in_use, 0);
    assert!(!store.contains(&new) && !client.exists());
}

#[test]
fn a_dead_build_whose_files_are_being_removed_keeps_no_entries() {
    let (directory, store) = store();
    let blob = store.put_bytes(b"unused").unwrap();
    let tmp = store.root().join("tmp");
    for name in ["dead-one", "build-two"] {
        fs::create_dir(tmp.join(name)).unwrap();
        File::create_new(tmp.join(name).join("alive")).unwrap();
    }
    // The lock of one is held as by a removal. The next build marks the other as dead.
    let held = File::open(tmp.join("dead-one/alive")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let other = Store::open(directory.path().join("store")).unwrap();
    assert!(!tmp.join("build-two").exists());
    drop(other);
    let collected = store.collect(Collect::Everything).unwrap();
    assert_eq!((collected.entries, collected.in_use), (1, 0));
    assert!(!store.contains(&blob));
}

#[test]
fn bytes_that_the_disk_cannot_read_are_moved_away() {
    let (_directory, store) = store();
    let blobs = [&b"one"[..], b"two", b"three"].map(|bytes| store.put_bytes(bytes).unwrap());
    for blob in &blobs {
        // The first byte of this file cannot be read: EIO.
        fs::remove_file(store.blob(blob)).unwrap();
        symlink("/proc/self/mem", store.blob(blob)).unwrap();
    }
    let errors = [
        store.read(&blobs[0]).unwrap_err(),
        store.write_to(&blobs[1], std::io::sink(), Path::new("a")).unwrap_err(),
    ];
    assert_eq!(errors.map(|error| error.kind), [Kind::Digest; 2]);
    assert_eq!(store.verify(&|_| ()).unwrap().len(), 1);
    assert!(blobs.iter().all(|blob| fs::symlink_metadata(store.blob(blob)).is_err()));
}

#[test]
fn a_store_above_its_limit_loses_the_least_recently_used_entries() {
    let (_directory, store) = store();
    let blobs = [1, 2, 3, 4].map(|seed| store.put_bytes(&vec![seed; 100_000]).unwrap());
    for (blob, hours) in blobs.iter().zip([48, 72, 30, 1]) {
        age(&store, blob, hours);
    }
    let there = || blobs.each_ref().map(|blob| store.blob(blob).exists());
    let size = || store.sizes().unwrap().kept();
    store.collect(Collect::DownTo(size())).unwrap();
    assert_eq!(there(), [true; 4]);
    store.collect(Collect::DownTo(size() - 150_000)).unwrap();
    assert_eq!(there(), [false, false, true, true]);
    store.collect_after_build(0).unwrap();
    assert_eq!(there(), [false, false, false, true], "the build may use it further");
    let collected = store.collect(Collect::DownTo(0)).unwrap();
    assert_eq!((there(), collected.in_use), ([false; 4], 0));
}

#[test]
fn a_limit_from_the_user_spares_only_what_another_build_may_use() {
    let (directory, store) = store();
    let [old, new] = ["old", "new"].map(|text| store.put_bytes(text.as_bytes()).unwrap());
    age(&store, &old, 25);
    let other = Store::open(directory.path().join("store")).unwrap();
    let collected = store.collect(Collect::DownTo(0)).unwrap();
    assert_eq!((collected.entries, collected.in_use), (1, 1));
    drop(other);
    assert!(store.contains(&new) && !store.contains(&old));
    assert_eq!(store.collect(Collect::DownTo(0)).unwrap().entries, 1);
}

#[test]
fn a_clock_that_was_ahead_does_not_end_the_limit() {
    let (_directory, store) = store();
    let [far, near, found] =
        ["far", "near", "found"].map(|text| store.put_bytes(text.as_bytes()).unwrap());
    let ahead = |path: &Path, hours: u64| {
        let time = SystemTime::now() + Duration::from_secs(hours * 3600);
        File::open(path).unwrap().set_modified(time).unwrap();
    };
    let note = store.root().join("collected");
    fs::write(&note, "").unwrap();
    for (path, hours) in [(&note, 9000), (&store.blob(&far), 9000), (&store.blob(&near), 2)] {
        ahead(path, hours);
    }
    assert_eq!(store.collect_daily(0).unwrap().map(|freed| freed.entries), Some(1));
    assert!(!store.blob(&far).exists() && store.blob(&near).exists());
    assert_eq!(store.collect_daily(0).unwrap(), None, "the note has the right time now");
    ahead(&store.blob(&found), 9000);
    assert!(store.contains(&found));
    let used = fs::metadata(store.blob(&found)).unwrap().modified().unwrap();
    assert!(used <= SystemTime::now(), "a use corrects the time");
}

#[test]
fn a_build_with_an_unknown_start_may_use_every_entry() {
    let (directory, store) = store();
    let old = store.put_bytes(b"old").unwrap();
    age(&store, &old, 48);
    let other = Store::open(directory.path().join("store")).unwrap();
    let scratch = other.scratch().unwrap();
    let alive = File::open(scratch.path().with_file_name("alive")).unwrap();
    alive.set_modified(SystemTime::now() + Duration::from_secs(9000 * 3600)).unwrap();
    assert_eq!(store.collect(Collect::Everything).unwrap().in_use, 1);
    assert!(store.contains(&old));
}

#[test]
fn a_store_above_its_limit_keeps_what_its_own_build_may_use() {
    let (_directory, store) = store();
    let [used, unused] = ["used", "unused"].map(|text| store.put_bytes(text.as_bytes()).unwrap());
    // The build began two hours ago. It may have found an entry that was a day old then.
    age(&store, &used, 25);
    age(&store, &unused, 27);
    let scratch = store.scratch().unwrap();
    let start = SystemTime::now() - Duration::from_secs(2 * 3600);
    let alive = scratch.path().with_file_name("alive");
    File::open(alive).unwrap().set_modified(start).unwrap();
    store.collect_after_build(0).unwrap();
    assert!(store.contains(&used) && !store.contains(&unused));
}

#[test]
fn the_limit_is_enforced_once_a_day() {
    let (_directory, store) = store();
    let _held = store.lock("held by the build that just ended", || Ok(())).unwrap();
    let blob = store.put_bytes(b"old").unwrap();
    age(&store, &blob, 48);
    assert_eq!(store.collect_daily(0).unwrap().unwrap().entries, 1);
    let blob = store.put_bytes(b"old").unwrap();
    age(&store, &blob, 48);
    assert_eq!(store.collect_daily(0).unwrap(), None);
    let note = File::open(store.root().join("collected")).unwrap();
    note.set_modified(SystemTime::now() - Duration::from_secs(25 * 3600)).unwrap();
    assert_eq!(store.collect_daily(0).unwrap().unwrap().entries, 1);
    assert!(store.root().join("locks/held by the build that just ended").exists());
}

#[test]
fn an_entry_in_use_during_a_collection_is_put_back() {
    let (_directory, store) = store();
    let key = Digest::of(b"tree");
    let root =
        store.tree(&key, |root| fs::write(root.join("file"), "content").at("write", root)).unwrap();
    let stamp = root.with_file_name("stamp");
    File::open(&stamp)
        .unwrap()
        .set_modified(SystemTime::now() - Duration::from_secs(48 * 3600))
        .unwrap();
    let before = store.entries().unwrap().pop().unwrap();
    assert_eq!(store.find_tree(&key), Some(root.clone()));
    assert_eq!(store.discard(&before).unwrap(), None);
    assert!(root.join("file").exists());
    let now = store.entries().unwrap().pop().unwrap();
    assert!(store.discard(&now).unwrap().is_some() && store.find_tree(&key).is_none());
}

#[test]
fn every_lock_works_on_nfs() {
    let (directory, store) = store();
    let _lock = store.lock("x", || Ok(())).unwrap();
    let mut seen = 0;
    for entry in fs::read_dir("/proc/self/fd").unwrap() {
        let entry = entry.unwrap();
        let Some(path) =
            fs::read_link(entry.path()).ok().filter(|path| path.starts_with(directory.path()))
        else {
            continue;
        };
        let about = fs::read_to_string(Path::new("/proc/self/fdinfo").join(entry.file_name()))
            .unwrap_or_default();
        // The session's directory is locked in addition, where that works.
        if path.is_file() && about.contains("\nlock:\t") {
            let flags = about.lines().find_map(|line| line.strip_prefix("flags:\t")).unwrap();
            let flags = i32::from_str_radix(flags, 8).unwrap();
            assert!(flags & libc::O_ACCMODE == libc::O_RDWR, "{}: {about}", path.display());
            seen += 1;
        }
    }
    assert_eq!(seen, 3, "sessions, alive and x");
}

/// Versions of osbuild before the file `alive` remove a session whose directory they can lock.
#[test]
fn an_older_version_leaves_the_files_of_a_running_build_alone() {
    let (_owner, store) = store();
    let scratch = store.scratch().unwrap();
    let session = File::open(scratch.path().parent().unwrap()).unwrap();
    let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    assert_eq!(rustix::fs::flock(&session, operation), Err(rustix::io::Errno::WOULDBLOCK));
}

#[test]
fn files_of_dead_builds_are_removed_and_those_of_live_ones_stay() {
    let (directory, store) = store();
    let live = store.scratch().unwrap();
    let dead = directory.path().join("store/tmp/build-dead");
    fs::create_dir_all(dead.join("locked")).unwrap();
    fs::set_permissions(dead.join("locked"), Permissions::from_mode(0o500)).unwrap();
    let _other = Store::open(directory.path().join("store")).unwrap();
    let began = SystemTime::now();
    while dead.exists() {
        assert!(began.elapsed().unwrap() < Duration::from_secs(20), "it is not removed");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(live.path().exists());
}

#[test]
fn a_build_that_meets_damage_runs_again_and_heals() {
    let (_directory, store) = store();
    let digest = store.put_bytes(b"source").unwrap();
    damage(&store, &digest);
    let mut runs = 0;
    let build = || {
        runs += 1;
        if !store.contains(&digest) {
            store.put_bytes(b"source")?;
        }
        store.read(&digest)
    };
    let report = Report::new(Verbosity::Quiet, Color::Never);
    assert_eq!(store.healing(&report, build).unwrap(), b"source");
    assert_eq!(runs, 2);
    let failing: Result<()> = store.healing(&report, || {
        runs += 1;
        Err(Error::build("something else"))
    });
    assert_eq!((failing.unwrap_err().kind, runs), (Kind::Build, 3));
}

#[test]
fn a_lock_is_held_beside_a_collection_although_its_store_is_dropped() {
    let (directory, store) = store();
    let other = Store::open(directory.path().join("store")).unwrap();
    let lock = other.lock("x", || Ok(())).unwrap();
    drop(other);
    store.collect(Collect::Everything).unwrap();
    assert!(store.try_lock("x").unwrap().is_none());
    drop(lock);
    assert!(store.try_lock("x").unwrap().is_some());
}

#[test]
fn a_wait_for_a_lock_ends_on_request() {
    let (_directory, store) = store();
    let _held = store.lock("x", || Ok(())).unwrap();
    let stop = Stop::default();
    let mut looks = 0;
    let waited = store.lock("x", || {
        looks += 1;
        if looks == 2 {
            stop.set();
        }
        stop.check()
    });
    assert_eq!(waited.err().unwrap().kind, Kind::Stopped);
}

#[test]
fn the_root_is_below_the_cache_home_or_the_home() {
    let path = |text: &str| Some(PathBuf::from(text));
    assert_eq!(
        Store::usual_root(path("/cache"), path("/me")).unwrap(),
        Path::new("/cache/osbuild")
    );
    assert_eq!(
        Store::usual_root(path("relative"), path("/me")).unwrap(),
        Path::new("/me/.cache/osbuild")
    );
    assert_eq!(Store::usual_root(None, None).unwrap_err().kind, Kind::Usage);
}

proptest! {
    #[test]
    fn results_read_back_and_no_bytes_make_the_reader_panic(
        content: Vec<u8>,
        path in "[a-z/]{1,9}",
        nanos: u32,
        garbage: Vec<u8>,
    ) {
        let digest = Digest::of(&content);
        let mut result = result(digest);
        result.outputs.insert(path, OutputFile { digest, executable: false });
        result.wall = Duration::from_nanos(nanos.into());
        prop_assert_eq!(ActionResult::decode(&result.encode()), Some(result));
        let _ = ActionResult::decode(&garbage);
    }
}

use super::*;
use crate::engine::fs_error::IoContext;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn action() -> Action {
    Action {
        name: "name".to_owned(),
        argv: vec!["make".to_owned(), "-j".to_owned()],
        env: BTreeMap::from([("B".to_owned(), "2".to_owned()), ("A".to_owned(), "1".to_owned())]),
        input: InputTree::new(),
        outputs: vec!["z".to_owned(), "a".to_owned()],
        root: SandboxRoot { key: Digest::of(b"root"), path: PathBuf::from("/one") },
        toolchains: vec![Toolchain {
            name: "go".to_owned(),
            key: Digest::of(b"go"),
            path: PathBuf::from("/two"),
        }],
    }
}

#[test]
fn an_empty_tree_has_the_digest_of_no_bytes() {
    assert_eq!(InputTree::new().digest(), Digest::of(b""));
}

#[test]
fn a_worker_gets_the_modes_of_folders_and_the_times_of_the_rules() {
    let mut tree = InputTree::new();
    tree.add_file("f/a", Digest::of(b"abc"), false).unwrap();
    let encoded = |properties| {
        let mut messages = Vec::new();
        tree.encode(properties, &mut |bytes| {
            messages.push(reapi::Directory::decode(bytes).unwrap());
            Ok(())
        })
        .unwrap();
        let [folder, root] = &messages[..] else { panic!("a folder and the root") };
        assert_eq!(folder.node_properties, root.node_properties);
        (folder.node_properties.clone(), folder.files[0].node_properties.clone())
    };
    assert_eq!(encoded(Properties::Nothing), (None, None));
    let unix_mode = Some(reapi::UInt32Value { value: 0o755 });
    let mode = reapi::NodeProperties { mtime: None, unix_mode };
    assert_eq!(encoded(Properties::Modes), (Some(mode), None));
    let mtime = Some(reapi::Timestamp { seconds: 500_000_000, nanos: 0 });
    let both = reapi::NodeProperties { mtime, unix_mode };
    let time = reapi::NodeProperties { mtime, unix_mode: None };
    assert_eq!(encoded(Properties::ModesAndTimes), (Some(both), Some(time)));
}

#[test]
fn a_directory_is_encoded_as_specified() {
    let digest = Digest::of(b"abc");
    let mut tree = InputTree::new();
    tree.add_symlink("l", "t").unwrap();
    tree.add_file("b", digest, true).unwrap();
    tree.add_file("a", digest, false).unwrap();
    tree.add_directory("d").unwrap();
    let reference = |digest: &Digest| {
        let size: Vec<u8> =
            if digest.size() == 0 { Vec::new() } else { vec![0x10, digest.size() as u8] };
        let message = [&[0x0a, 64], digest.hex().as_bytes(), &size].concat();
        [vec![0x12, message.len() as u8], message].concat()
    };
    let node = |tag: u8, name: &str, rest: Vec<u8>| {
        let message = [vec![0x0a, name.len() as u8], name.as_bytes().to_vec(), rest].concat();
        [vec![tag, message.len() as u8], message].concat()
    };
    let expected = [
        node(0x0a, "a", reference(&digest)),
        node(0x0a, "b", [reference(&digest), vec![0x20, 1]].concat()),
        node(0x12, "d", reference(&Digest::of(b""))),
        node(0x1a, "l", vec![0x12, 1, b't']),
    ];
    assert_eq!(tree.digest(), Digest::of(&expected.concat()));
}

#[test]
fn the_digest_covers_all_but_the_name_and_paths_of_this_machine() {
    let same = Action {
        name: "another".to_owned(),
        root: SandboxRoot { path: PathBuf::from("/elsewhere"), ..action().root },
        toolchains: vec![Toolchain {
            path: PathBuf::from("/elsewhere"),
            ..action().toolchains.remove(0)
        }],
        outputs: vec!["a".to_owned(), "z".to_owned()],
        ..action()
    };
    assert_eq!(same.digest(), action().digest());
    let changes: [fn(&mut Action); 7] = [
        |action| action.argv[1] = "-k".to_owned(),
        |action| action.env.insert("A".to_owned(), "3".to_owned()).map(drop).unwrap(),
        |action| action.input.add_file("a", Digest::of(b""), false).unwrap(),
        |action| action.outputs[0] = "y".to_owned(),
        |action| action.root.key = Digest::of(b"another"),
        |action| action.toolchains[0].key = Digest::of(b"another"),
        |action| action.toolchains.clear(),
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut changed = action();
        change(&mut changed);
        assert_ne!(changed.digest(), action().digest(), "{index}");
    }
}

#[test]
fn the_digest_under_rules_1_is_pinned_and_other_rules_change_it() {
    // A store that was filled before rules had versions is full of results with such keys.
    let first = "1374efad654a969fe54ca84f22bbe7dabd409cdaa0365c24f97e774c481824ec";
    assert_eq!(action().digest_under(1).hex(), first);
    assert_eq!(action().digest(), action().digest_under(rules::VERSION));
    assert_ne!(action().digest_under(2), action().digest_under(1));
    assert_ne!(action().digest_under(2), action().digest_under(3));
}

#[test]
fn the_result_of_a_failed_action_is_not_used() {
    let success = ActionResult::default().encode();
    assert_eq!(ActionResult::decode(&success), Some(ActionResult::default()));
    // Field 4 of `ActionResult` is `int32 exit_code`; fields may come in any order.
    let failure = [success, vec![0x20, 1]].concat();
    assert_eq!(ActionResult::decode(&failure), None);
}

#[test]
fn the_messages_have_the_digests_that_refer_to_them() {
    let mut action = action();
    action.input.add_file("deep/er/file", Digest::of(b""), false).unwrap();
    let mut emitted = BTreeSet::new();
    let mut emit = |bytes: &[u8]| {
        emitted.insert(Digest::of(bytes));
        Ok(())
    };
    assert_eq!(action.messages(&mut emit).unwrap(), action.digest());
    let command = Digest::of(&action.command("").encode_to_vec());
    let named = BTreeSet::from([action.digest(), action.input.digest(), command]);
    assert!(named.is_subset(&emitted));
    assert_eq!(emitted.len(), 5, "two directories below the root, too");
}

#[test]
fn a_path_that_is_not_plain_is_refused() {
    for path in ["", "/a", "a/", "a//b", ".", "../a", "a/../b", "a\0b"] {
        assert!(InputTree::new().add_file(path, Digest::of(b""), false).is_err(), "{path:?}");
    }
}

#[test]
fn two_inputs_at_one_path_are_refused() {
    let mut tree = InputTree::new();
    tree.add_file("a/b", Digest::of(b""), false).unwrap();
    assert!(tree.add_file("a/b", Digest::of(b""), false).is_err());
    assert!(tree.add_file("a", Digest::of(b""), false).is_err());
    assert!(tree.add_file("a/b/c", Digest::of(b""), false).is_err());
    assert!(tree.add_directory("a").is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_written_tree_scans_back(
        files in prop::collection::btree_map(
            "[a-c]{1,2}(/[a-c]{1,2}){0,2}",
            any::<(Vec<u8>, bool)>(),
            0..9,
        )
    ) {
        let (mut tree, mut contents) = (InputTree::new(), BTreeMap::new());
        for (path, (content, executable)) in files {
            // A path below another file is refused and not added.
            let _ = tree.add_file(&path, Digest::of(&content), executable);
            contents.insert(Digest::of(&content), content);
        }
        let target = tempfile::tempdir().unwrap();
        let mut write = |digest: &Digest, path: &Path, executable| {
            fs::write(path, &contents[digest]).unwrap();
            let mode = rules::file_mode(executable);
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("write", path)
        };
        tree.write(target.path(), &mut write).unwrap();
        prop_assert_eq!(InputTree::scan(target.path(), &mut Digest::of_file).unwrap(), tree);
    }
}

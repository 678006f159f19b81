//! A `buildbox-casd` that runs each action in a folder of its worker, with the worker's `/`.
//! `buildbox-run` lays out the folder and would start it in bubblewrap: a script takes
//! bubblewrap's place, and starts the command itself.

use crate::casd::{Casd, programs};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Takes the folder, the working directory, the environment and the command from the arguments of
/// bubblewrap.
const ENTER: &str = r#"#!/bin/sh
while :; do
    case $1 in
    --bind) [ "$3" = / ] && folder=$2; shift 3 ;;
    --chdir) directory=$2; shift 2 ;;
    --setenv) export "$2=$3"; shift 3 ;;
    --unsetenv) unset "$2"; shift 2 ;;
    --hostname | --dir | --uid | --gid | --cap-drop | --proc | --tmpfs | --dev) shift 2 ;;
    --*) shift ;;
    *) break ;;
    esac
done
cd "$folder/$directory" || exit
"#;

/// A worker that lets its actions make user namespaces.
pub const OPEN: &str = "exec \"$@\"";

/// One that does not.
pub const CLOSED: &str =
    "exec /usr/bin/bwrap --dev-bind / / --unshare-user --disable-userns -- \"$@\"";

/// A running server. Dropping it ends it.
pub struct FolderWorker {
    pub casd: Casd,
    _programs: TempDir,
}

impl FolderWorker {
    /// One whose script ends with `start`.
    pub fn start(start: &str) -> FolderWorker {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        write(&path.join("bwrap"), &format!("{ENTER}{start}\n"));
        let run = programs().join("buildbox-run");
        let (path, run) = (path.display(), run.display());
        let runner = PathBuf::from(format!("{path}/runner"));
        write(&runner, &format!("#!/bin/sh\nPATH={path}:$PATH exec {run} \"$@\"\n"));
        FolderWorker { casd: Casd::with_runner(&runner), _programs: folder }
    }
}

fn write(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

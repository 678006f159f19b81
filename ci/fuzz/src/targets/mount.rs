//! Argument lists of `mount`, `umount` and `losetup`, which contain text from users' volumes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use mount::loop_request::LoopRequest;
use mount::option::Options;
use mount::plan::{First, Plan};
use mount::request::{MountRequest, UmountRequest};

use crate::target::{Memory, Outcome, Target};

/// See the module. An input is words separated by NUL.
pub const TARGET: Target = Target { name: "mount", seeds, run, memory: Memory::per_byte(64) };

fn run(input: &[u8]) -> Outcome {
    let words: Vec<OsString> =
        input.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect();
    if let Ok(request) = UmountRequest::parse(&words) {
        assert_eq!(Some(&request.target), words.last());
    }
    match LoopRequest::parse(&words) {
        Ok(LoopRequest::Attach(path)) => {
            assert!(path.as_bytes().starts_with(b"/"), "only an absolute path is attached");
            assert_eq!(words, [OsStr::new("-f"), &path]);
        }
        Ok(LoopRequest::Detach(device)) => {
            assert_eq!(words, ["-d", &device.to_string()], "a device is read as it is written");
        }
        Err(_) => {}
    }
    let read = MountRequest::parse(&words);
    if let Ok(request) = &read {
        let [.., source, target] = words.as_slice() else {
            panic!("a request has a source and a target")
        };
        assert_eq!(
            (&request.source, &request.target),
            (source, target),
            "the last two words are never flags"
        );
        let data = &request.options.data;
        let again = Options::parse(data).expect("data for the file system has no refused option");
        assert_eq!(
            again,
            Options { data: data.clone(), ..Options::default() },
            "data for the file system has no flag"
        );
        let plan = Plan::new(request);
        let mounts_over = matches!(plan.first, First::Mount(..) | First::Probe(_));
        assert!(!(mounts_over && request.options.remount), "a remount never mounts");
    }
    Outcome::of(&read)
}

fn seeds() -> Vec<Vec<u8>> {
    let lines = [
        "--no-canonicalize -t tmpfs -o ro,size=1,rshared tmpfs /x",
        "-t nfs -o nfsvers=4.1,\"a,b\" server:/path /x",
        "-o bind,remount,ro,nodev /a /b",
        "-o rbind,private,_netdev,nofail /a /b",
        "-t auto /dev/vda1 /x",
        "-f /x",
        "-d /dev/loop7",
        "-o loop,user a b",
    ];
    lines.map(|line| line.replace(' ', "\0").into_bytes()).into()
}

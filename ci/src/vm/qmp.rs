//! QEMU's own protocol (QMP), by which a check does to a machine what a person or a hypervisor
//! does.

use osbuild::error::{Context, Error, Result};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use tempfile::TempDir;

/// The socket of a machine.
pub struct Qmp {
    folder: TempDir,
}

impl Qmp {
    /// A socket that no machine has yet.
    pub fn new() -> Result<Self> {
        // A socket's path has 107 bytes at most, and a checkout may lie deep.
        Ok(Qmp { folder: tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())? })
    }

    /// What QEMU is asked for.
    pub fn arguments(&self) -> Vec<String> {
        ["-qmp".to_owned(), format!("unix:{},server=on,wait=off", self.socket().display())].into()
    }

    /// Executes a command. A refusal is an error that quotes it.
    pub fn execute(&self, command: &str, arguments: Value) -> Result<()> {
        let cannot = || "cannot speak with QEMU".to_owned();
        let mut socket = UnixStream::connect(self.socket()).or_build(cannot)?;
        let mut answers = BufReader::new(socket.try_clone().or_build(cannot)?).lines();
        for said in [
            json!({ "execute": "qmp_capabilities" }),
            json!({ "execute": command, "arguments": arguments }),
        ] {
            writeln!(socket, "{said}").or_build(cannot)?;
            // Its greeting and events come between.
            let answer = answers
                .by_ref()
                .map_while(std::result::Result::ok)
                .find(|line| !line.contains("\"QMP\"") && !line.contains("\"event\""));
            match answer {
                Some(answer) if answer.contains("\"return\"") => {}
                answer => {
                    return Err(Error::build(format!("QEMU does not do `{command}`"))
                        .cause(answer.unwrap_or_default()));
                }
            }
        }
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("qmp")
    }
}

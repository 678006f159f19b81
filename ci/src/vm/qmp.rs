//! A client of QEMU's protocol QMP, for actions of a user or a hypervisor on a machine.

use osbuild::error::{Context, Error, Result};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use tempfile::TempDir;

/// A machine's QMP socket.
pub struct Qmp {
    folder: TempDir,
}

impl Qmp {
    /// A socket for a machine that is started later.
    pub fn new() -> Result<Self> {
        // The path of a socket has at most 107 bytes, and that of a checkout may be longer.
        Ok(Qmp { folder: tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())? })
    }

    /// QEMU's arguments.
    pub fn arguments(&self) -> Vec<String> {
        ["-qmp".to_owned(), format!("unix:{},server=on,wait=off", self.socket().display())].into()
    }

    /// Executes a command. If QEMU refuses it, the error quotes the reply.
    pub fn execute(&self, command: &str, arguments: Value) -> Result<()> {
        let cannot = || "cannot send a command to QEMU".to_owned();
        let mut socket = UnixStream::connect(self.socket()).or_build(cannot)?;
        let mut answers = BufReader::new(socket.try_clone().or_build(cannot)?).lines();
        for request in [
            json!({ "execute": "qmp_capabilities" }),
            json!({ "execute": command, "arguments": arguments }),
        ] {
            writeln!(socket, "{request}").or_build(cannot)?;
            // QEMU sends a greeting and events between replies.
            let answer = answers
                .by_ref()
                .map_while(std::result::Result::ok)
                .find(|line| !line.contains("\"QMP\"") && !line.contains("\"event\""));
            match answer {
                Some(answer) if answer.contains("\"return\"") => {}
                answer => {
                    return Err(Error::build(format!("QEMU refuses `{command}`"))
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

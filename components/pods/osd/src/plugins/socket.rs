//! The folder and the socket of a plugin.

use super::sessions::{Session, Sessions};
use crate::connections::{self, PAUSE, report};
use osbuild_failure::{Explain, Outcome};
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// The name of the socket in the folder.
const SOCKET: &str = "socket";

/// A connection, which ends its session when it is closed.
pub type Connection = connections::Connection<Session, Place>;

/// Where accepted connections go.
pub type Accepted = mpsc::Sender<Connection>;

/// The place of a session, which ends when this is dropped.
pub struct Place {
    sessions: Arc<Sessions>,
    session: Session,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.sessions.disconnect(&self.session);
    }
}

/// Listens in the folder of a plugin, which it makes. A folder that is there stays: a pod may have
/// it mounted. The socket in it is another process's.
pub fn listen(folder: &Path) -> Outcome<UnixListener> {
    let cannot = format!("listen in `{}`", folder.display());
    let made = DirBuilder::new().mode(0o700).create(folder);
    made.or_else(|error| ignore(error, ErrorKind::AlreadyExists)).explain(&cannot)?;
    close(folder)?;
    UnixListener::bind(folder.join(SOCKET)).explain(cannot)
}

/// Removes the socket from the folder of a plugin.
pub fn close(folder: &Path) -> Outcome<()> {
    let socket = folder.join(SOCKET);
    let removed = fs::remove_file(&socket).or_else(|error| ignore(error, ErrorKind::NotFound));
    removed.explain(format_args!("remove `{}`", socket.display()))
}

/// Removes the folder of a plugin, unless there is more than a socket in it.
pub fn remove(folder: &Path) -> Outcome<()> {
    close(folder)?;
    fs::remove_dir(folder).explain(format_args!("remove `{}`", folder.display()))
}

fn ignore(error: io::Error, kind: ErrorKind) -> io::Result<()> {
    if error.kind() == kind { Ok(()) } else { Err(error) }
}

/// Accepts the connections of a plugin until the task is ended. One too many is closed at once.
pub async fn accept(listener: UnixListener, plugin: String, sessions: Arc<Sessions>, to: Accepted) {
    loop {
        let accepted = match listener.accept().await {
            Ok((stream, _)) => begin(stream, &plugin, &sessions),
            Err(error) => Err(error),
        };
        let Ok(connection) = accepted.inspect_err(report) else {
            sleep(PAUSE).await;
            continue;
        };
        if let Some(connection) = connection
            && to.send(connection).await.is_err()
        {
            return;
        }
    }
}

fn begin(
    stream: UnixStream,
    plugin: &str,
    sessions: &Arc<Sessions>,
) -> io::Result<Option<Connection>> {
    let same = stream.as_fd().try_clone_to_owned()?.into();
    let session = sessions.connect(plugin, same);
    Ok(session.map(|session| {
        let place = Place { sessions: sessions.clone(), session: session.clone() };
        Connection::of(stream, session, place)
    }))
}

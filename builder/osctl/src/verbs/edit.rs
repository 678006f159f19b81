//! `osctl edit`: changes a resource in the user's editor.

use super::guard::Guard;
use super::nodes::connect;
use super::{note, print_lines};
use crate::cli::{Edit, Unguarded};
use crate::connection::Connection;
use crate::definitions::{self, Definition};
use crate::editing::{Document, with_comments, without_comments};
use crate::error::{Error, Result, printable};
use crate::resource;
use crate::selection::Selection;
use osbuild_cosi::resource::{Metadata, Resource, Spec, UpdateRequest};
use signal_hook::consts::{SIGINT, SIGQUIT};
use signal_hook::flag::register_conditional_default;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::NamedTempFile;
use tonic::{Code, Status};

/// The variables that may have the editor, in order.
const VARIABLES: [&str; 3] = ["OSCTL_EDITOR", "VISUAL", "EDITOR"];

/// The editor if none of them has one.
const EDITOR: &str = "vi";

/// The largest text that is read, in bytes. A node accepts no larger one.
const MAX_LENGTH: usize = 1 << 20;

/// The comment above the text in the editor.
const HEAD: &str = "The node gets this when the editor ends. Without a change, or without a text, \
                    nothing happens.";

/// Opens a resource in the editor and writes it back. The connection is opened anew for that: the
/// user takes longer to write than nodes keep silent clients.
pub async fn run(selection: &Selection, edit: Edit) -> Result<()> {
    let Edit { r#type: type_name, id, unguarded } = edit;
    let connection = connect(selection).await?;
    let (resource, secrets) = read(&connection, &type_name, id.as_deref()).await?;
    let name = resource::name(&resource);
    let original = resource::yaml(&resource)?;
    let document = Document::read(&original, &secrets)
        .map_err(|reason| Error::failed(format!("{name} is no document")).cause(reason))?;
    let editor = Editor::of_user()?;
    let mut file = EditedFile::new(&editor, connection.arguments())?;
    drop(connection);
    let mut comments = vec![HEAD.to_owned()];
    let mut text = original;
    loop {
        let written = with_comments(&comments, &text);
        let edited = file.edit(&written)?;
        text = without_comments(&edited);
        if text.trim().is_empty() {
            note("nothing is changed: the text is empty");
            return Ok(());
        }
        if comments.len() > 1 && edited == written {
            let mistake = comments.pop().unwrap_or_default();
            let unchanged = Error::usage(format!("{name} is not changed")).cause(mistake);
            return Err(file.kept(unchanged));
        }
        let new = Document::read(&text, &secrets);
        let mistake = match new.and_then(|new| new.same_resource(&document)) {
            Err(mistake) => mistake,
            Ok(new) if new == document => {
                note("nothing is changed");
                return Ok(());
            }
            Ok(new) => match update(selection, &resource, &new, unguarded).await {
                Ok(()) => return print_lines(&[format!("updated {name}")]),
                Err(Failure::Mistake(mistake)) => mistake,
                Err(Failure::Other(error)) => return Err(file.kept(error)),
            },
        };
        note(&mistake);
        comments = vec![HEAD.to_owned(), mistake];
    }
}

/// The resource that the user means, and the fields of its type that are secret.
async fn read(
    connection: &Connection,
    type_name: &str,
    id: Option<&str>,
) -> Result<(Resource, Vec<String>)> {
    let definition = definitions::named(connection, type_name).await?;
    let resource = chosen(connection, &definition, id).await?;
    Ok((resource, definition.secrets))
}

async fn chosen(
    connection: &Connection,
    definition: &Definition,
    id: Option<&str>,
) -> Result<Resource> {
    let Definition { namespace, type_name, .. } = definition;
    if definition.is_read_only() {
        let writer = definition.writer.as_deref().unwrap_or_default();
        return Err(Error::usage(format!("clients do not write resources of {type_name}"))
            .cause(format!("{writer} alone writes them")));
    }
    if let Some(id) = id {
        return resource::get(connection, namespace, type_name, id).await;
    }
    let mut found = resource::list(connection, namespace, type_name).await?;
    match (found.pop(), found.as_slice()) {
        (None, _) => Err(Error::usage(format!("there is no resource of {type_name} yet"))
            .hint(format!("`osctl explain {type_name}` has an example for `osctl apply`"))),
        (Some(only), []) => Ok(only),
        (Some(last), others) => {
            let ids = others.iter().chain([&last]).map(|one| resource::metadata(one).id);
            Err(Error::usage("which resource?")
                .cause(format!("those of {type_name} are {}", ids.collect::<Vec<_>>().join(", "))))
        }
    }
}

/// Why a text is not written.
enum Failure {
    /// The user has made a mistake in it.
    Mistake(String),
    /// Something else.
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

/// Writes the document in the place of the resource, unless somebody has changed that since.
async fn update(
    selection: &Selection,
    resource: &Resource,
    new: &Document,
    unguarded: Unguarded,
) -> std::result::Result<(), Failure> {
    let connection = connect(selection).await.map_err(Failure::Other)?;
    let mut metadata = resource::metadata(resource);
    metadata.labels = new.labels.clone().into_iter().collect();
    metadata.annotations = new.annotations.clone().into_iter().collect();
    let spec = Spec { proto_spec: Vec::new(), yaml_spec: new.spec_yaml() };
    let new_resource = Some(Resource { metadata: Some(metadata), spec: Some(spec) });
    let request = UpdateRequest { new_resource, options: None };
    let may_disconnect = async || {
        let type_name = resource::metadata(resource).r#type;
        Ok(definitions::named(&connection, &type_name).await?.may_disconnect)
    };
    let guard = Guard::begin(&connection, unguarded, may_disconnect).await;
    let guard = guard.map_err(Failure::Other)?;
    let updated = match connection.state().update(request).await {
        Ok(_) => Ok(()),
        Err(status) if status.code() == Code::FailedPrecondition => {
            Err(failure(status, is_as_read(&connection, resource).await))
        }
        Err(status) => Err(failure(status, true)),
    };
    guard.end(updated).await
}

/// Whether the node has the resource as it was read.
async fn is_as_read(connection: &Connection, resource: &Resource) -> bool {
    let Metadata { namespace, r#type, id, version, .. } = resource::metadata(resource);
    let now = resource::get(connection, &namespace, &r#type, &id).await;
    now.is_ok_and(|now| resource::metadata(&now).version == version)
}

/// Why the node refuses the update of a resource that it has as it was read, or no longer has so.
fn failure(status: Status, is_as_read: bool) -> Failure {
    match status.code() {
        Code::InvalidArgument => Failure::Mistake(status.message().to_owned()),
        // It has rules that the text breaks, or a try that has ended.
        Code::FailedPrecondition if is_as_read => Failure::Mistake(status.message().to_owned()),
        Code::FailedPrecondition => {
            let error = Error::usage("the node has changed meanwhile");
            Failure::Other(error.cause(status.message()))
        }
        _ => Failure::Other(status.into()),
    }
}

/// The user's editor.
struct Editor {
    /// A command of the shell, to which the file is added.
    command: String,
    /// Whether Ctrl-C ends this program, too. The terminal sends it to all programs, and the user
    /// means one that the editor runs.
    is_ended_by_signals: Arc<AtomicBool>,
}

impl Editor {
    fn of_user() -> Result<Editor> {
        let mut set = VARIABLES.iter().filter_map(|name| std::env::var(name).ok());
        let command = set.find(|editor| !editor.trim().is_empty());
        let command = command.unwrap_or_else(|| EDITOR.to_owned());
        let is_ended_by_signals = Arc::new(AtomicBool::new(true));
        for signal in [SIGINT, SIGQUIT] {
            register_conditional_default(signal, is_ended_by_signals.clone())
                .map_err(|error| Error::failed("cannot handle signals").caused_by(&error))?;
        }
        Ok(Editor { command, is_ended_by_signals })
    }

    fn open(&self, file: &Path) -> Result<()> {
        self.is_ended_by_signals.store(false, Ordering::Relaxed);
        let ended = self.run(file);
        self.is_ended_by_signals.store(true, Ordering::Relaxed);
        ended
    }

    fn run(&self, file: &Path) -> Result<()> {
        let command = &self.command;
        let cannot = || Error::usage(format!("the editor `{}` has failed", printable(command)));
        let mut shell = Command::new("sh");
        // `"$1"` is the file, whatever characters its name has.
        let ended = shell.args(["-c", &format!("{command} \"$1\""), "sh"]).arg(file).status();
        let ended = ended.map_err(|error| cannot().caused_by(&error))?;
        match ended.success() {
            true => Ok(()),
            false => Err(cannot()
                .cause(ended.to_string())
                .hint(format!("set one of {}", VARIABLES.join(", ")))),
        }
    }
}

/// The text while it is edited. Its file goes with it unless it is kept.
struct EditedFile<'a> {
    editor: &'a Editor,
    file: NamedTempFile,
    /// The arguments that choose the node, for commands that hints name.
    node: String,
    /// Whether the text is the user's work already: the editor has run before.
    is_edited: bool,
}

impl EditedFile<'_> {
    fn new(editor: &Editor, node: String) -> Result<EditedFile<'_>> {
        let file = tempfile::Builder::new().prefix("osctl-edit-").suffix(".yaml").tempfile();
        let file = file.map_err(|error| Error::failed("cannot make a file").caused_by(&error))?;
        Ok(EditedFile { editor, file, node, is_edited: false })
    }

    /// Has the user edit the text. An editor that fails changes nothing, and what it has written is
    /// kept, now or in an earlier call.
    fn edit(&mut self, text: &str) -> Result<String> {
        let path = self.file.path().to_owned();
        let cannot = |what: &str, error: &std::io::Error| {
            Error::failed(format!("cannot {what} `{}`", path.display())).caused_by(error)
        };
        std::fs::write(&path, text).map_err(|error| cannot("write", &error))?;
        let opened = self.editor.open(&path);
        let edited = std::fs::read_to_string(&path).map_err(|error| cannot("read", &error));
        match (opened, edited) {
            (Err(error), Ok(edited)) if edited != text || self.is_edited => Err(self.kept(error)),
            // It may be a text in another encoding.
            (Err(error), Err(_)) | (Ok(()), Err(error)) if path.exists() => Err(self.kept(error)),
            (Err(error), _) | (Ok(()), Err(error)) => Err(error),
            (Ok(()), Ok(edited)) if edited.len() > MAX_LENGTH => {
                Err(self.kept(Error::usage(format!("the text has more than {MAX_LENGTH} bytes"))))
            }
            (Ok(()), Ok(edited)) => {
                self.is_edited = true;
                Ok(edited)
            }
        }
    }

    /// Keeps the file, and names it in the error.
    fn kept(&mut self, error: Error) -> Error {
        self.file.disable_cleanup(true);
        let path: PathBuf = self.file.path().to_owned();
        let (path, node) = (path.display(), &self.node);
        error.cause(format!("your text is kept in `{path}`")).hint(format!(
            "compare it with the node: `osctl diff -f {path}{node}`; then write it: `osctl apply \
             -f {path}{node}`"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::arguments;

    fn edited(command: &str, text: &str) -> (Result<String>, PathBuf) {
        let editor = Editor { command: command.to_owned(), is_ended_by_signals: Arc::default() };
        let mut file = EditedFile::new(&editor, String::new()).unwrap();
        let path = file.file.path().to_owned();
        (file.edit(text), path)
    }

    #[test]
    fn an_editor_is_a_command_of_the_shell() {
        let (text, path) = edited("sed -i -e 's/a b/c d/'", "a b\n");
        assert_eq!(text.unwrap(), "c d\n");
        assert!(!path.exists(), "the file goes");
    }

    #[test]
    fn an_editor_that_replaces_the_file_is_read() {
        let command = "f() { printf new > \"$1.new\"; mv \"$1.new\" \"$1\"; }; f";
        assert_eq!(edited(command, "old").0.unwrap(), "new");
    }

    #[test]
    fn the_text_of_an_editor_that_fails_is_kept_if_it_is_another() {
        let (text, path) = edited("false", "a\n");
        assert!(text.unwrap_err().to_string().contains("the editor `false` has failed"));
        assert!(!path.exists());
        let (text, path) = edited("f() { echo b > \"$1\"; exit 3; }; f", "a\n");
        assert!(text.unwrap_err().to_string().contains(&path.display().to_string()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "b\n");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_text_of_an_earlier_round_is_kept_when_the_editor_fails() {
        let command = "f() { grep -q b \"$1\" && exit 3; echo b > \"$1\"; }; f".to_owned();
        let editor = Editor { command, is_ended_by_signals: Arc::default() };
        let mut file = EditedFile::new(&editor, String::new()).unwrap();
        let path = file.file.path().to_owned();
        assert_eq!(file.edit("a\n").unwrap(), "b\n");
        let error = file.edit("# no\nb\n").unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        drop(file);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# no\nb\n");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn hints_name_the_node_that_was_edited() {
        let editor = Editor { command: "true".to_owned(), is_ended_by_signals: Arc::default() };
        for (name, node) in [(Some("edge-2"), " -n edge-2`"), (None, ".yaml`")] {
            let mut file = EditedFile::new(&editor, arguments(name)).unwrap();
            let error = file.kept(Error::usage("a")).to_string();
            assert_eq!(error.matches(node).count(), if name.is_some() { 2 } else { 3 }, "{error}");
            std::fs::remove_file(file.file.path()).unwrap();
        }
    }

    #[test]
    fn a_text_that_cannot_be_read_is_kept() {
        let (text, path) = edited("f() { printf '\\377' > \"$1\"; }; f", "a\n");
        assert!(text.unwrap_err().to_string().contains(&path.display().to_string()));
        assert_eq!(std::fs::read(&path).unwrap(), [0xff]);
        std::fs::remove_file(path).unwrap();
        let (text, path) = edited("rm", "a\n");
        assert!(text.is_err() && !path.exists());
    }

    #[test]
    fn a_refusal_of_the_text_is_the_users_mistake_and_a_conflict_is_not() {
        let is_mistake = |status, as_read| matches!(failure(status, as_read), Failure::Mistake(_));
        assert!(is_mistake(Status::invalid_argument("a"), true));
        assert!(!is_mistake(Status::failed_precondition("a"), false));
        assert!(is_mistake(Status::failed_precondition("it covers your certificate"), true));
        assert!(!is_mistake(Status::unavailable("a"), true));
    }
}

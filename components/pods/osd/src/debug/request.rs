//! The first request of a client, checked before anything begins.

use osbuild_cosi::v1::DebugStart;
use osbuild_protocol::{DebugContainer, DebugId, DebugRights, DebugTime, ImageName, Refusal};
use rustix::rand::{GetRandomFlags, getrandom};
use tonic::Status;

/// The command of a container for which none is named.
const SHELL: &str = "sh";
/// The rights and the seconds of one for which none are named.
const RIGHTS: DebugRights = DebugRights::Restricted;
const SECONDS: u32 = 3600;

/// Bytes of a command with its arguments, and of the name of a kind of terminal.
const MAX_COMMAND: usize = 8 << 10;
const MAX_TERMINAL: usize = 64;

/// The container that the client asks for. Its command is put in if there is none.
///
/// # Errors
/// The request is malformed: `INVALID_ARGUMENT`.
pub fn check(start: &mut DebugStart) -> Result<DebugContainer, Status> {
    if start.command.is_empty() {
        start.command = vec![SHELL.to_owned()];
    }
    let length: usize = start.command.iter().map(|word| word.len() + 1).sum();
    if length > MAX_COMMAND || start.command.iter().any(|word| word.contains('\0')) {
        let wrong = format!("a command has at most {MAX_COMMAND} bytes, and none of them is 0");
        return Err(Status::invalid_argument(wrong));
    }
    if start.command[0].is_empty() {
        return Err(Status::invalid_argument("the command has no name"));
    }
    if let Some(terminal) = &start.terminal
        && (terminal.kind.len() > MAX_TERMINAL
            || !terminal.kind.bytes().all(|byte| byte.is_ascii_graphic()))
    {
        return Err(Status::invalid_argument("the kind of the terminal is no word"));
    }
    let rights = match start.rights.as_str() {
        "" => RIGHTS,
        word => DebugRights::parse(word).map_err(wrong)?,
    };
    let seconds = if start.seconds == 0 { SECONDS } else { start.seconds };
    let time = DebugTime::new(seconds).map_err(wrong)?;
    let image = ImageName::parse(&start.image).map_err(wrong)?;
    Ok(DebugContainer { id: id()?, rights, time, image })
}

fn wrong(refusal: Refusal) -> Status {
    Status::invalid_argument(refusal.reason)
}

fn id() -> Result<DebugId, Status> {
    let mut bytes = [0; 16];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty());
    match filled.map_err(std::io::Error::from) {
        Ok(16) => Ok(DebugId::new(bytes)),
        Ok(_) => Err(Status::internal("there are no random bytes")),
        Err(error) => Err(Status::internal(format!("there are no random bytes: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_cosi::v1::DebugTerminal;

    fn start(image: &str) -> DebugStart {
        DebugStart { image: image.to_owned(), ..DebugStart::default() }
    }

    #[test]
    fn what_is_not_named_is_a_shell_without_rights_for_an_hour() {
        let mut start = start("busybox");
        let container = check(&mut start).unwrap();
        assert_eq!(start.command, ["sh"]);
        assert_eq!((container.rights, container.time.seconds()), (DebugRights::Restricted, 3600));
        assert_ne!(container.id, check(&mut start).unwrap().id);
    }

    #[test]
    fn a_malformed_request_is_refused() {
        let command = |words: &[&str]| {
            let command = words.iter().map(|word| (*word).to_owned()).collect();
            DebugStart { command, ..start("busybox") }
        };
        let terminal = Some(DebugTerminal { kind: "a b".to_owned(), size: None });
        for (mut wrong, reason) in [
            (start(""), "an image is"),
            (start("a b"), "an image is"),
            (DebugStart { rights: "root".to_owned(), ..start("a") }, "`restricted` or `node`"),
            (DebugStart { seconds: 9, ..start("a") }, "10 to 28800 seconds"),
            (command(&["a\0"]), "none of them is 0"),
            (command(&[""]), "no name"),
            (command(&[&"a".repeat(MAX_COMMAND)]), "at most 8192 bytes"),
            (DebugStart { terminal, ..start("a") }, "is no word"),
        ] {
            let refused = check(&mut wrong).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument);
            assert!(refused.message().contains(reason), "{refused}");
        }
    }
}

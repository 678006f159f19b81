//! The messages of the kernel.

use osbuild_cosi::v1::KernelMessage;

/// The messages of a text of syslog(2): `<PRIORITY>[SECONDS.MICROSECONDS] TEXT` on each line. A
/// line of another form goes on with the message before.
pub fn messages(text: &[u8]) -> Vec<KernelMessage> {
    let text = String::from_utf8_lossy(text);
    let mut messages: Vec<KernelMessage> = Vec::new();
    for line in text.lines() {
        match (message(line), messages.last_mut()) {
            (Some(message), _) => messages.push(message),
            (None, Some(last)) => last.text.extend(["\n", line]),
            // The buffer begins in the middle of a message.
            (None, None) => {}
        }
    }
    messages
}

fn message(line: &str) -> Option<KernelMessage> {
    let (priority, rest) = line.strip_prefix('<')?.split_once('>')?;
    // The other bits are the facility.
    let level = priority.parse::<u32>().ok()? & 7;
    let (time, text) = match rest.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((time, text)) => (microseconds(time.trim())?, text),
        None => (0, rest),
    };
    Some(KernelMessage { level, time_microseconds: time, text: text.to_owned() })
}

fn microseconds(time: &str) -> Option<u64> {
    let (seconds, fraction) = time.split_once('.')?;
    let fraction = (fraction.len() == 6).then_some(fraction)?;
    let seconds = seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?;
    seconds.checked_add(fraction.parse().ok()?)
}

/// A reader of the log, which takes each message once.
#[derive(Debug, Default)]
pub struct Reader {
    /// The last message of the log when it was read.
    last: Option<KernelMessage>,
}

impl Reader {
    /// Of all messages that the log has now, the last `tail` ones; nothing stands for all.
    pub fn begin(&mut self, mut all: Vec<KernelMessage>, tail: Option<u32>) -> Vec<KernelMessage> {
        self.last = all.last().cloned();
        if let Some(tail) = tail {
            all.drain(..all.len().saturating_sub(tail as usize));
        }
        all
    }

    /// Of all messages that the log has now, those that came since it was read.
    pub fn go_on(&mut self, all: Vec<KernelMessage>) -> Vec<KernelMessage> {
        let Some(newest) = all.last().cloned() else { return all };
        let last = self.last.replace(newest);
        match all.iter().rposition(|message| Some(message) == last.as_ref()) {
            Some(index) => all.into_iter().skip(index + 1).collect(),
            // The buffer no longer has it, or was empty.
            None => all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "th of a cut message\n<6>[    0.000000] Linux version 6.12.117\n\
                        <3>[   12.345678] Out of memory\nin two lines\n<12>[ 1012.000001] init\n";

    #[test]
    fn a_message_has_level_time_and_text() {
        let messages = messages(TEXT.as_bytes());
        let all: Vec<_> = messages
            .iter()
            .map(|one| (one.level, one.time_microseconds, one.text.as_str()))
            .collect();
        assert_eq!(
            all,
            [
                (6, 0, "Linux version 6.12.117"),
                (3, 12_345_678, "Out of memory\nin two lines"),
                (4, 1_012_000_001, "init"),
            ]
        );
    }

    #[test]
    fn only_new_messages_follow() {
        let all = messages(TEXT.as_bytes());
        let mut reader = Reader::default();
        assert_eq!(reader.begin(all[..2].to_vec(), None), all[..2]);
        assert_eq!(reader.go_on(all.clone()), all[2..]);
        assert!(reader.go_on(all.clone()).is_empty());
        assert_eq!(reader.go_on(all[..1].to_vec()), all[..1], "the last one is gone");
        assert!(reader.go_on(Vec::new()).is_empty());
        assert_eq!(reader.go_on(all.clone()), all[1..]);
    }

    #[test]
    fn nothing_old_follows_a_tail_of_none() {
        let all = messages(TEXT.as_bytes());
        let mut reader = Reader::default();
        assert!(reader.begin(all[..2].to_vec(), Some(0)).is_empty());
        assert!(reader.go_on(all[..2].to_vec()).is_empty());
        assert_eq!(reader.go_on(all.clone()), all[2..]);
        assert_eq!(Reader::default().begin(all.clone(), Some(1)), all[2..]);
        assert_eq!(Reader::default().begin(all.clone(), Some(9)), all);
        let mut of_empty = Reader::default();
        assert!(of_empty.begin(Vec::new(), Some(0)).is_empty());
        assert_eq!(of_empty.go_on(all.clone()), all);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in prop::collection::vec(any::<u8>(), 0..256)) {
            messages(&text);
        }

        #[test]
        fn any_line_that_looks_like_a_message_is_read(
            line in "<[0-9]{0,11}>\\[[ 0-9.]{0,24}\\] \\PC{0,8}"
        ) {
            messages(line.as_bytes());
        }
    }
}

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

/// The messages that came after those of which `last` is the last one.
pub fn after(messages: Vec<KernelMessage>, last: Option<&KernelMessage>) -> Vec<KernelMessage> {
    let Some(last) = last else { return messages };
    match messages.iter().rposition(|message| message == last) {
        Some(index) => messages.into_iter().skip(index + 1).collect(),
        // The buffer no longer has it.
        None => messages,
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
        assert_eq!(after(all.clone(), None), all);
        assert_eq!(after(all.clone(), Some(&all[1])), all[2..]);
        assert!(after(all.clone(), all.last()).is_empty());
        let gone = KernelMessage { text: "gone".to_owned(), ..all[0].clone() };
        assert_eq!(after(all.clone(), Some(&gone)), all);
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

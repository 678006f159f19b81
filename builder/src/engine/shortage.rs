//! Signs of a shortage in what a failed step printed: the machine lacked memory or disk, so the
//! failure says nothing about the step.

/// Phrases that tools print after a process of theirs was killed: gcc for its compiler and its
/// linker, cargo, and rustc for its linker.
const KILLED: [&str; 4] = [
    "Killed signal terminated program",
    "terminated with signal 9 [Killed]",
    "(signal: 9, SIGKILL",
    "signal: 9 (SIGKILL)",
];

/// How lines of tools end after a process of theirs was killed: those of go, and of make.
const KILLED_AT_END: [&str; 2] = [": signal: killed", "] Killed"];

/// The C library's messages for a full disk, and for a user's full part of one.
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// A resource that a machine lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Most likely: a process was killed.
    Memory,
    /// A disk is full.
    Disk,
}

impl Shortage {
    /// The shortage that the output of a failed step shows.
    pub fn of<'l>(lines: impl IntoIterator<Item = &'l str>) -> Option<Self> {
        let mut memory = None;
        for line in lines.into_iter().map(str::trim).filter(|line| !is_source(line)) {
            if FULL.iter().any(|phrase| line.contains(phrase)) {
                return Some(Shortage::Disk);
            }
            if is_of_killed(line) {
                memory = Some(Shortage::Memory);
            }
        }
        memory
    }
}

/// Whether a compiler quotes this line of a program, which may have any text: `12 | Killed(u32),`.
fn is_source(line: &str) -> bool {
    line.split_once('|')
        .is_some_and(|(number, _)| number.trim_end().bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a tool prints this line after a process of its own was killed.
fn is_of_killed(line: &str) -> bool {
    KILLED.iter().any(|phrase| line.contains(phrase))
        || KILLED_AT_END.iter().any(|end| line.ends_with(end))
        || is_of_shell(line)
}

/// Whether a shell prints this line after a process of its own was killed. dash prints only the
/// word. bash prints `FILE: line 7: 4242 Killed COMMAND`, and for a later part of a pipeline
/// `4242 Killed | COMMAND`.
fn is_of_shell(line: &str) -> bool {
    let after_place = line.split_once(": line ").and_then(|(_, rest)| rest.split_once(": "));
    let mut words = after_place.map_or(line, |(_, rest)| rest).split_whitespace();
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    line == "Killed" || words.next().is_some_and(is_number) && words.next() == Some("Killed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(log: &str) -> Option<Shortage> {
        Shortage::of(log.lines())
    }

    #[test]
    fn a_full_quota_is_a_shortage_of_disk() {
        assert_eq!(of("write error: Disk quota exceeded"), Some(Shortage::Disk));
        assert_eq!(of("Killed\nNo space left on device\nKilled"), Some(Shortage::Disk));
        assert_eq!(of("exit status 1"), None);
    }

    #[test]
    fn each_tool_that_reports_a_killed_process_shows_a_lack_of_memory() {
        for line in [
            "Killed",
            "/build/script.sh: line 7:  4242 Killed                  make -j2",
            "     10889 Killed                  | sort",
            "make[1]: *** [Makefile:2: vmlinux] Killed",
            "gcc: fatal error: Killed signal terminated program cc1",
            "collect2: fatal error: ld terminated with signal 9 [Killed]",
            "k8s.io/api/core/v1: /toolchain/go/pkg/tool/linux_amd64/compile: signal: killed",
            "  process didn't exit successfully: `rustc --crate-name a` (signal: 9, SIGKILL: kill)",
            "error: linking with `cc` failed: signal: 9 (SIGKILL)",
        ] {
            assert_eq!(of(&format!("one\n{line}\nother")), Some(Shortage::Memory), "{line}");
        }
    }

    #[test]
    fn a_compile_error_about_the_word_killed_is_not_a_shortage() {
        let log = "error[E0599]: no variant named `Killed` found for enum `Event`\n  --> \
                   src/dispatcher.rs:12:16\n   |\n12 |     Event::Killed(pid) => \
                   \"No space left on device\",\n   |            ^^^^^^ not found in `Event`\n\
                   x.c:3:5: error: 'Killed' undeclared\n    3 |     Killed\n      |     ^~~~~~\n\
                   ./x.go:3:5: undefined: Killed\n";
        assert_eq!(of(log), None);
    }
}

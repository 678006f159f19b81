//! The output on a terminal and in a pipe.

use crate::builds::with_second;
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::{open, open_with};
use std::collections::BTreeSet;
use std::process::Command;

/// The program's output on a terminal.
pub fn on_a_terminal(scratch: &Scratch, args: &str) -> String {
    Ran::of(&mut command(scratch, args)).stdout
}

/// The command that runs the program on a terminal, which util-linux' `script` provides.
pub fn command(scratch: &Scratch, args: &str) -> Command {
    let inner = scratch.command(&[], &[]);
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{} {args}", inner.get_program().display()), "/dev/null"]);
    command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("TERM", "xterm").current_dir(scratch.project());
    command
}

fn colours(text: &str) -> bool {
    ["\x1b[1;31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"].iter().any(|code| text.contains(code))
}

#[test]
fn a_pipe_gets_plain_lines_without_terminal_codes() {
    let broken = open_with("kernel() { sleep 0.3; echo the reason; exit 1; }\n");
    for (scratch, code) in [(open(), 0), (broken, 1)] {
        let ran = scratch.osbuild(&["build", RECIPE]);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(
            ran.stderr.chars().all(|letter| letter == '\n' || !letter.is_control()),
            "{:?}",
            ran.stderr
        );
    }
}

#[test]
fn colours_are_the_users_choice() {
    let scratch = open_with("kernel() { exit 1; }\n");
    assert!(colours(&scratch.osbuild(&["build", RECIPE, "--color", "always"]).stderr));
    let text = on_a_terminal(&scratch, "build small");
    assert!(colours(&text) && text.contains("\x1b[2K"), "{text:?}");
    let plain = on_a_terminal(&scratch, "build small --color never");
    assert!(!colours(&plain) && plain.contains("error: "), "{plain:?}");
    let quiet = on_a_terminal(&scratch, "build small --color never -q");
    assert!(quiet.starts_with("error: ") && !quiet.contains('\x1b'), "{quiet:?}");
}

/// The numbers of steps in the bars of a build, each once.
fn totals(output: &str) -> BTreeSet<u32> {
    let ends = output.split(" steps").filter_map(|text| text.rsplit(" of ").next());
    ends.filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn a_terminal_has_one_bar_for_all_steps_of_all_recipes() {
    // A step takes longer than the interval at which bars are drawn.
    let slow = "kernel() { sleep 0.5; cp /usr/lib/kernel.efi kernel; echo 6.12.1 >release; }\n";
    let [first, second] = [open_with(slow), open_with(slow)];
    let one = totals(&on_a_terminal(&first, "build small"));
    with_second(&second);
    let both = totals(&on_a_terminal(&second, "build small second"));
    assert_eq!((one.len(), both.len()), (1, 1), "{one:?} {both:?}");
    assert_eq!(both.first().copied(), one.first().map(|steps| 2 * steps));
    let piped = open_with(slow).osbuild(&["build", RECIPE]);
    assert_eq!(totals(&piped.stderr), BTreeSet::new(), "{}", piped.stderr);
}

#[test]
fn errors_of_the_command_line_show_it_as_it_can_be_typed() {
    let scratch = Scratch::new();
    let missing = scratch.osbuild(&["build"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(2), ""));
    assert!(missing.stderr.contains("\nUsage: cargo osbuild build "), "{}", missing.stderr);
    for args in [["--project", "/nonexistent", "check"].as_slice(), &["inspect", "/nonexistent"]] {
        let ran = scratch.osbuild(args);
        let expected = "error: cannot open `/nonexistent`\n  caused by: No such file or directory \
                        (os error 2)\n";
        assert_eq!((ran.code, ran.stderr.as_str(), ran.stdout.as_str()), (Some(2), expected, ""));
    }
}

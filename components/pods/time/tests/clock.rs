//! The real program, always with `--dry-run`, against a server of ours on the loopback and against
//! chrony (Debian package `chrony`).

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

const TIMEOUT: Duration = Duration::from_secs(20);
/// Seconds from 1900, where NTP begins, to 1970.
const NTP_EPOCH: u64 = 2_208_988_800;
const LEAP_UNKNOWN: u8 = 3 << 6;

/// The program and its log.
struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_time"));
        let mut child =
            command.arg("--dry-run").args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// Waits for a line with this text, and returns it.
    #[track_caller]
    fn says(&self, text: &str) -> String {
        let mut lines = Vec::new();
        let start = Instant::now();
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT.saturating_sub(start.elapsed())) {
            if line.contains(text) {
                return line;
            }
            lines.push(line);
        }
        panic!("`{text}` was not printed: {lines:#?}");
    }

    #[track_caller]
    fn says_nothing_for(&self, span: Duration) {
        assert_eq!(self.lines.recv_timeout(span), Err(RecvTimeoutError::Timeout));
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The response of a good server, with the fields of RFC 5905, figure 8.
#[derive(Clone, Copy)]
struct Answer {
    leap_version_mode: u8,
    stratum: u8,
    root_dispersion: u32,
    reference: [u8; 4],
    origin_changed: u8,
    /// How far the server's clock is ahead, in seconds.
    ahead: f64,
}

const GOOD: Answer = Answer {
    leap_version_mode: 4 << 3 | 4,
    stratum: 2,
    root_dispersion: 1 << 8,
    reference: [10, 0, 0, 1],
    origin_changed: 0,
    ahead: 0.0,
};

impl Answer {
    fn encode(&self, question: &[u8]) -> Vec<u8> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() + self.ahead;
        let seconds = (now as u64 + NTP_EPOCH) as u32;
        let time = [seconds.to_be_bytes(), ((now.fract() * 4_294_967_296.0) as u32).to_be_bytes()]
            .concat();
        let mut origin = question[40..48].to_vec();
        origin[7] ^= self.origin_changed;
        let mut bytes = vec![self.leap_version_mode, self.stratum, 6, 0xec];
        bytes.extend([0; 4]);
        bytes.extend(self.root_dispersion.to_be_bytes());
        bytes.extend(self.reference);
        bytes.extend(&time);
        bytes.extend(origin);
        bytes.extend([&time[..], &time[..]].concat());
        bytes
    }
}

/// Starts a server that sends all of these responses to every request.
fn serve(answers: &[Answer]) -> String {
    let answers = answers.to_vec();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 100];
        loop {
            let (length, client) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(
                (length, buffer[0] & 0x3f),
                (48, 4 << 3 | 3),
                "version 4, a client's question"
            );
            for answer in &answers {
                socket.send_to(&answer.encode(&buffer[..length]), client).unwrap();
            }
        }
    });
    address.to_string()
}

/// The seconds in a line such as `would set the clock by +1.000000 s`.
fn seconds(line: &str) -> f64 {
    line.rsplit(' ').nth(1).unwrap().parse().expect(line)
}

#[test]
fn a_clock_that_is_off_is_set() {
    for ahead in [3600.25, -0.75] {
        let program = Program::start(&[&serve(&[Answer { ahead, ..GOOD }])]);
        let offset = seconds(&program.says("would set the clock by"));
        assert!((offset - ahead).abs() < 0.2, "{offset} s, and not {ahead} s");
    }
}

#[test]
fn a_chrony_server_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let pid_file = folder.path().join("pid");
    let directives = [
        "local stratum 8".to_owned(),
        "allow 127.0.0.1".to_owned(),
        "bindaddress 127.0.0.1".to_owned(),
        "cmdport 0".to_owned(),
        format!("port {port}"),
        format!("pidfile {}", pid_file.display()),
    ];
    // `-x` keeps chrony itself from touching the clock.
    let mut command = Command::new("/usr/sbin/chronyd");
    let chrony = command
        .args(["-d", "-x", "-u", "root"])
        .args(&directives)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut chrony = chrony.spawn().expect("`chrony` is not installed");
    let program = Program::start(&[&format!("127.0.0.1:{port}")]);
    let line = program.says("stratum 8");
    let offset = seconds(&program.says("would set the clock by"));
    chrony.kill().unwrap();
    chrony.wait().unwrap();
    assert!(offset.abs() < 0.05, "chrony has the same clock: {line}");
}

#[test]
fn unusable_answers_are_refused_with_their_reason() {
    let cases = [
        (
            "does not know the time itself",
            Answer { leap_version_mode: LEAP_UNKNOWN | 4 << 3 | 4, ..GOOD },
        ),
        ("is invalid", Answer { stratum: 16, ..GOOD }),
        ("is invalid", Answer { leap_version_mode: 4 << 3 | 5, ..GOOD }),
        ("too far from a reference clock", Answer { root_dispersion: 20 << 16, ..GOOD }),
        ("refuses queries", Answer { stratum: 0, reference: *b"DENY", ..GOOD }),
        ("asks for fewer queries", Answer { stratum: 0, reference: *b"RATE", ..GOOD }),
    ];
    for (reason, answer) in cases {
        let program = Program::start(&[&serve(&[answer])]);
        program.says(reason);
        program.says_nothing_for(Duration::from_millis(200));
    }
}

#[test]
fn a_forged_answer_does_not_keep_the_real_one_out() {
    let (forged, real) =
        (Answer { origin_changed: 1, ahead: 1e6, ..GOOD }, Answer { ahead: 5.0, ..GOOD });
    let program = Program::start(&[&serve(&[forged, real])]);
    let offset = seconds(&program.says("would set the clock by"));
    assert!((offset - 5.0).abs() < 0.2, "{offset}");
}

#[test]
fn of_three_servers_one_may_lie() {
    let liar = serve(&[Answer { ahead: -1e6, ..GOOD }]);
    let (first, second) =
        (serve(&[Answer { ahead: 7.0, ..GOOD }]), serve(&[Answer { ahead: 7.1, ..GOOD }]));
    let program = Program::start(&[&liar, &first, &second]);
    let offset = seconds(&program.says("would set the clock by"));
    assert!((6.8..7.3).contains(&offset), "{offset}");
}

#[test]
fn two_servers_that_disagree_do_not_move_the_clock() {
    let (first, second) = (serve(&[GOOD]), serve(&[Answer { ahead: 3600.0, ..GOOD }]));
    let program = Program::start(&[&first, &second]);
    program.says("2 servers do not agree");
    program.says("2 servers do not agree");
}

#[test]
fn a_right_clock_is_not_moved_by_one_servers_later_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (list, new) = (folder.path().join("servers"), folder.path().join("new"));
    let write = |text: &str| {
        fs::write(&new, text).unwrap();
        fs::rename(&new, &list).unwrap();
    };
    write(&serve(&[GOOD]));
    let program = Program::start(&["--servers", text(&list)]);
    program.says("would set the clock by");
    for ahead in [2e3, -2e3, 1e6, -1e6, 1e9] {
        // A new list does not reset the state.
        write(&serve(&[Answer { ahead, ..GOOD }]));
        program.says("does not move the clock by");
    }
    write(&serve(&[Answer { ahead: 100.0, ..GOOD }]));
    assert!((seconds(&program.says("would set the clock by")) - 100.0).abs() < 0.2);
}

#[test]
fn a_forged_kiss_of_death_needs_the_requests_time_stamp() {
    let blind = Answer { stratum: 0, reference: *b"DENY", origin_changed: 1, ..GOOD };
    let program = Program::start(&[&serve(&[blind, Answer { ahead: 5.0, ..GOOD }])]);
    assert!((seconds(&program.says("would set the clock by")) - 5.0).abs() < 0.2);
    let seen = Answer { stratum: 0, reference: *b"DENY", ..GOOD };
    let program = Program::start(&[&serve(&[seen])]);
    program.says("refuses queries, paused for 3600 s");
}

/// Starts an `init` that replies that the node ran just now and that the machine kept the time, but
/// closes the first connections. Returns its socket and the requests.
fn start_init(folder: &Path, closed: usize) -> (PathBuf, Receiver<String>) {
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let (sender, requests) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().skip(closed) {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
            let data =
                if line == "last\n" { format!("seen {now}\nkept yes\n") } else { String::new() };
            stream.write_all(format!("{data}ok\n").as_bytes()).unwrap();
            sender.send(line.trim_end().to_owned()).unwrap();
        }
    });
    (path, requests)
}

/// The first question of the first program gets no answer: `init` is busy.
#[test]
fn one_forged_answer_moves_a_kept_clock_by_a_day_at_most() {
    const TWO_DAYS: f64 = 172_800.0;
    let folder = tempfile::tempdir().unwrap();
    let (socket, requests) = start_init(folder.path(), 1);
    let next = || requests.recv_timeout(TIMEOUT).unwrap();
    for ahead in [TWO_DAYS, -TWO_DAYS, 1e9] {
        let program =
            Program::start(&["--socket", text(&socket), &serve(&[Answer { ahead, ..GOOD }])]);
        assert!(
            program.says("does not move the clock by").contains("fewer than three servers say so")
        );
        assert_eq!(next(), "last");
        let line = next();
        assert!(line.starts_with("refused ") && line.ends_with(" by 1 of 1"), "{line}");
    }
    let servers = [(); 3].map(|()| serve(&[Answer { ahead: TWO_DAYS, ..GOOD }]));
    let program =
        Program::start(&["--socket", text(&socket), &servers[0], &servers[1], &servers[2]]);
    assert!((seconds(&program.says("would set the clock by")) - TWO_DAYS).abs() < 0.2);
    assert_eq!(next(), "last");
    let line = next();
    assert!(line.starts_with("set 17") && line.ends_with(" by 3 of 3"), "{line}");
}

#[test]
fn a_single_server_sets_the_clock_and_init_learns_the_count() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, requests) = start_init(folder.path(), 0);
    let program =
        Program::start(&["--socket", text(&socket), &serve(&[Answer { ahead: 5.0, ..GOOD }])]);
    program.says("the first time is unconfirmed: 1 of three servers");
    program.says("would set the clock by");
    assert_eq!(requests.recv_timeout(TIMEOUT).unwrap(), "last");
    let line = requests.recv_timeout(TIMEOUT).unwrap();
    assert!(line.ends_with(" by 1 of 1") && line.starts_with("set "), "{line}");
}

#[test]
fn the_first_time_waits_a_while_for_servers_that_do_not_answer() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let absent = silent.local_addr().unwrap().to_string();
    drop(silent);
    let server = serve(&[Answer { ahead: 5.0, ..GOOD }]);
    let program = Program::start(&[&server, &absent]);
    for _ in 0..3 {
        program.says("waits for more servers to answer");
    }
    program.says("would set the clock by");
}

#[test]
fn a_server_that_is_not_there_is_tried_again() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address: SocketAddr = silent.local_addr().unwrap();
    drop(silent);
    let program = Program::start(&[&address.to_string()]);
    program.says("there is no response");
    let start = Instant::now();
    program.says("there is no response");
    assert!((1.9..4.0).contains(&start.elapsed().as_secs_f64()), "{:?}", start.elapsed());
}

#[test]
fn a_list_that_comes_later_and_changes_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (list, new) = (folder.path().join("servers"), folder.path().join("new"));
    let write = |text: &str| {
        fs::write(&new, text).unwrap();
        fs::rename(&new, &list).unwrap();
    };
    let program = Program::start(&["--servers", text(&list)]);
    program.says("waits for a server to be configured");
    let first = serve(&[Answer { ahead: 10.0, ..GOOD }]);
    write(&format!("{first}\n"));
    assert!((seconds(&program.says("would set the clock by")) - 10.0).abs() < 0.2);
    write(&format!("{first}\n"));
    program.says_nothing_for(Duration::from_millis(300));
    write(&serve(&[Answer { ahead: 20.0, ..GOOD }]));
    assert!((seconds(&program.says("would set the clock by")) - 20.0).abs() < 0.2);
    fs::remove_file(&list).unwrap();
    program.says("waits for a server to be configured");
}

#[test]
fn sigterm_ends_it_with_success() {
    let mut program = Program::start(&[&serve(&[GOOD])]);
    program.says("would set the clock by");
    assert!(Command::new("kill").arg(program.child.id().to_string()).status().unwrap().success());
    assert!(program.child.wait().unwrap().success());
}

#[test]
fn an_unknown_option_is_refused() {
    let status =
        Command::new(env!("CARGO_BIN_EXE_time")).arg("--nonsense").stderr(Stdio::null()).status();
    assert_eq!(status.unwrap().code(), Some(2));
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

//! Verbs and flags.

use crate::address::Address;
use crate::error::Malformed;
use crate::form::Form;
use crate::selection::Selection;
use clap::builder::Resettable;
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::SignedDuration;
use osbuild_protocol::{DebugTime, Fingerprint};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::str::FromStr;

const EXAMPLES: &str = "\
Examples:
  osctl node add edge-1 10.0.2.15 --certificate keys/dev/admin.pem
  osctl get                            list the types of settings
  osctl get resolverstatuses           show the name servers of the node, and who set them
  osctl get resolvers -o yaml          print resources as `apply` reads them
  osctl explain resolvers              show what the type means, with an example
  osctl export >node.yaml              print all that was written, as `apply` reads it
  osctl describe resolvers dns         show all of a resource, and what the node made of it
  osctl diff -f dns.yaml               compare documents with the node
  osctl edit resolvers dns             change a resource in your editor
  osctl status -n edge-1,edge-2        ask several nodes; `--all-nodes` asks all
  osctl apply -f dns.yaml --dry-run    show what would change
  osctl apply -f dns.yaml --try 2m     change it; it is taken back unless you confirm
  osctl confirm                        keep what was tried
  osctl logs kubelet --tail 20 -f      show what the kubelet writes
  osctl top -w                         show what uses the node's processors and memory
  osctl dashboard -n edge-1,edge-2     show nodes on a screen, with their newest log lines
  osctl reach tcp 10.0.2.2:6443        try whether the node reaches a port
  osctl capture any udp port 53        show the DNS packets of the node and its pods
  osctl support                        collect what the node shows in an archive
  osctl history                        show who changed what
  osctl revert 7 --dry-run             show what going back to generation 7 would change
  osctl delete resolvers dns           delete a resource: the lower rank's value is back

Files:
  ~/.config/osctl/nodes/NAME.toml      a known node; XDG_CONFIG_HOME moves it";

/// Reads and changes the settings of running nodes, through their API.
///
/// A node serves it over TLS on port 50000, if its recipe has the pod `osd`, and the recipe or the
/// node document names in `[api]` the CA of the clients that may connect. A client's certificate
/// names its role: reader, operator or admin. A pod of a cluster shows its token (`--token-file`),
/// if the node has a `TokenIssuer` for it.
///
/// stdout gets only what was asked for. Everything else goes to stderr.
///
/// Exit codes: 0 success, 1 the node cannot be reached, fails, has no room for the request or does
/// not accept the credentials, 2 wrong command line, document or request, 4 the node is another one
/// than the one that was trusted. `diff` ends with 0 if nothing differs, 1 if something does, and 2
/// or 4 if it fails.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_long_help = EXAMPLES)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
    /// The nodes.
    #[command(flatten)]
    pub nodes: Selection,
}

impl Cli {
    /// Reads the command line, and ends the program if it is wrong.
    pub fn of_program() -> Cli {
        let command = without_empty_variables(Cli::command(), |name| std::env::var_os(name));
        let read = Cli::from_arg_matches(&command.get_matches());
        read.unwrap_or_else(|error| error.exit())
    }
}

/// The same command line, for which a variable with an empty value is not set.
pub fn without_empty_variables(
    command: Command,
    value: impl Fn(&OsStr) -> Option<OsString>,
) -> Command {
    command.mut_args(|argument| {
        let set = argument.get_env().and_then(&value);
        match set.is_some_and(|value| value.is_empty()) {
            true => argument.env(Resettable::Reset),
            false => argument,
        }
    })
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Add, list, choose and remove the nodes that are known
    #[command(subcommand)]
    Node(Node),
    /// Show resources, or the types that the node has
    Get {
        /// The type: `resolvers`, `resolver` or `Resolvers.osbuild` [default: list the types]
        r#type: Option<String>,
        /// The identifier of one resource
        id: Option<String>,
        /// The form
        #[arg(long, short, value_name = "FORM", default_value = "table")]
        output: Form,
        /// Go on and show changes, until interrupted
        #[arg(long, short, requires = "type")]
        watch: bool,
    },
    /// Show what a type means: who writes it, its fields, and an example
    Explain {
        /// The type, or a field: `resolvers`, `resolvers.nameserver` [default: list the types]
        path: Option<String>,
    },
    /// Show all of a resource: metadata, spec, who set it, and what the node has made of it
    Describe {
        /// The type
        r#type: String,
        /// The identifier [default: all resources of the type]
        id: Option<String>,
    },
    /// Print all that clients have written, as documents that `apply` reads
    ///
    /// A comment names the fields that the node shows nobody. `apply` keeps what the node has in
    /// them; for another node they are missing.
    Export,
    /// Print which controller turns resources of which types into which others, as a graph
    Graph {
        /// The language of the graph
        #[arg(long, short, value_name = "LANGUAGE", default_value = "mermaid")]
        output: GraphForm,
    },
    /// Compare the resources of YAML documents with those of the node
    ///
    /// The output is a unified diff. It ends with exit code 0 if nothing differs, 1 if something
    /// does, and 2 or 4 if it fails. It needs the role that `apply` needs.
    Diff {
        /// The file with documents; `-` is stdin
        #[arg(long, short, value_name = "FILE")]
        file: PathBuf,
    },
    /// Create and update the resources of YAML documents, all or none
    Apply {
        /// The file with documents; `-` is stdin
        #[arg(long, short, value_name = "FILE")]
        file: PathBuf,
        /// How
        #[command(flatten)]
        how: How,
    },
    /// Change a resource in your editor: `$OSCTL_EDITOR`, `$VISUAL`, `$EDITOR` or vi
    ///
    /// A text that the node refuses opens the editor again. If somebody else changes the resource
    /// meanwhile, nothing is changed, and a file keeps your text. So it does after other failures.
    Edit(Edit),
    /// Delete a resource
    Delete(Delete),
    /// Keep what the running try has changed
    Confirm,
    /// List the last generations of the settings: who changed what, and when
    History {
        /// The form
        #[arg(long, short, value_name = "FORM", default_value = "table")]
        output: ListForm,
    },
    /// Take back what the running try has changed, or go back to a generation
    #[command(mut_arg("dry_run", |flag| flag.requires("generation")))]
    #[command(mut_arg("try", |flag| flag.requires("generation")))]
    #[command(mut_arg("no_try", |flag| flag.requires("generation")))]
    Revert {
        /// The generation, as `history` lists it [default: take the running try back]
        generation: Option<u64>,
        /// How
        #[command(flatten)]
        how: How,
    },
    /// Show whether a try is running
    Try,
    /// Show the state of the node: readiness, addresses, slots, daemons
    Status {
        /// The form
        #[arg(long, short, value_name = "FORM", default_value = "table")]
        output: ListForm,
    },
    /// Print a log of a daemon or a container, or list the logs
    #[command(mut_arg("follow", |flag| flag.requires("name")))]
    #[command(mut_arg("tail", |flag| flag.requires("name")))]
    Logs {
        /// A daemon, such as `kubelet`; or a container: `NAMESPACE/POD/CONTAINER`, or enough of it
        /// [default: list the logs]
        name: Option<String>,
        /// Which lines
        #[command(flatten)]
        lines: Lines,
        /// The log of the last boot, or of the container that ran before
        #[arg(long, short, requires = "name")]
        previous: bool,
        /// Show when a container wrote each line
        #[arg(long, short, requires = "name")]
        timestamps: bool,
    },
    /// Print the messages of the kernel
    Dmesg {
        /// Which lines
        #[command(flatten)]
        lines: Lines,
    },
    /// List the processes of the node, with their pods
    Ps {
        /// The form
        #[arg(long, short, value_name = "FORM", default_value = "table")]
        output: ListForm,
    },
    /// Show what uses the processors, memory, disk and network of the node
    Top(Top),
    /// Show nodes on a screen: readiness, load, pods, network and logs
    ///
    /// It needs a terminal of 40 columns and 12 lines or more, and connects again by itself when a
    /// node is lost. `1` to `4` or Tab switch between an overview, pods and processes, the network,
    /// and the log; `n` and `p` between nodes. The arrow keys scroll, `/` filters the log, `l`
    /// shows one log after the other alone, `m` sorts by memory, and `q` leaves. Without colours if
    /// NO_COLOR is set.
    Dashboard,
    /// Print a file of the node, or list the files that it shows
    Read {
        /// The file, as the list has it [default: list the files]
        path: Option<String>,
    },
    /// Try what the node reaches: name servers, ports, URLs, and the way to them
    Reach(Reach),
    /// Capture packets of a link, for tcpdump and Wireshark
    ///
    /// It ends with Ctrl-C, and then says how many packets there were, and how many were dropped.
    /// stdout gets the format of pcap: `osctl capture eth0 | tcpdump -r -`. On a terminal it shows
    /// a line for each packet. It needs the role `admin`, as it shows the traffic of all pods.
    Capture(Capture),
    /// Run a command in a container on the node, with the tools of an image that you name
    ///
    /// On a terminal it is interactive, and `~.` at the start of a line leaves it; elsewhere stdin,
    /// stdout and stderr are those of the command. It ends with the exit code of the command. The
    /// container ends with the command, with this program, and with its time. It needs the role
    /// `admin`.
    Debug(Debug),
    /// Collect what the node shows in an archive, for people who help
    ///
    /// It has the state of the node, its settings, the ends of all logs, processes by their names,
    /// and the files that `read` lists. What fails is a file with the error. Sensitive resources
    /// are left out, and what looks like a key, a token or a password is removed.
    Support {
        /// The archive, `.tar.gz` [default: support-NODE-TIME.tar.gz]
        file: Option<PathBuf>,
    },
    /// Start a daemon of the node again
    Restart {
        /// The daemon
        daemon: Daemon,
    },
    /// End the pods within their grace, and reboot the node
    Reboot,
    /// Have the node check for a release now, and install it
    Update,
    /// Reboot the node into its other slot, with the release that ran before
    Rollback,
    /// Reboot the node and remove all that it keeps, as if it had never run
    Reset {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// End the pods within their grace, and power the node off
    PowerOff,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// How settings are changed.
#[derive(Clone, Copy, Debug, Args)]
pub struct How {
    /// Show what would change
    #[arg(long, conflicts_with = "no_try")]
    pub dry_run: bool,
    /// Take the changes back after this time unless they are confirmed: `90s`, `2m`, at most 1h
    #[arg(long, value_name = "TIME", conflicts_with_all = ["dry_run", "no_try"])]
    pub r#try: Option<Seconds>,
    /// Whether the node must be reached afterwards
    #[command(flatten)]
    pub unguarded: Unguarded,
}

/// The resource that is edited.
#[derive(Clone, Debug, Args)]
pub struct Edit {
    /// The type
    pub r#type: String,
    /// The identifier [default: the only resource of the type]
    pub id: Option<String>,
    /// Whether the node must be reached afterwards
    #[command(flatten)]
    pub unguarded: Unguarded,
}

/// The resource that is deleted.
#[derive(Clone, Debug, Args)]
pub struct Delete {
    /// The type
    pub r#type: String,
    /// The identifier
    pub id: String,
    /// Whether the node must be reached afterwards
    #[command(flatten)]
    pub unguarded: Unguarded,
}

/// Whether changes stay that keep this program from reaching the node.
#[derive(Clone, Copy, Debug, Args)]
pub struct Unguarded {
    /// Keep changes of the network and of the firewall even if the node is not reached after them
    #[arg(long)]
    pub no_try: bool,
}

/// Which lines of a log.
#[derive(Clone, Copy, Debug, Args)]
pub struct Lines {
    /// Go on with lines as they are written, until interrupted
    #[arg(long, short)]
    pub follow: bool,
    /// Begin with the last N lines [default: all]
    #[arg(long, value_name = "N")]
    pub tail: Option<u32>,
}

/// The arguments of `osctl top`.
#[derive(Clone, Copy, Debug, Args)]
pub struct Top {
    /// The form; with `--watch`, JSON is one object a line
    #[arg(long, short, value_name = "FORM", default_value = "table")]
    pub output: ListForm,
    /// Show it again every 2 s, until interrupted
    #[arg(long, short)]
    pub watch: bool,
    /// The order of pods and processes
    #[arg(long, value_name = "BY", default_value = "cpu")]
    pub sort: Sorted,
    /// Show at most N pods and N processes in the tables
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub rows: usize,
}

/// The order of pods and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sorted {
    /// Most processor time first
    Cpu,
    /// Most memory first
    Memory,
}

/// Which packets are captured, and where they go.
#[derive(Debug, Args)]
pub struct Capture {
    /// The link, as `get linkstatuses` lists it; `any` stands for all links
    pub link: String,
    /// Which packets, in tcpdump's language: `tcp port 80 and not host 10.0.0.1` [default: all]
    pub filter: Vec<String>,
    /// The file of pcap that is written; `-` is stdout [default: stdout, or lines on a terminal]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// End after N packets
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after this time: `90s`, `2m`, at most 1h
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Seconds>,
    /// Keep at most the first BYTES of each packet
    #[arg(long, value_name = "BYTES", default_value_t = 262_144)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=262_144))]
    pub snaplen: u32,
    /// Have the link also receive packets that are for other machines
    #[arg(long)]
    pub promiscuous: bool,
    /// Capture also the connection of this program to the node
    #[arg(long)]
    pub own_connection: bool,
}

/// The arguments of `osctl debug`.
#[derive(Debug, Args)]
pub struct Debug {
    /// The image, which the node pulls unless it has it: `docker.io/library/busybox`
    #[arg(long, value_name = "IMAGE")]
    pub image: String,
    /// The rights of the container
    #[arg(long, value_name = "RIGHTS", default_value = "restricted")]
    pub rights: Rights,
    /// End it after this time: `90s`, `2h`, from 10s to 8h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = debug_seconds)]
    pub timeout: u32,
    /// The command with its arguments [default: sh]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The rights of a debug container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rights {
    /// It has namespaces of its own, no capability, and no path of the node
    Restricted,
    /// It has the processes and the network of the node, capabilities to look at them, and the root
    /// at `/host`, read-only. The recipe of the node must allow it
    Node,
}

/// The arguments of `osctl reach`.
#[derive(Debug, Args)]
pub struct Reach {
    /// The target
    #[command(subcommand)]
    pub target: Target,
    /// The form; JSON is one object a line
    #[arg(long, short, global = true, value_name = "FORM", default_value = "table")]
    pub output: ListForm,
}

/// The targets of `osctl reach`.
#[derive(Debug, Subcommand)]
pub enum Target {
    /// Ask each name server of the node for the addresses of a name
    Dns {
        /// The name
        name: String,
        /// Ask only this server
        #[arg(long, value_name = "IP")]
        server: Option<String>,
    },
    /// Open a TCP connection, and close it
    Tcp {
        /// HOST:PORT or [IPV6]:PORT
        address: HostPort,
    },
    /// Request a URL; the body is not read
    Http {
        /// The URL
        url: String,
        /// The method is GET [default: HEAD]
        #[arg(long)]
        get: bool,
        /// Go on if the certificate cannot be verified
        #[arg(long)]
        insecure: bool,
    },
    /// Send ICMP echo requests
    Ping {
        /// A name or an address
        host: String,
        /// How many, at most 20
        #[arg(long, short, value_name = "N", default_value_t = 4)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=20))]
        count: u32,
    },
    /// Find the largest packet that arrives unfragmented
    Mtu {
        /// A name or an address
        host: String,
    },
    /// Find the routers on the way
    Trace {
        /// A name or an address
        host: String,
    },
}

/// A host and a port, both of which must be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl FromStr for HostPort {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<HostPort, Malformed> {
        let wrong = Malformed("write `HOST:PORT` or `[IPV6]:PORT`");
        let (host, port) = text.rsplit_once(':').ok_or(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match bare {
            Some(host) if !host.is_empty() => Ok(HostPort { host: host.to_owned(), port }),
            None if !host.is_empty() && !host.contains([':', '[', ']']) => {
                Ok(HostPort { host: host.to_owned(), port })
            }
            _ => Err(wrong),
        }
    }
}

/// The verbs of `osctl node`.
#[derive(Debug, Subcommand)]
pub enum Node {
    /// Add a node: connect, compare its fingerprint, and remember it
    Add {
        /// A name of your choice
        name: String,
        /// HOST, HOST:PORT or [IPV6]:PORT
        address: Address,
        /// The PEM file with your certificate and its key, from `cargo osbuild keys issue`
        /// [default: `--token-file`]
        #[arg(long, value_name = "FILE")]
        certificate: Option<PathBuf>,
        /// The fingerprint that the node's console shows [default: ask]
        #[arg(long, value_name = "sha256:…", value_parser = fingerprint)]
        fingerprint: Option<Fingerprint>,
    },
    /// List the known nodes
    List,
    /// Make a node the one that verbs without `--node` ask
    Use {
        /// Its name
        name: String,
    },
    /// Forget a node
    Remove {
        /// Its name
        name: String,
    },
}

fn fingerprint(text: &str) -> Result<Fingerprint, Malformed> {
    Fingerprint::parse(text)
        .map_err(|_| Malformed("a fingerprint is `sha256:` and 64 hexadecimal digits"))
}

/// A daemon that can be restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Daemon {
    /// The kubelet, with the configuration that is now on the disk
    Kubelet,
    /// containerd, whose containers go on
    Containerd,
}

/// The form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListForm {
    /// A table for people
    Table,
    /// JSON
    Json,
}

/// The language of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphForm {
    /// Mermaid, which many pages show as a picture
    Mermaid,
    /// Graphviz: `osctl graph -o dot | dot -Tsvg`
    Dot,
}

/// The longest time that a node accepts, in seconds.
const MAX_SECONDS: u32 = 3600;

/// A time in whole seconds: one at least, an hour at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub u32);

impl FromStr for Seconds {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Seconds, Malformed> {
        let seconds = whole_seconds(text).filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
        seconds.map(Seconds).ok_or(Malformed("write `90s` or `2m`, at most `1h`"))
    }
}

fn whole_seconds(text: &str) -> Option<u32> {
    let time = text.parse::<SignedDuration>().ok();
    let seconds = time.filter(|time| time.subsec_nanos() == 0).map(|time| time.as_secs());
    seconds.and_then(|seconds| u32::try_from(seconds).ok())
}

/// How long a debug container lasts. The node has the same bounds.
fn debug_seconds(text: &str) -> Result<u32, Malformed> {
    let time = whole_seconds(text).and_then(|seconds| DebugTime::new(seconds).ok());
    time.map(DebugTime::seconds).ok_or(Malformed("write `90s` or `2h`, from `10s` to `8h`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_empty_generation_reverts_nothing() {
        let wrong = Cli::try_parse_from(["osctl", "revert", ""]).unwrap_err();
        assert_eq!(wrong.exit_code(), 2);
    }

    #[test]
    fn flags_that_need_a_generation_or_a_log_are_refused_without_one() {
        let code = |line: &str| {
            let parsed = Cli::try_parse_from(line.split(' '));
            parsed.map_or_else(|error| error.exit_code(), |_| 0)
        };
        for right in ["logs", "logs a -f", "logs a --tail 5", "dmesg -f", "dmesg --tail 5"] {
            assert_eq!(code(&format!("osctl {right}")), 0, "{right}");
        }
        for right in ["revert", "revert 7 --no-try", "revert 7 --dry-run", "revert 7 --try 2m"] {
            assert_eq!(code(&format!("osctl {right}")), 0, "{right}");
        }
        for wrong in ["logs -f", "logs --tail 5", "revert --no-try", "revert --dry-run"] {
            assert_eq!(code(&format!("osctl {wrong}")), 2, "{wrong}");
        }
    }

    #[test]
    fn a_target_has_a_host_and_a_port() {
        let parsed = |text: &str| {
            text.parse::<HostPort>().ok().map(|HostPort { host, port }| format!("{host} {port}"))
        };
        assert_eq!(parsed("api:6443").as_deref(), Some("api 6443"));
        assert_eq!(parsed("[fd00::1]:443").as_deref(), Some("fd00::1 443"));
        for wrong in ["", "api", "api:", ":80", "api:0", "api:65536", "fd00::1:443", "[]:80"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_debug_container_has_an_image_and_perhaps_a_command() {
        let parsed = |words: &[&str]| {
            let words = ["osctl", "debug"].iter().chain(words).copied();
            match Cli::try_parse_from(words).map(|cli| cli.verb) {
                Ok(Verb::Debug(debug)) => Some((debug.rights, debug.timeout, debug.command)),
                _ => None,
            }
        };
        let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let restricted = Rights::Restricted;
        assert_eq!(parsed(&["--image", "a"]), Some((restricted, 3600, command(&[]))));
        let words = ["--image", "a", "--rights", "node", "--timeout", "2h", "--", "ls", "-l"];
        assert_eq!(parsed(&words), Some((Rights::Node, 7200, command(&["ls", "-l"]))));
        for wrong in [&[][..], &["--image", "a", "--timeout", "9s"], &["--image", "a", "ls"]] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_time_has_units() {
        let seconds = |text: &str| text.parse::<Seconds>().ok().map(|Seconds(count)| count);
        assert_eq!(seconds("90s"), Some(90));
        assert_eq!(seconds("2m"), Some(120));
        assert_eq!(seconds("1h"), Some(3600));
        for wrong in ["", "0s", "-1m", "1", "1ms", "1.5s", "3601s", "100000h"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}

//! `osd` serves clients on the network: osctl, grpcurl and OpenSSL meet its TLS, and each role of
//! their certificates.

use super::{Program, dashboard, debug, plugin, tokens, verbs};
use crate::check::Outcome;
use crate::child::tied;
use crate::site::{Ran, Site};
use osbuild::error::{Context, Error, Result};
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The names of the keys: those that `osd` trusts, and others.
pub const TRUSTED: &str = "trusted";
const OTHER: &str = "other";

/// The file in which the output of `osd` is.
const OUTPUT: &str = "osd.out";

/// How long `osd` may take to listen.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The connections that `osd` serves on the network.
const MAX_CONNECTIONS: usize = 64;

/// More connections than `osd` serves on the network.
const TOO_MANY: usize = 70;

/// Settings whose types need different roles.
const RESOLVER: &str = "type: Resolver\nid: dns\nspec: { nameserver: 192.0.2.1 }\n";
const PARAMETER: &str =
    "type: KernelParameter\nid: swap\nspec: { key: vm.swappiness, value: '1' }\n";

/// The resource that revokes the access of the client `reader`.
const REVOCATION: &str = "type: Revocation\nid: lost\nspec: { user: reader }\n";

/// The programs and files of this check, in a folder of its own.
pub struct Remote<'a> {
    pub site: &'a Site<'a>,
    pub osd: &'a Path,
    pub osctl: &'a Path,
    pub grpcurl: &'a Path,
    /// gRPC's modules for Python.
    pub modules: &'a Path,
    pub folder: &'a Path,
}

/// A listening `osd`, where it listens, and the fingerprint that it prints.
pub struct Listening {
    _osd: Program,
    pub address: String,
    pub fingerprint: String,
}

/// Clients on the network may do what their certificates say, and others cannot connect.
pub fn clients_may_do_what_their_role_permits(
    remote: &Remote,
    outcome: &mut Outcome,
) -> Result<()> {
    remote.make_keys()?;
    let node = remote.listen(remote.key(TRUSTED, "api.crt"))?;
    certificates_are_those_of_others_too(remote, &node, outcome)?;
    strangers_are_refused(remote, &node, outcome)?;
    roles_differ(remote, &node, outcome)?;
    resources_read_back(remote, outcome)?;
    what_was_changed_comes_back(remote, outcome)?;
    verbs::agree(remote, outcome)?;
    dashboard::shows_a_node_until_it_is_left(remote, outcome)?;
    debug::connects_a_person_with_a_command(remote, outcome)?;
    plugin::does_what_its_grant_says(remote, outcome)?;
    a_revoked_client_is_out(remote, outcome)?;
    tokens::count_as_their_issuer_says(remote, &node, outcome)?;
    silent_connections_keep_no_local_client_out(remote, &node, outcome)?;
    let Listening { _osd: osd, fingerprint, .. } = node;
    drop(osd);
    the_node_stays_the_same(remote, &fingerprint, outcome)
}

/// OpenSSL and grpcurl know nothing of us.
fn certificates_are_those_of_others_too(
    remote: &Remote,
    node: &Listening,
    outcome: &mut Outcome,
) -> Result<()> {
    let (authority, admin) = (remote.key(TRUSTED, "api.crt"), remote.key(TRUSTED, "admin.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["verify", "-x509_strict", "-purpose", "sslclient", "-CAfile"]);
    let ran = remote.site.run("state-api-openssl", openssl.arg(&authority).arg(&admin))?;
    claim(outcome, "OpenSSL accepts the certificate of an admin", &ran, Some(0));
    let mut grpcurl = Command::new(remote.grpcurl);
    grpcurl.args(["-insecure", "-cert"]).arg(&admin).arg("-key").arg(&admin);
    let ran = remote.site.run("state-api-grpcurl", grpcurl.arg(&node.address).arg("list"))?;
    claim(outcome, "grpcurl lists the services over TLS", &ran, Some(0));
    let mut grpcurl = Command::new(remote.grpcurl);
    grpcurl.args(["-insecure", "-cert"]).arg(&admin).arg("-key").arg(&admin);
    let call = [&*node.address, "machine.MachineService/Version"];
    let ran = remote.site.run("state-api-grpcurl", grpcurl.args(call))?;
    let is_version = ran.code == Some(0) && ran.output.contains("\"tag\": \"v");
    outcome.check("the call of `talosctl get` has a version", is_version, || ran.output.clone());
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-tls1_2", "-connect", &node.address, "-cert"]);
    let ran = remote.site.run("state-api-openssl", openssl.arg(&admin).arg("-key").arg(&admin))?;
    let is_refused = ran.code == Some(1) && ran.output.contains("alert protocol version");
    outcome.check("TLS 1.2 is refused", is_refused, || ran.output.clone());
    let mut grpcurl = Command::new(remote.grpcurl);
    let grpcurl = grpcurl.args(["-insecure", "-connect-timeout", "30", &node.address, "list"]);
    let ran = remote.site.run("state-api-grpcurl", grpcurl)?;
    let is_refused = ran.code == Some(1) && ran.output.contains("tls: certificate required");
    outcome.check("a client without a certificate is refused", is_refused, || ran.output.clone());
    Ok(())
}

fn strangers_are_refused(remote: &Remote, node: &Listening, outcome: &mut Outcome) -> Result<()> {
    let mut meet = |claim_: &str, certificate: PathBuf, fingerprint: &str, code, text: &str| {
        let mut osctl = remote.osctl();
        osctl.args(["node", "add", "stranger", &node.address, "--fingerprint", fingerprint]);
        let ran =
            remote.site.run("state-api-osctl", osctl.arg("--certificate").arg(certificate))?;
        let holds = ran.code == Some(code) && ran.output.contains(text);
        outcome.check(claim_, holds, || ran.output.clone());
        Ok::<(), Error>(())
    };
    let own = &node.fingerprint;
    let other = remote.key(OTHER, "admin.pem");
    meet("a certificate of another CA is refused", other, own, 1, "UnknownCA")?;
    let old = remote.key(TRUSTED, "old.pem");
    meet("an expired certificate is refused", old, own, 1, "your certificate has expired")?;
    let wrong = format!("sha256:{}", "0".repeat(64));
    let admin = remote.key(TRUSTED, "admin.pem");
    meet("a node with another fingerprint is not used", admin, &wrong, 4, "another node")?;
    let early = remote.key(TRUSTED, "early.pem");
    meet("a certificate is accepted before its time", early, own, 0, "is known by")?;
    remote.finish(&["node", "remove", "stranger"]).map(drop)
}

fn roles_differ(remote: &Remote, node: &Listening, outcome: &mut Outcome) -> Result<()> {
    let documents = |name: &str, text: &str| {
        let path = remote.folder.join(name);
        fs::write(&path, text).or_build(|| format!("cannot write `{}`", path.display()))?;
        Ok::<_, Error>(path.display().to_string())
    };
    let resolver = documents("resolver.yaml", RESOLVER)?;
    let both = documents("both.yaml", &format!("{RESOLVER}---\n{PARAMETER}"))?;
    for (role, resolver_code, both_code) in [("reader", 2, 2), ("operator", 0, 2), ("admin", 0, 0)]
    {
        let certificate = remote.key(TRUSTED, &format!("{role}.pem")).display().to_string();
        let add = ["node", "add", role, &node.address, "--certificate", &certificate];
        remote.finish(&[&add[..], &["--fingerprint", &node.fingerprint]].concat())?;
        let codes = |file: &str| {
            let ran = remote.run(&["--node", role, "apply", "-f", file])?;
            Ok::<_, Error>((ran.code, ran.output))
        };
        let (found, output) = codes(&both)?;
        let name = format!("{role}: a kernel parameter and a resolver end with code {both_code}");
        outcome.check(&name, found == Some(both_code), || output);
        let (found, output) = codes(&resolver)?;
        let name = format!("{role}: a resolver ends with code {resolver_code}");
        outcome.check(&name, found == Some(resolver_code), || output);
        let ran = remote.run(&["--node", role, "get", "resolvers"])?;
        claim(outcome, &format!("{role}: may read"), &ran, Some(0));
    }
    let record = fs::read_to_string(remote.folder.join(OUTPUT)).unwrap_or_default();
    let line = "call: operator \"operator\": osbuild.v1.Configuration/Apply: done: \
                Resolvers.osbuild(system/dns)";
    outcome.check("the record has who changed what", record.contains(line), || record.clone());
    Ok(())
}

fn resources_read_back(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let printed = remote.finish(&["--node", "admin", "get", "resolvers", "-o", "yaml"])?.output;
    let path = remote.folder.join("printed.yaml");
    fs::write(&path, &printed).or_build(|| format!("cannot write `{}`", path.display()))?;
    let ran = remote.run(&["--node", "admin", "apply", "-f", &path.display().to_string()])?;
    let is_same = ran.output.trim() == "unchanged Resolvers.osbuild/dns";
    outcome.check("`apply` reads what `get` prints", is_same, || printed + &ran.output);
    let ran = remote.run(&["--node", "admin", "delete", "resolver", "dns"])?;
    claim(outcome, "a resource is deleted", &ran, Some(0));
    let ran = remote.run(&["--node", "admin", "get", "resolver", "dns"])?;
    claim(outcome, "and is gone", &ran, Some(2));
    Ok(())
}

/// The last change has deleted the resolver, and the generation before still has it.
fn what_was_changed_comes_back(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let history = remote.finish(&["--node", "reader", "history", "-o", "json"])?.output;
    let read: Value = serde_json::from_str(&history)
        .map_err(|_| Error::build("osctl has printed no JSON").cause(history.clone()))?;
    let [last, before] = [0, 1].map(|index| &read[index]);
    let is_recorded = last["caller"] == "admin \"admin\""
        && last["changes"][0]["change"] == "deleted Resolvers.osbuild/dns";
    outcome.check("the history has who changed what", is_recorded, || history.clone());
    let number = before["generation"].to_string();
    let ran = remote.run(&["--node", "reader", "revert", &number])?;
    claim(outcome, "a reader may not go back", &ran, Some(2));
    let ran = remote.run(&["--node", "admin", "revert", &number, "--dry-run"])?;
    let is_shown = ran.output.contains("created Resolvers.osbuild/dns\n  + nameserver:");
    outcome.check("a dry run shows what would come back", is_shown, || ran.output);
    remote.finish(&["--node", "admin", "revert", &number])?;
    let ran = remote.run(&["--node", "admin", "get", "resolver", "dns"])?;
    claim(outcome, "a generation is restored", &ran, Some(0));
    Ok(())
}

fn a_revoked_client_is_out(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let path = remote.folder.join("revocation.yaml");
    fs::write(&path, REVOCATION).or_build(|| format!("cannot write `{}`", path.display()))?;
    remote.finish(&["--node", "admin", "apply", "-f", &path.display().to_string()])?;
    let ran = remote.run(&["--node", "reader", "get", "resolvers"])?;
    let is_out = ran.code == Some(1) && ran.output.contains("your certificate is revoked");
    outcome.check("a revoked certificate is refused", is_out, || ran.output.clone());
    remote.finish(&["--node", "admin", "delete", "revocation", "lost"])?;
    let ran = remote.run(&["--node", "reader", "get", "resolvers"])?;
    claim(outcome, "and accepted without the revocation", &ran, Some(0));
    Ok(())
}

fn silent_connections_keep_no_local_client_out(
    remote: &Remote,
    node: &Listening,
    outcome: &mut Outcome,
) -> Result<()> {
    let silent: Vec<_> =
        (0..TOO_MANY).filter_map(|_| TcpStream::connect(&node.address).ok()).collect();
    let mut grpcurl = Command::new(remote.grpcurl);
    grpcurl.args(["-plaintext", "-unix"]).arg(remote.socket()).arg("list");
    let ran = remote.site.run("state-api-grpcurl", &mut grpcurl)?;
    let name = "a local client connects while silent ones hold all places on the network";
    claim(outcome, name, &ran, Some(0));
    let open = silent.iter().map(is_open).collect::<Vec<_>>();
    let (served, beyond) = open.split_at(MAX_CONNECTIONS.min(open.len()));
    let holds = open.len() == TOO_MANY && served[0] && !beyond.contains(&true);
    let name = format!("connection {} over the network is closed at once", MAX_CONNECTIONS + 1);
    outcome.check(&name, holds, || format!("open: {open:?}"));
    Ok(())
}

/// Whether the node has neither closed the connection nor does so within a moment.
fn is_open(mut stream: &TcpStream) -> bool {
    let read = stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .and_then(|()| stream.read(&mut [0; 1]));
    read.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

fn the_node_stays_the_same(
    remote: &Remote,
    fingerprint: &str,
    outcome: &mut Outcome,
) -> Result<()> {
    let again = remote.listen(remote.key(TRUSTED, "api.crt"))?.fingerprint;
    outcome.check("a restarted node has the same fingerprint", again == fingerprint, || again);
    let closed = remote.start(&remote.folder.join("none.crt"))?;
    let output = remote.output_of_osd("no client may connect")?;
    let is_closed = !output.contains("listening");
    outcome.check("without a CA nothing listens", is_closed, || output);
    let (authority, late) = (remote.key(TRUSTED, "api.crt"), remote.folder.join("none.crt"));
    fs::copy(authority, &late).or_build(|| format!("cannot write `{}`", late.display()))?;
    let listens = remote.output_of_osd(fingerprint).map(drop);
    drop(closed);
    listens.map(|()| outcome.check("a CA that comes later is enough", true, String::new))
}

pub fn claim(outcome: &mut Outcome, name: &str, ran: &Ran, code: Option<i32>) {
    outcome.check(name, ran.code == code, || ran.output.clone());
}

impl Remote<'_> {
    /// A file of the keys with this name.
    pub fn key(&self, keys: &str, file: &str) -> PathBuf {
        self.project().join("keys").join(keys).join(file)
    }

    fn project(&self) -> PathBuf {
        self.folder.join("project")
    }

    /// The folder with the sockets of plugins.
    pub fn plugins(&self) -> PathBuf {
        self.folder.join("plugins")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("remote.sock")
    }

    /// Makes a project with the keys, as a user does.
    pub fn make_keys(&self) -> Result<()> {
        let project = self.project();
        self.site.copy_to(&project)?;
        for folder in [self.folder.join("keep"), self.plugins()] {
            fs::create_dir(&folder).or_build(|| format!("cannot make `{}`", folder.display()))?;
        }
        let osbuild = |words: &[&str]| {
            let mut osbuild = self.site.osbuild()?;
            osbuild.args(["--project", &project.display().to_string(), "keys"]).args(words);
            self.site.finish("state-api-keys", &mut osbuild).map(drop)
        };
        for keys in [TRUSTED, OTHER] {
            osbuild(&["new", keys])?;
        }
        for role in ["reader", "operator"] {
            osbuild(&["issue", TRUSTED, role, "--role", role])?;
        }
        osbuild(&["issue", TRUSTED, "old", "--role", "admin", "--as-of", "2015-01-01"])?;
        osbuild(&["issue", TRUSTED, "early", "--role", "admin", "--as-of", "2080-01-01"])
    }

    /// Starts `osd` on a free port of the loopback.
    fn start(&self, clients: &Path) -> Result<Program> {
        let output = self.folder.join(OUTPUT);
        let file = fs::File::create(&output)
            .or_build(|| format!("cannot write `{}`", output.display()))?;
        let mut command = tied(self.osd);
        command.arg("--socket").arg(self.socket()).arg("--keep").arg(self.folder.join("keep"));
        command.args(["--listen", "127.0.0.1:0", "--clients"]).arg(clients);
        command.args(["--node", tokens::NODE]);
        command.arg("--plugins").arg(self.plugins());
        let osd = command.stdin(Stdio::null()).stdout(file).spawn();
        Ok(Program(osd.or_build(|| "cannot start `osd`".to_owned())?))
    }

    pub fn listen(&self, clients: PathBuf) -> Result<Listening> {
        let osd = self.start(&clients)?;
        let output = self.output_of_osd("sha256:")?;
        let words: Vec<&str> = output.lines().flat_map(str::split_whitespace).collect();
        let ["listening", "at", address, "as", fingerprint, ..] = words[..] else {
            return Err(Error::build("`osd` prints no address").cause(output));
        };
        let (address, fingerprint) = (address.to_owned(), fingerprint.to_owned());
        Ok(Listening { _osd: osd, address, fingerprint })
    }

    /// The output of `osd`, as soon as it contains the text and ends with a whole line.
    fn output_of_osd(&self, text: &str) -> Result<String> {
        let began = Instant::now();
        loop {
            let output = fs::read_to_string(self.folder.join(OUTPUT)).unwrap_or_default();
            if output.contains(text) && output.ends_with('\n') {
                return Ok(output);
            }
            if began.elapsed() > TIMEOUT {
                return Err(Error::build(format!("`osd` does not print `{text}`")).cause(output));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// `osctl` with the nodes of this check.
    pub fn osctl(&self) -> Command {
        let mut command = Command::new(self.osctl);
        command.env("XDG_CONFIG_HOME", self.folder.join("configuration"));
        command.env_remove("OSCTL_NODE").env_remove("OSCTL_TOKEN_FILE");
        command
    }

    pub fn run(&self, words: &[&str]) -> Result<Ran> {
        self.site.run("state-api-osctl", self.osctl().args(words))
    }

    pub fn finish(&self, words: &[&str]) -> Result<Ran> {
        self.site.finish("state-api-osctl", self.osctl().args(words))
    }
}

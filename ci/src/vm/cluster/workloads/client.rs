//! A person with `kubectl`, and a client of a Service.

use super::super::addons::DOMAIN;
use super::super::kubectl::Kubectl;
use super::super::wait::{Seen, wait};
use crate::check::Outcome;
use crate::vm::probe::free_port;
use osbuild::error::{Context, Result};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// The port of the node that leads to the Service (`deployment.yaml`).
pub const NODE_PORT: u16 = 30080;

/// How long the node may take to pull images and start pods, and until a claim holds.
const ROLLOUT: &str = "--timeout=600s";
const TIMEOUT: Duration = Duration::from_secs(300);

/// How long one HTTP response may take.
const RESPONSE: Duration = Duration::from_secs(60);

/// The start of the names of the Service's pods, with which they answer.
const WEB: &str = "web-";

/// The content of the file that is copied into a pod and back.
const TEXT: &str = "copied by kubectl\n";

/// The file with the output of a `kubectl` that goes on.
const FOLLOWED: &str = "followed";

/// The client.
pub struct Client<'a> {
    /// The administrator's program.
    pub kubectl: &'a Kubectl<'a>,
    /// The port of the loopback that leads to [`NODE_PORT`].
    pub node_port: u16,
}

impl Client<'_> {
    /// kube-proxy, CoreDNS, the Deployment and the client's pod become ready.
    pub fn rolls_out(&self, outcome: &mut Outcome) -> Result<()> {
        let system = "--namespace=kube-system";
        for (claim, words) in [
            (
                "kube-proxy runs",
                &["rollout", "status", "daemonset/kube-proxy", system, ROLLOUT][..],
            ),
            ("CoreDNS runs", &["rollout", "status", "deployment/coredns", system, ROLLOUT]),
            ("the Deployment runs", &["rollout", "status", "deployment/web", ROLLOUT]),
            ("the client runs", &["wait", "--for=condition=Ready", "pod/client", ROLLOUT]),
        ] {
            let ran = self.kubectl.run(words)?;
            if ran.code != Some(0) {
                let events =
                    self.kubectl.run(&["get", "pods,events", "--all-namespaces", "-o", "wide"])?;
                return Err(ran.failure(&format!("does not hold: {claim}")).cause(events.output));
            }
            outcome.passed += 1;
        }
        Ok(())
    }

    /// The claims about the Service and about `kubectl`; `when` follows their names.
    pub fn works(&self, outcome: &mut Outcome, when: &str) -> Result<()> {
        self.reaches_the_service(outcome, when)?;
        self.reads_logs(outcome, when)?;
        outcome.claim(&format!("`kubectl port-forward` works{when}"), self.forwards()?);
        outcome.claim(&format!("`kubectl cp` works{when}"), self.copies()?);
        Ok(())
    }

    /// The claims about the Service, from a pod and from outside.
    pub fn reaches_the_service(&self, outcome: &mut Outcome, when: &str) -> Result<()> {
        let address = self.kubectl.output(&[
            "get",
            "service",
            "web",
            "--output=jsonpath={.spec.clusterIP}",
        ])?;
        for (claim, host) in [
            ("a pod reaches a Service by its short name", "web".to_owned()),
            ("a pod reaches a Service by its DNS name", format!("web.default.svc.{DOMAIN}")),
            ("a pod reaches a Service by its address", address),
        ] {
            let script = get_script(&host, 80, "/hostname");
            let words = ["exec", "client", "--", "timeout", "20", "bash", "-c", &script];
            outcome.claim(&format!("{claim}{when}"), self.kubectl.until(TIMEOUT, &words, WEB)?);
        }
        outcome.claim(&format!("the port of the node answers{when}"), get(self.node_port, WEB)?);
        Ok(())
    }

    fn reads_logs(&self, outcome: &mut Outcome, when: &str) -> Result<()> {
        for (claim, words, expected) in [
            ("`kubectl logs` shows a pod's output", &["logs", "client"][..], "HTTP server"),
            (
                "`kubectl exec` runs a program",
                &["exec", "client", "--", "cat", "/etc/hostname"],
                "client",
            ),
        ] {
            outcome.claim(&format!("{claim}{when}"), self.kubectl.until(TIMEOUT, words, expected)?);
        }
        for words in [["logs", "client", "--follow"], ["attach", "client", "--quiet"]] {
            let claim = format!("`kubectl {}` goes on with new output{when}", words[0]);
            outcome.claim(&claim, self.follows(&words)?);
        }
        Ok(())
    }

    /// The client's pod writes a line for each request. Requests repeat: the first may come before
    /// the connection.
    fn follows(&self, words: &[&str]) -> Result<std::result::Result<(), String>> {
        let marker = format!("followed-by-{}", words[0]);
        let _following = self.kubectl.start_into(words, FOLLOWED)?;
        let script = get_script("localhost", 8080, &format!("/echo?msg={marker}"));
        wait(TIMEOUT, || {
            self.kubectl.run(&["exec", "client", "--", "timeout", "20", "bash", "-c", &script])?;
            let text = fs::read_to_string(self.kubectl.file(FOLLOWED))
                .or_build(|| format!("cannot read `{FOLLOWED}`"))?;
            Ok(if text.contains(&marker) { Seen::Yes(()) } else { Seen::NotYet(text) })
        })
    }

    fn forwards(&self) -> Result<std::result::Result<(), String>> {
        let port = free_port()?;
        let _forward =
            self.kubectl.start(&["port-forward", "pod/client", &format!("{port}:8080")])?;
        get(port, "client")
    }

    fn copies(&self) -> Result<std::result::Result<(), String>> {
        let back = self.kubectl.file("received");
        self.kubectl.write("sent", TEXT)?;
        // The file of an earlier copy may not exist.
        let _ = fs::remove_file(&back);
        for words in
            [["cp", "sent", "client:/tmp/copied"], ["cp", "client:/tmp/copied", "received"]]
        {
            if let Err(why) = self.kubectl.until(TIMEOUT, &words, "")? {
                return Ok(Err(why));
            }
        }
        Ok(match fs::read_to_string(&back) {
            Ok(text) if text == TEXT => Ok(()),
            Ok(text) => Err(format!("`{text}` came back")),
            Err(error) => Err(format!("nothing came back: {error}")),
        })
    }
}

/// A script for `bash` that prints the response to an HTTP request.
pub fn get_script(host: &str, port: u16, path: &str) -> String {
    format!("exec 3<>/dev/tcp/{host}/{port}; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3")
}

/// Requests the name of the pod behind a port of the loopback until it begins with `expected`.
fn get(port: u16, expected: &str) -> Result<std::result::Result<(), String>> {
    let request = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(RESPONSE))?;
        stream.write_all(b"GET /hostname HTTP/1.0\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    };
    wait(TIMEOUT, || {
        Ok(match request() {
            Ok(response) if body(&response).starts_with(expected) => Seen::Yes(()),
            Ok(response) => Seen::NotYet(format!("the response is `{response}`")),
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
}

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

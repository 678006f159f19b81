//! osctl explains, compares and edits the resources of a real `osd`, and asks several nodes.

use super::remote::{Remote, claim};
use crate::check::Outcome;
use crate::site::Ran;
use osbuild::error::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A setting that the node has, with another value.
const CHANGED: &str = "type: Resolver\nid: dns\nspec: { nameserver: 192.0.2.7 }\n";

/// A setting that can keep clients from reaching a node.
const ADDRESS: &str = "type: Address\nid: lan\nspec: { link: eth0, address: 192.0.2.7/24 }\n";

/// A bootstrap token of Kubernetes, in a label of a setting.
const TOKEN: &str = "abcdef.0123456789abcdef";

/// The verbs agree with each other: what one prints, another reads.
pub fn agree(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    examples_are_documents(remote, outcome)?;
    differences_have_an_exit_code(remote, outcome)?;
    resources_are_described(remote, outcome)?;
    resources_are_edited(remote, outcome)?;
    what_is_exported_is_a_document(remote, outcome)?;
    a_graph_has_every_type(remote, outcome)?;
    several_nodes_are_asked(remote, outcome)?;
    what_may_disconnect_is_set(remote, outcome)?;
    keys_of_a_tunnel_are_hidden(remote, outcome)?;
    a_bundle_has_no_secret(remote, outcome)
}

fn examples_are_documents(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let explained = remote.finish(&["--node", "reader", "explain", "timeservers"])?.output;
    let has_fields = ["the role operator, or a higher one", "server  <list of string>"]
        .iter()
        .all(|text| explained.contains(text));
    outcome.check("a reader has a type explained", has_fields, || explained.clone());
    let example = explained.split("EXAMPLE\n").nth(1).unwrap_or_default();
    let file = write(remote, "example.yaml", &example.replace("\n  ", "\n").replacen("  ", "", 1))?;
    let ran = admin(remote, &["apply", "-f", &file])?;
    claim(outcome, "`apply` reads the example of `explain`", &ran, Some(0));
    admin(remote, &["delete", "timeserver", "time"])?;
    let ran = admin(remote, &["explain", "resolvers.nameservr"])?;
    let is_refused = ran.code == Some(2) && ran.output.contains("did you mean `nameserver`?");
    outcome.check("a field that does not exist has a hint", is_refused, || ran.output);
    Ok(())
}

fn what_is_exported_is_a_document(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let exported = remote.finish(&["--node", "reader", "export"])?.output;
    let has_it = exported.contains("type: Resolvers.osbuild\nid: dns\n");
    outcome.check("a reader exports what was written", has_it, || exported.clone());
    let file = write(remote, "exported.yaml", &exported)?;
    let ran = admin(remote, &["diff", "-f", &file])?;
    claim(outcome, "what is exported is what the node has", &ran, Some(0));
    let ran = admin(remote, &["apply", "-f", &file])?;
    let is_same = ran.code == Some(0) && !ran.output.contains("updated");
    outcome.check("`apply` reads what is exported", is_same, || ran.output);
    Ok(())
}

/// Graphviz reads the graph, with a line for each type.
fn a_graph_has_every_type(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let types = remote.finish(&["--node", "reader", "get", "-o", "name"])?.output;
    let graph = remote.finish(&["--node", "reader", "graph", "-o", "dot"])?.output;
    let file = write(remote, "graph.dot", &graph)?;
    let read = remote.site.finish("state-api-dot", Command::new("dot").args(["-Tplain", &file]))?;
    let known = types.lines().filter(|name| name.ends_with(".osbuild"));
    let missing: Vec<_> = known.filter(|name| !read.output.contains(*name)).collect();
    outcome.check("a graph has every type", missing.is_empty(), || missing.join(", "));
    let is_edge = |line: &&str| line.starts_with("edge ");
    let edges = read.output.lines().filter(is_edge).count();
    outcome.check("and edges between them", edges >= types.lines().count(), || read.output.clone());
    Ok(())
}

fn differences_have_an_exit_code(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let file = write(remote, "changed.yaml", CHANGED)?;
    let ran = admin(remote, &["diff", "-f", &file])?;
    let is_shown = ran.code == Some(1) && ran.output.contains("+  - \"192.0.2.7\"");
    outcome.check("a difference is shown, with exit code 1", is_shown, || ran.output);
    let code = code_without_readers(remote, &["--node", "admin", "diff", "-f", &file])?;
    outcome.check("and has it without a reader", code == Some(1), || format!("{code:?}"));
    admin(remote, &["apply", "-f", &file])?;
    let ran = admin(remote, &["diff", "-f", &file])?;
    let is_same = ran.code == Some(0) && ran.output.is_empty();
    outcome.check("what is applied does not differ", is_same, || ran.output);
    let ran = admin(remote, &["diff", "-f", "none.yaml"])?;
    claim(outcome, "a failure of `diff` is no difference", &ran, Some(2));
    let code = code_without_readers(remote, &["--node", "admin", "diff", "-f", "none.yaml"])?;
    outcome.check("and is one without a reader", code == Some(2), || format!("{code:?}"));
    Ok(())
}

fn resources_are_described(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let ran = admin(remote, &["describe", "resolver", "dns"])?;
    let has_all = ["set by     admin \"admin\", in generation ", "\n  - \"192.0.2.7\"\n"]
        .iter()
        .all(|text| ran.output.contains(text));
    outcome.check("`describe` has who set a resource last", has_all, || ran.output);
    let template = "jsonpath={.id}: {.spec.nameserver[0]}";
    let ran = admin(remote, &["get", "resolvers", "-o", template])?;
    let is_made = ran.output == "dns: 192.0.2.7\n";
    outcome.check("a template makes a line of a resource", is_made, || ran.output);
    Ok(())
}

fn resources_are_edited(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let ran = edit(remote, "sed -i s/192.0.2.7/192.0.2.8/")?;
    let is_done = ran.code == Some(0) && ran.output == "updated Resolvers.osbuild/dns\n";
    outcome.check("a resource is edited", is_done, || ran.output);
    let ran = edit(remote, "kill -INT $PPID; true")?;
    let goes_on = ran.code == Some(0) && ran.output.contains("nothing is changed");
    outcome.check("Ctrl-C in the editor is for the editor", goes_on, || ran.output);
    let ran = edit(remote, "true")?;
    let is_same = ran.code == Some(0) && ran.output.contains("nothing is changed");
    outcome.check("a text that stays the same changes nothing", is_same, || ran.output);
    let ran = edit(remote, "sed -i s/192.0.2.8/name/")?;
    let is_kept = ran.code == Some(2) && kept(&ran).is_some_and(|text| text.contains("\"name\""));
    outcome.check("the text of a mistake is kept", is_kept, || ran.output);
    let meanwhile = write(remote, "meanwhile.yaml", CHANGED)?;
    let osctl = remote.osctl();
    let apply = format!("{:?} --node admin apply -f {meanwhile}", osctl.get_program());
    let ran = edit(remote, &format!("{apply} && sed -i s/192.0.2.8/192.0.2.9/"))?;
    let text = kept(&ran).unwrap_or_default();
    let is_refused = ran.code == Some(2) && ran.output.contains("the node has changed meanwhile");
    outcome.check("a change meanwhile is a conflict", is_refused, || ran.output);
    outcome.check("and the text is kept", text.contains("192.0.2.9"), || text);
    let ran = admin(remote, &["get", "resolver", "dns", "-o", "jsonpath={.spec.nameserver[*]}"])?;
    outcome.check("and what was changed stays", ran.output == "192.0.2.7\n", || ran.output);
    Ok(())
}

fn several_nodes_are_asked(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let ran = remote.run(&["--all-nodes", "get", "resolvers"])?;
    let rows: Vec<&str> = ran.output.lines().filter_map(|line| line.split(' ').next()).collect();
    let has_all = rows == ["NODE", "admin", "operator", "reader"];
    outcome.check("a table has a row of each node", has_all, || ran.output);
    let ran = remote.run(&["-n", "gone,admin", "get", "resolvers", "-o", "name"])?;
    let has_one = ran.output.contains("admin  Resolvers.osbuild/dns");
    let is_error = ran.code == Some(2) && ran.output.contains("node `gone`: ");
    outcome.check("a node that fails hides no other", has_one && is_error, || ran.output);
    let file = write(remote, "changed.yaml", CHANGED)?;
    let ran = remote.run(&["-n", "reader,admin", "apply", "-f", &file])?;
    let is_stopped = ran.code == Some(2) && ran.output.contains("not changed: admin");
    outcome.check("a change stops at the first node that fails", is_stopped, || ran.output);
    let ran = remote.run(&["-n", "reader,admin", "power-off"])?;
    claim(outcome, "what ends a node takes one", &ran, Some(2));
    Ok(())
}

/// This `osd` acts on no node, so there is nothing to try. `vm: tries` has a node that is cut off.
fn what_may_disconnect_is_set(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let file = write(remote, "address.yaml", ADDRESS)?;
    let ran = admin(remote, &["apply", "-f", &file])?;
    claim(outcome, "an address is set where nothing can be tried", &ran, Some(0));
    let ran = admin(remote, &["apply", "-f", &file, "--no-try", "--try", "1m"])?;
    claim(outcome, "`--no-try` excludes a try", &ran, Some(2));
    let ran = admin(remote, &["delete", "address", "lan", "--no-try"])?;
    claim(outcome, "with `--no-try` nothing is tried", &ran, Some(0));
    Ok(())
}

/// A tunnel of WireGuard, a rule for its packets, and their table.
const TUNNEL: &str = r"
type: Link
id: wg0
spec:
  link: wg0
  wireguard:
    privateKey: +C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=
    listenPort: 51820
    peers:
    - publicKey: lhDEwrWVBtIhCuAXH12bvf7hxyC7MyJEwCQ+K0n/shY=
      presharedKey: fLmJ9BhXlT775w7OqmDU8dZ59elGcl03roySZp5gvs4=
      allowedIps: 10.7.0.0/24
---
type: RoutingRule
id: vpn
spec: { family: ipv4, priority: 2000, fwmark: 0x200, table: 254 }
";

/// Nobody reads the keys back, and a resource with `(hidden)` in their places is the same.
fn keys_of_a_tunnel_are_hidden(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let file = write(remote, "tunnel.yaml", TUNNEL)?;
    let ran = admin(remote, &["apply", "-f", &file])?;
    claim(outcome, "a tunnel of WireGuard and a routing rule are set", &ran, Some(0));
    let shown = admin(remote, &["get", "link", "wg0", "-o", "yaml"])?.output;
    let is_hidden = !shown.contains("+C5uPI") && !shown.contains("fLmJ9B");
    let is_hidden = is_hidden && shown.matches("(hidden)").count() == 2;
    outcome.check("its private and preshared keys are hidden", is_hidden, || shown.clone());
    let hidden = TUNNEL
        .replace("+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=", "(hidden)")
        .replace("fLmJ9BhXlT775w7OqmDU8dZ59elGcl03roySZp5gvs4=", "(hidden)");
    let ran = admin(remote, &["diff", "-f", &write(remote, "hidden.yaml", &hidden)?])?;
    claim(outcome, "a tunnel with hidden keys is the same", &ran, Some(0));
    let other = write(remote, "moved.yaml", &hidden.replace("51820", "51821"))?;
    let ran = admin(remote, &["apply", "-f", &other])?;
    let is_refused = ran.code != Some(0) && ran.output.contains("write the secret again");
    outcome.check("another tunnel with hidden keys is refused", is_refused, || ran.output);
    let explained = admin(remote, &["explain", "links"])?.output;
    let is_named = explained.contains("wireguard.privateKey, wireguard.peers.presharedKey");
    outcome.check("the keys are explained as secret", is_named, || explained);
    for words in [["delete", "link", "wg0"], ["delete", "routingrule", "vpn"]] {
        admin(remote, &words)?;
    }
    Ok(())
}

/// This `osd` has no container `inspect`, so the logs are an error in the bundle.
fn a_bundle_has_no_secret(remote: &Remote, outcome: &mut Outcome) -> Result<()> {
    let document = format!(
        "type: Resolver\nid: dns\nlabels: {{ note: {TOKEN} }}\n\
         spec: {{ nameserver: 192.0.2.77 }}\n"
    );
    admin(remote, &["apply", "-f", &write(remote, "token.yaml", &document)?])?;
    let ran = admin(remote, &["get", "resolver", "dns", "-o", "yaml"])?;
    outcome.check("a setting has a token", ran.output.contains(TOKEN), || ran.output);
    let path = remote.folder.join("support.tar.gz").display().to_string();
    let ran = admin(remote, &["support", &path])?;
    claim(outcome, "`support` collects what there is", &ran, Some(0));
    let mut tar = Command::new("tar");
    tar.args(["-xzOf", &path, "--wildcards", "*/resources/Resolvers.osbuild.yaml"]);
    let found = remote.site.finish("state-api-tar", &mut tar)?.output;
    let is_clean = found.contains("192.0.2.77") && !found.contains(TOKEN);
    outcome.check("the bundle has the setting without the token", is_clean, || found);
    let mut tar = Command::new("tar");
    let names = remote.site.finish("state-api-tar", tar.args(["-tzf", &path]))?.output;
    let has_error = names.lines().any(|name| name.ends_with("/logs.error"));
    outcome.check("what fails is a file with the error", has_error, || names);
    Ok(())
}

fn admin(remote: &Remote, words: &[&str]) -> Result<Ran> {
    remote.run(&[&["--node", "admin"], words].concat())
}

/// The exit code of osctl if nobody reads its stdout and stderr.
fn code_without_readers(remote: &Remote, words: &[&str]) -> Result<Option<i32>> {
    let nobody = || std::io::pipe().map(|(_, writer)| writer).or_build(|| "no pipe".to_owned());
    let mut osctl = remote.osctl();
    osctl.args(words).stdout(nobody()?).stderr(nobody()?);
    let ended = osctl.status().or_build(|| "cannot start osctl".to_owned())?;
    Ok(ended.code())
}

/// Edits the resolver with this command as the editor.
fn edit(remote: &Remote, editor: &str) -> Result<Ran> {
    let mut osctl = remote.osctl();
    osctl.env("OSCTL_EDITOR", editor).env("TMPDIR", remote.folder);
    remote.site.run("state-api-osctl", osctl.args(["--node", "admin", "edit", "resolvers"]))
}

/// The text in the file that the error names.
fn kept(ran: &Ran) -> Option<String> {
    let (_, rest) = ran.output.split_once("your text is kept in `")?;
    fs::read_to_string(PathBuf::from(rest.split('`').next()?)).ok()
}

fn write(remote: &Remote, name: &str, text: &str) -> Result<String> {
    let path = remote.folder.join(name);
    fs::write(&path, text).or_build(|| format!("cannot write `{}`", path.display()))?;
    Ok(path.display().to_string())
}

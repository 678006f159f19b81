//! The documentation's plugin in Python, as a pod with the documentation's manifest.

use super::carried_image::CarriedImage;
use super::node::Node;
use super::remote::Osctl;
use crate::check::Outcome;
use crate::site::Site;
use crate::state_api::{python_definitions, python_modules};
use osbuild::error::{Context, Error, Result};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The page with the pod, and where its manifest begins and ends.
const PAGE: &str = include_str!("../../../../builder/docs/plugins.md");
const BEGIN: &str = "```yaml\napiVersion: v1\nkind: Pod\n";
const FENCE: &str = "```";

/// The name of the pod, of its plugin and of its grant.
const NAME: &str = "full-name";

/// The program and its grant, in the checkout.
const PROGRAM: &str = "components/pods/osd/tests/full_name.py";
const GRANT: &str = "components/pods/osd/tests/full_name.yaml";

/// The image of the page. Its root has Debian's Python and the libraries that this needs, gRPC's
/// modules, those made from the `.proto` files, and the program.
const IMAGE: CarriedImage = CarriedImage {
    name: "localhost/full-name:1",
    fill: "\
standard=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path(\"stdlib\"))')
mkdir -p root/usr/bin \"root$standard\" root/plugin
cp -L /usr/bin/python3 root/usr/bin/python3
cp -a \"$standard/.\" \"root$standard\"
cp -r \"$1/grpc\" \"$1/google\" \"$1/typing_extensions.py\" \"$2/.\" \"$3\" root/plugin
for unused in config-* ensurepip idlelib lib2to3 pydoc_data test tkinter turtledemo unittest; do
    rm -rf \"root$standard\"/$unused
done
find root -name __pycache__ -prune -exec rm -rf '{}' +
find root -name '*.so' -o -path root/usr/bin/python3 | xargs ldd |
    sed -n 's/.* => \\(\\/[^ ]*\\) .*/\\1/p; s/^\\t\\(\\/[^ ]*\\) (.*/\\1/p' | sort -u |
    while read -r library; do
        mkdir -p \"root${library%/*}\"
        cp -L \"$library\" \"root$library\"
    done",
    configuration: "{\"Env\":[\"PATH=/usr/bin\",\"PYTHONPATH=/plugin\"],\
                    \"Entrypoint\":[\"python3\",\"/plugin/full_name.py\"]}",
};

/// Settings whose full name the plugin keeps, that name, and another one.
const SETTINGS: &str = "{type: Hostname, id: name, spec: {hostname: edge-7}}\n---\n\
                        {type: Resolver, id: dns, spec: {search: example.org}}\n";
const FULL_NAME: &str = "edge-7.example.org";
const CHANGED: &str = "{type: Resolver, id: dns, spec: {search: example.net}}\n";
const CHANGED_NAME: &str = "edge-7.example.net";

/// How `osctl` shows the output, and the controller.
const NAMES: [&str; 2] = ["get", "fullnames"];
const CONTROLLERS: [&str; 2] = ["get", "controllerstatuses"];

/// How long the pod may take. The kubelet tries longer and longer pauses before it mounts a folder
/// that was missing, and starts a container that has ended.
const TIMEOUT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_secs(1);

/// The section of a recipe with the pod.
pub fn pod(site: &Site, project: &Path) -> Result<String> {
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let modules = python_modules(site)?;
    python_definitions(site, &modules, folder.path())?;
    let program = site.root.join(PROGRAM);
    IMAGE.pod(site, project, NAME, &manifest()?, &[&modules, folder.path(), &program])
}

/// The manifest of the page, in the network of the node: this one has no other.
fn manifest() -> Result<String> {
    let found = PAGE.find(BEGIN).map(|at| &PAGE[at..]).and_then(|rest| rest.split(FENCE).nth(1));
    let text = found.and_then(|text| text.strip_prefix("yaml\n"));
    let text = text.ok_or_else(|| Error::build("`plugins.md` has no manifest of a pod"))?;
    Ok(text.replacen("\nspec:\n", "\nspec:\n  hostNetwork: true\n", 1))
}

/// It starts once its grant has made its folder, reacts to changes, and does so again after a crash
/// of `osd`.
pub fn does_what_its_grant_says(node: &Node, osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let before = osctl.run(&NAMES)?;
    outcome.check("without its grant it has no type", before.code == Some(2), || before.output);
    osctl.finish(&["apply", "-f", &osctl.write("full-name", SETTINGS)?])?;
    osctl.finish(&["apply", "-f", &osctl.site.root.join(GRANT).display().to_string()])?;
    shows(osctl, outcome, "a pod in Python is a plugin", &NAMES, FULL_NAME)?;
    shows(osctl, outcome, "its controller has a status", &CONTROLLERS, "full-name  true")?;
    osctl.finish(&["apply", "-f", &osctl.write("full-name", CHANGED)?])?;
    shows(osctl, outcome, "it reacts to a change", &NAMES, CHANGED_NAME)?;
    node.signal("KILL")?;
    shows(osctl, outcome, "it is back after a crash of osd", &NAMES, CHANGED_NAME)
}

/// Its grant outlasts a power cut, and is the end of it.
pub fn outlasts_a_power_cut_and_ends(osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    shows(osctl, outcome, "it is back after a power cut", &NAMES, CHANGED_NAME)?;
    osctl.finish(&["delete", "plugingrant", NAME])?;
    shows(osctl, outcome, "its type goes with its grant", &NAMES, "has no type")
}

/// `osctl` prints the text sooner or later. It cannot reach an `osd` that starts.
fn shows(
    osctl: &Osctl,
    outcome: &mut Outcome,
    claim: &str,
    words: &[&str],
    text: &str,
) -> Result<()> {
    let began = Instant::now();
    loop {
        let output = osctl.run(words)?.output;
        let is_shown = output.contains(text);
        if is_shown || began.elapsed() > TIMEOUT {
            outcome.check(claim, is_shown, || output);
            return Ok(());
        }
        sleep(PAUSE);
    }
}

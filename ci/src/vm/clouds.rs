//! A node takes its document from the user data that a cloud gives its machine.

use super::data::Data;
use super::kept_disk::KeptDisk;
use super::link_local::{METADATA, network};
use super::machine::Machine;
use super::probe::free_port;
use crate::check::Outcome;
use crate::child::tied;
use crate::image::{RECIPE, image_in};
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// The recipe, and the pod that it adds.
const NAME: &str = "clouds";
const PODS: &str = "\n[pods]\nbootstrap = { component = \"bootstrap-cloud\" }\n";

/// The folder with the services, which the tests of the pod have, too.
const SERVICES: &str = "components/pods/bootstrap/tests";

/// The documents of the first boot and of the next one, and the file of the first on DATA.
const FIRST: &str = "hostname = \"from-a-cloud\"\n";
const SECOND: &str = "hostname = \"another\"\n";
const FILE: &str = "osbuild/node.toml";

/// A cloud, and the machine that it runs.
struct Cloud {
    /// Its name in the names of files, and on the console.
    name: &'static str,
    title: &'static str,
    /// The field of the firmware that names it, as QEMU's option `-smbios` has it.
    firmware: &'static str,
    /// The identifier of the machine.
    instance: &'static str,
    /// The program of its service, and the arguments after its port and its folder: the first
    /// request is refused as by a service that starts.
    program: &'static str,
    arguments: &'static [&'static str],
}

const CLOUDS: [Cloud; 2] = [
    Cloud {
        name: "ec2",
        title: "EC2",
        firmware: "type=1,manufacturer=Amazon EC2",
        instance: "i-0123456789abcdef0",
        program: "imds.py",
        arguments: &["1"],
    },
    Cloud {
        name: "openstack",
        title: "OpenStack",
        firmware: "type=1,product=OpenStack Nova",
        instance: "83679162-1378-4288-a2d4-70e13ec132aa",
        program: "cloud.py",
        arguments: &["openstack", "1", "503"],
    },
];

/// A node whose firmware names EC2, and one whose firmware names OpenStack, place the document that
/// the service at the cloud's address has for their machine. At the next boot the service has
/// another one, and the first one stays.
pub fn a_node_takes_its_document_from_its_cloud(site: &Site) -> Result<Outcome> {
    let project = site.root.join("out/ci").join(NAME);
    site.copy_to(&project)?;
    recipe::inherit(site, &project, NAME, RECIPE, PODS)?;
    let image = image_in(site, &project, NAME)?;
    let mut outcome = Outcome::default();
    for cloud in &CLOUDS {
        let service = Service::start(site, &project, cloud)?;
        let disk = KeptDisk::in_project(&project, NAME)?;
        let boot = |boot: &str, document: &str, lines: &[&str]| -> Result<()> {
            service.offer(document)?;
            let log = format!("clouds-{}-{boot}", cloud.name);
            let machine = Machine::new(site, &image, &log).keep(disk.path());
            let mut node = machine.arguments(service.machine(cloud)).start()?;
            lines.iter().try_for_each(|line| node.wait_until_printed(line))?;
            node.ready()?;
            node.power_off()
        };
        let Cloud { title, instance, .. } = cloud;
        let found = format!("{title}'s user data of the instance `{instance}` has a node document");
        boot("first", FIRST, &[&found, "placed as /etc/osbuild/node.toml", "the node uses it"])?;
        outcome.claim(&format!("{title}'s user data configures the node"), Ok(()));
        let stays = format!("stays: the instance `{instance}` had another document");
        boot("again", SECOND, &[&stays])?;
        let document = Data::of(site, disk.path())?.read(FILE)?;
        let claim = format!("another document of {title} is reported, and not applied");
        let holds = document.as_deref() == Some(FIRST);
        outcome.check(&claim, holds, || format!("DATA has {document:?}"));
    }
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// The metadata service of a cloud on this host. It ends when this is dropped.
struct Service {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Service {
    fn start(site: &Site, project: &Path, cloud: &Cloud) -> Result<Self> {
        let (port, folder) = (free_port()?, project.join(format!("service-{}", cloud.name)));
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(folder.join("instance-id"), cloud.instance))
            .or_build(|| format!("cannot make `{}`", folder.display()))?;
        let mut command = tied("python3");
        command.arg(site.project().join(SERVICES).join(cloud.program));
        command.arg(port.to_string()).arg(&folder).args(cloud.arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().map_err(|error| {
            Error::build(format!("cannot start `{}`", cloud.program)).cause(error)
        })?;
        Ok(Service { child, port, folder })
    }

    /// Serves this as the user data of the machine.
    fn offer(&self, document: &str) -> Result<()> {
        fs::write(self.folder.join("user-data"), document)
            .or_build(|| "cannot write the user data".to_owned())
    }

    /// The arguments of QEMU for a machine of this cloud: a network with the service at its usual
    /// address, and the firmware's field.
    fn machine(&self, cloud: &Cloud) -> Vec<String> {
        let relay = format!("busybox nc 127.0.0.1 {}", self.port);
        let firmware = ["-smbios", cloud.firmware].map(str::to_owned);
        [&network(&[(METADATA, &relay)])[..], &firmware].concat()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Both fail only if the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Metadata services of clouds that answer a plain request. A service is asked only on a machine
//! whose firmware names the cloud, by the marks that cloud-init's `ds-identify` looks for:
//! elsewhere any neighbour may have taken its address.

use crate::Given;
use crate::dmi::{Dmi, Mark};
use crate::http::{agent, body};
use crate::instance::Instance;
use osbuild_failure::{Explain, Failure, Outcome};

/// The largest user data in bytes: base64 of what [`user_data`](crate::user_data) decodes.
const MAX_USER_DATA: usize = 128 << 10;
/// The largest answer with an identifier in bytes. OpenStack's has the keys of the owner, too.
const MAX_IDENTITY: usize = 256 << 10;

/// Where all of them answer.
const URL: &str = "http://169.254.169.254";

/// A cloud.
#[derive(Debug)]
pub struct Cloud {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    marks: &'static [Mark],
    /// A header of the request.
    header: Option<(&'static str, &'static str)>,
    /// Whether the answer has this header, too.
    echoes_header: bool,
    identity: Identity,
    user_data: &'static str,
}

/// The path of the identifier of the machine.
#[derive(Debug)]
enum Identity {
    Text(&'static str),
    /// JSON with a field of this name.
    Json(&'static str, &'static str),
}

/// The clouds, in the order in which they are asked.
pub const CLOUDS: &[Cloud] = &[
    // https://cloud.google.com/compute/docs/metadata/querying-metadata
    Cloud {
        name: "gce",
        title: "GCE",
        marks: &[
            Mark::Is("product_name", "Google Compute Engine"),
            Mark::Begins("product_serial", "GoogleCloud-"),
        ],
        header: Some(("Metadata-Flavor", "Google")),
        echoes_header: true,
        identity: Identity::Text("/computeMetadata/v1/instance/id"),
        user_data: "/computeMetadata/v1/instance/attributes/user-data",
    },
    // https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
    Cloud {
        name: "azure",
        title: "Azure",
        marks: &[Mark::Is("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77")],
        header: Some(("Metadata", "true")),
        echoes_header: false,
        identity: Identity::Text(
            "/metadata/instance/compute/vmId?api-version=2021-01-01&format=text",
        ),
        user_data: "/metadata/instance/compute/userData?api-version=2021-01-01&format=text",
    },
    // https://docs.openstack.org/nova/latest/user/metadata.html
    Cloud {
        name: "openstack",
        title: "OpenStack",
        marks: &[
            Mark::Is("product_name", "OpenStack Nova"),
            Mark::Is("product_name", "OpenStack Compute"),
            Mark::Is("chassis_asset_tag", "OpenStack Nova"),
            Mark::Is("chassis_asset_tag", "OpenStack Compute"),
            Mark::Is("chassis_asset_tag", "OpenTelekomCloud"),
            Mark::Is("chassis_asset_tag", "SAP CCloud VM"),
            Mark::Is("chassis_asset_tag", "HUAWEICLOUD"),
        ],
        header: None,
        echoes_header: false,
        identity: Identity::Json("/openstack/latest/meta_data.json", "uuid"),
        user_data: "/openstack/latest/user_data",
    },
    // https://docs.hetzner.cloud/reference/cloud#description/server-metadata
    Cloud {
        name: "hetzner",
        title: "Hetzner",
        marks: &[Mark::Is("sys_vendor", "Hetzner")],
        header: None,
        echoes_header: false,
        identity: Identity::Text("/hetzner/v1/metadata/instance-id"),
        user_data: "/hetzner/v1/userdata",
    },
];

/// A cloud and the URL of its service.
#[derive(Clone, Debug)]
pub struct Service {
    /// The cloud.
    pub cloud: &'static Cloud,
    url: String,
}

impl Service {
    /// Reads `NAME` or `NAME=URL`; none for an unknown name.
    pub fn parse(word: &str) -> Option<Self> {
        let (name, url) = word.split_once('=').unwrap_or((word, URL));
        let cloud = CLOUDS.iter().find(|cloud| cloud.name == name)?;
        Some(Service { cloud, url: url.to_owned() })
    }

    /// Whether the firmware names the cloud.
    pub fn is_here(&self, dmi: Dmi) -> bool {
        dmi.has(self.cloud.marks)
    }

    /// Asks for the machine's identifier and user data. None if it has no user data.
    ///
    /// # Errors
    /// The service does not answer yet, or its answer is malformed.
    pub fn ask(&self) -> Outcome<Option<Given>> {
        // Every machine has an identifier: a service that starts, and answers 404 to everything,
        // does not count as one without user data.
        let instance = self.instance()?;
        let bytes = self.get(self.cloud.user_data, MAX_USER_DATA)?;
        let bytes = bytes.filter(|bytes| !bytes.trim_ascii().is_empty());
        Ok(bytes.map(|bytes| Given { instance, bytes }))
    }

    fn instance(&self) -> Outcome<Instance> {
        let path = match self.cloud.identity {
            Identity::Text(path) | Identity::Json(path, _) => path,
        };
        let answer = self.get(path, MAX_IDENTITY)?;
        let answer =
            answer.ok_or_else(|| Failure::new(format!("{}{path}: there is nothing", self.url)))?;
        let what = || format!("{}{path}", self.url);
        let identity = match self.cloud.identity {
            Identity::Text(_) => String::from_utf8(answer).explain(what())?,
            Identity::Json(_, field) => {
                let json: serde_json::Value = serde_json::from_slice(&answer).explain(what())?;
                json[field].as_str().unwrap_or_default().to_owned()
            }
        };
        Instance::parse(&identity).explain(what())
    }

    fn get(&self, path: &str, max: usize) -> Outcome<Option<Vec<u8>>> {
        let url = format!("{}{path}", self.url);
        let mut request = agent().get(&url);
        if let Some((name, value)) = self.cloud.header {
            request = request.header(name, value);
        }
        let answer = request.call();
        if let (true, Some((name, value)), Ok(answer)) =
            (self.cloud.echoes_header, self.cloud.header, &answer)
            && answer.headers().get(name).is_none_or(|own| own != value)
        {
            return Err(Failure::new(format!("{url}: the answer has no `{name}: {value}`")));
        }
        body(&url, answer, max)
    }
}

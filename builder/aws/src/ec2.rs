//! EC2: images and snapshots.

use super::{Action, Element, Error, Failure, Region, RegionalClient, Request, Response, Result};

/// The version of EC2's API.
const API_VERSION: &str = "2016-11-15";

/// The device name of an instance's first disk. The node ignores it.
const ROOT_DEVICE: &str = "/dev/xvda";

/// The states of an image that never becomes available.
const FAILED: [&str; 4] = ["failed", "error", "invalid", "deregistered"];

/// The name and the value of a tag.
pub type Tag = (String, String);

/// An image (AMI).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its identifier, `ami-…`.
    pub id: String,
    /// Its name, unique in the account and region.
    pub name: String,
    /// Its description.
    pub description: String,
    /// `pending`, `available`, `failed` and so on.
    pub state: String,
    /// The reason for that state, if AWS gives one.
    pub reason: Option<String>,
    /// When it was created: `2026-11-21T12:00:00.000Z`.
    pub created: String,
    /// Its tags.
    pub tags: Vec<Tag>,
    /// The identifiers of its snapshots.
    pub snapshots: Vec<String>,
}

/// A snapshot of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its identifier, `snap-…`.
    pub id: String,
    /// Its description.
    pub description: String,
    /// `pending`, `completed` or `error`.
    pub state: String,
    /// When it was started: `2026-11-21T12:00:00.000Z`.
    pub started: String,
    /// Its tags.
    pub tags: Vec<Tag>,
}

/// An image to register.
pub struct NewImage<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its description.
    pub description: &'a str,
    /// `x86_64` or `arm64`.
    pub architecture: &'a str,
    /// The snapshot of its only disk.
    pub snapshot: &'a str,
    /// The UEFI variables with its Secure Boot keys, as EC2 encodes them.
    pub uefi_data: Option<&'a str>,
    /// Its tags.
    pub tags: &'a [Tag],
}

/// An image to copy to another region.
pub struct ImageCopy<'a> {
    /// The region of the image.
    pub region: &'a Region,
    /// The identifier of the image.
    pub id: &'a str,
    /// The name of the copy.
    pub name: &'a str,
    /// The description of the copy.
    pub description: &'a str,
    /// The tags of the copy and of its snapshot.
    pub tags: &'a [Tag],
    /// The same token always returns the same copy.
    pub token: &'a str,
}

impl Image {
    /// Whether it will never be available. It keeps its name until it is deregistered.
    pub fn has_failed(&self) -> bool {
        FAILED.contains(&self.state.as_str())
    }

    fn read(item: &Element) -> Self {
        let text = |name| item.get(name).unwrap_or_default().to_owned();
        let snapshots = item
            .items("blockDeviceMapping")
            .iter()
            .filter_map(|disk| disk.child("ebs")?.get("snapshotId"));
        let reason = item.child("stateReason").and_then(|reason| reason.get("message"));
        Image {
            id: text("imageId"),
            name: text("name"),
            description: text("description"),
            state: text("imageState"),
            reason: reason.map(str::to_owned),
            created: text("creationDate"),
            tags: tags(item),
            snapshots: snapshots.map(str::to_owned).collect(),
        }
    }
}

impl Snapshot {
    fn read(item: &Element) -> Self {
        let text = |name| item.get(name).unwrap_or_default().to_owned();
        Snapshot {
            id: text("snapshotId"),
            description: text("description"),
            state: text("status"),
            started: text("startTime"),
            tags: tags(item),
        }
    }
}

/// Images.
impl RegionalClient<'_> {
    /// The images of this account that match all filters.
    pub fn images(&self, filters: &[(&str, &str)]) -> Result<Vec<Image>> {
        self.describe_images(owned(filters))
    }

    /// The image with this identifier. `None` if it is gone, or so new that AWS does not know it
    /// everywhere.
    pub fn image(&self, id: &str) -> Result<Option<Image>> {
        Ok(self.describe_images(parameters([("ImageId.1", id)]))?.into_iter().next())
    }

    fn describe_images(&self, parameters: Vec<(String, String)>) -> Result<Vec<Image>> {
        let read = |response: Response| {
            Ok(response.xml()?.items("imagesSet").iter().map(Image::read).collect())
        };
        match self.query(Action::DescribeImages, parameters, read) {
            Err(error) if is_unknown_image(&error) => Ok(Vec::new()),
            images => images,
        }
    }

    /// Registers an image and returns its identifier.
    pub fn register_image(&self, image: &NewImage) -> Result<String> {
        let mut request = parameters([
            ("Name", image.name),
            ("Description", image.description),
            ("Architecture", image.architecture),
            ("VirtualizationType", "hvm"),
            ("BootMode", "uefi"),
            ("EnaSupport", "true"),
            ("ImdsSupport", "v2.0"),
            ("TpmSupport", "v2.0"),
            ("RootDeviceName", ROOT_DEVICE),
            ("BlockDeviceMapping.1.DeviceName", ROOT_DEVICE),
            ("BlockDeviceMapping.1.Ebs.SnapshotId", image.snapshot),
            ("BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
            ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
        ]);
        request.extend(image.uefi_data.map(|data| ("UefiData".to_owned(), data.to_owned())));
        request.extend(tag_specifications(image.tags, &["image"]));
        self.query(Action::RegisterImage, request, |response| response.element("imageId"))
    }

    /// Copies an image, with its Secure Boot keys, to this region, and returns the identifier of
    /// the copy.
    pub fn copy_image(&self, copy: &ImageCopy) -> Result<String> {
        let mut request = parameters([
            ("SourceImageId", copy.id),
            ("SourceRegion", copy.region.name()),
            ("Name", copy.name),
            ("Description", copy.description),
            ("ClientToken", copy.token),
        ]);
        request.extend(tag_specifications(copy.tags, &["image", "snapshot"]));
        self.query(Action::CopyImage, request, |response| response.element("imageId"))
    }

    /// Deregisters an image, or succeeds if it is already deregistered.
    pub fn deregister_image(&self, id: &str) -> Result<()> {
        let request = parameters([("ImageId", id)]);
        match self.query(Action::DeregisterImage, request, |_| Ok(())) {
            Err(error) if is_unknown_image(&error) => Ok(()),
            done => done,
        }
    }

    /// Lets accounts, or everybody, launch an image. Earlier permissions stay.
    pub fn share_image(&self, id: &str, accounts: &[String], public: bool) -> Result<()> {
        let accounts = accounts.iter().map(|account| ("UserId", account.as_str()));
        let group = public.then_some(("Group", "all"));
        let mut request = parameters([("ImageId", id)]);
        for (number, (kind, name)) in (1..).zip(accounts.chain(group)) {
            request.push((format!("LaunchPermission.Add.{number}.{kind}"), name.to_owned()));
        }
        if request.len() == 1 {
            return Ok(());
        }
        self.query(Action::ModifyImageAttribute, request, |_| Ok(()))
    }

    /// Marks an image as deprecated from a time on: `2027-01-01T00:00:00Z`.
    pub fn deprecate_image(&self, id: &str, at: &str) -> Result<()> {
        let request = parameters([("ImageId", id), ("DeprecateAt", at)]);
        self.query(Action::EnableImageDeprecation, request, |_| Ok(()))
    }
}

/// Snapshots.
impl RegionalClient<'_> {
    /// The snapshots of this account that match all filters.
    pub fn snapshots(&self, filters: &[(&str, &str)]) -> Result<Vec<Snapshot>> {
        self.describe_snapshots(owned(filters))
    }

    /// The snapshot with this identifier; `None` if AWS does not know it.
    pub fn snapshot(&self, id: &str) -> Result<Option<Snapshot>> {
        match self.describe_snapshots(parameters([("SnapshotId.1", id)])) {
            Err(error) if error.code() == Some("InvalidSnapshot.NotFound") => Ok(None),
            snapshots => Ok(snapshots?.into_iter().next()),
        }
    }

    fn describe_snapshots(&self, parameters: Vec<(String, String)>) -> Result<Vec<Snapshot>> {
        self.query(Action::DescribeSnapshots, parameters, |response| {
            Ok(response.xml()?.items("snapshotSet").iter().map(Snapshot::read).collect())
        })
    }

    /// Deletes a snapshot, and returns whether it is gone. A snapshot that an image uses stays.
    pub fn delete_snapshot(&self, id: &str) -> Result<bool> {
        let request = parameters([("SnapshotId", id)]);
        match self.query(Action::DeleteSnapshot, request, |_| Ok(())) {
            Err(error) if error.code() == Some("InvalidSnapshot.NotFound") => Ok(true),
            Err(error) if error.code() == Some("InvalidSnapshot.InUse") => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// Tags a snapshot, or does nothing if EC2 does not know it yet.
    pub fn tag_snapshot(&self, id: &str, name: &str, value: &str) -> Result<()> {
        let request =
            parameters([("ResourceId.1", id), ("Tag.1.Key", name), ("Tag.1.Value", value)]);
        match self.query(Action::CreateTags, request, |_| Ok(())) {
            Err(error) if error.code() == Some("InvalidSnapshot.NotFound") => Ok(()),
            done => done,
        }
    }

    fn query<T>(
        &self,
        action: Action,
        parameters: Vec<(String, String)>,
        read: impl FnOnce(Response) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        self.call(&Request::query(action, API_VERSION, parameters), read)
    }
}

/// Whether AWS does not know an image: it is too new, or deregistered.
fn is_unknown_image(error: &Error) -> bool {
    error.code().is_some_and(|code| code.starts_with("InvalidAMIID."))
}

/// The parameters that select this account's resources that match the filters.
fn owned(filters: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    for (number, (name, value)) in (1..).zip(filters) {
        parameters.push((format!("Filter.{number}.Name"), (*name).to_owned()));
        parameters.push((format!("Filter.{number}.Value.1"), (*value).to_owned()));
    }
    parameters.push(("Owner.1".to_owned(), "self".to_owned()));
    parameters
}

fn parameters<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The parameters that tag each of these kinds of new resources.
fn tag_specifications(tags: &[Tag], kinds: &[&str]) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    for (number, kind) in (1..).zip(kinds) {
        let name = format!("TagSpecification.{number}");
        parameters.push((format!("{name}.ResourceType"), (*kind).to_owned()));
        for (tag, (key, value)) in (1..).zip(tags) {
            parameters.push((format!("{name}.Tag.{tag}.Key"), key.clone()));
            parameters.push((format!("{name}.Tag.{tag}.Value"), value.clone()));
        }
    }
    parameters
}

/// The tags of an image or a snapshot in a response.
fn tags(item: &Element) -> Vec<Tag> {
    let pair = |tag: &Element| {
        Some((tag.get("key")?.to_owned(), tag.get("value").unwrap_or_default().to_owned()))
    };
    item.items("tagSet").iter().filter_map(pair).collect()
}

/// The value of the tag with this name.
pub fn tag<'a>(tags: &'a [Tag], name: &str) -> Option<&'a str> {
    tags.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

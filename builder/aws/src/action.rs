//! All calls that osbuild makes to AWS.

/// A service of AWS, with an endpoint of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// EBS direct: the blocks of snapshots.
    Ebs,
    /// EC2: images and snapshots.
    Ec2,
    /// KMS: keys that sign.
    Kms,
}

impl Service {
    /// Its name in host names, signatures and permissions.
    pub fn name(self) -> &'static str {
        match self {
            Service::Ebs => "ebs",
            Service::Ec2 => "ec2",
            Service::Kms => "kms",
        }
    }
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Starts a snapshot.
    StartSnapshot,
    /// Writes one block of a snapshot.
    PutSnapshotBlock,
    /// Completes a snapshot that has all its blocks.
    CompleteSnapshot,
    /// Tags snapshots and images. The calls that create them use this permission too.
    CreateTags,
    /// Lists snapshots.
    DescribeSnapshots,
    /// Deletes a snapshot.
    DeleteSnapshot,
    /// Lists images.
    DescribeImages,
    /// Creates an image from a snapshot.
    RegisterImage,
    /// Copies an image from another region.
    CopyImage,
    /// Sets which accounts may launch an image.
    ModifyImageAttribute,
    /// Sets the day from which an image is deprecated.
    EnableImageDeprecation,
    /// Deregisters an image.
    DeregisterImage,
    /// Reads the public half of a key.
    GetPublicKey,
    /// Signs a digest.
    Sign,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 14] = [
        Action::StartSnapshot,
        Action::PutSnapshotBlock,
        Action::CompleteSnapshot,
        Action::CreateTags,
        Action::DescribeSnapshots,
        Action::DeleteSnapshot,
        Action::DescribeImages,
        Action::RegisterImage,
        Action::CopyImage,
        Action::ModifyImageAttribute,
        Action::EnableImageDeprecation,
        Action::DeregisterImage,
        Action::GetPublicKey,
        Action::Sign,
    ];

    /// The service that has it.
    pub fn service(self) -> Service {
        match self {
            Action::StartSnapshot | Action::PutSnapshotBlock | Action::CompleteSnapshot => {
                Service::Ebs
            }
            Action::GetPublicKey | Action::Sign => Service::Kms,
            _ => Service::Ec2,
        }
    }

    /// Its name.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The permission that it needs, as in IAM policies: `ec2:CopyImage`.
    pub fn permission(self) -> String {
        format!("{}:{self:?}", self.service().name())
    }

    /// Whether it changes nothing.
    pub fn is_read_only(self) -> bool {
        matches!(self, Action::DescribeSnapshots | Action::DescribeImages | Action::GetPublicKey)
    }
}

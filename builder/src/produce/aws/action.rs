//! Every call that osbuild makes to AWS, and no other.

/// A part of AWS with an address of its own.
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
    /// Its name in host names, in signatures and in the names of permissions.
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
    /// Begins a snapshot.
    StartSnapshot,
    /// Puts 512 KiB into a snapshot.
    PutSnapshotBlock,
    /// Says that all blocks of a snapshot are there.
    CompleteSnapshot,
    /// Writes tags of snapshots and images: by itself, and as a part of the calls that make them.
    CreateTags,
    /// Looks for snapshots.
    DescribeSnapshots,
    /// Removes a snapshot.
    DeleteSnapshot,
    /// Looks for images.
    DescribeImages,
    /// Makes an image of a snapshot.
    RegisterImage,
    /// Copies an image from another region.
    CopyImage,
    /// Says who may start an image.
    ModifyImageAttribute,
    /// Says from when on an image is deprecated.
    EnableImageDeprecation,
    /// Removes an image.
    DeregisterImage,
    /// Reads the public half of a key.
    GetPublicKey,
    /// Signs.
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

    /// Who answers it.
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

    /// The permission that it needs, as policies name it.
    pub fn permission(self) -> String {
        format!("{}:{self:?}", self.service().name())
    }

    /// Whether it changes nothing.
    pub fn only_looks(self) -> bool {
        matches!(self, Action::DescribeSnapshots | Action::DescribeImages | Action::GetPublicKey)
    }
}

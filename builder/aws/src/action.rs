//! The calls that osbuild makes to AWS: all of them, and no others.

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

/// Whether a call changes anything at AWS.
#[derive(PartialEq)]
enum Effect {
    Reads,
    Changes,
}

/// Declares each call once, with its service and its effect.
macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident: $service:ident $effect:ident,)*) => {
        /// A call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Action {
            $($(#[$doc])* $name,)*
        }

        impl Action {
            /// All of them.
            pub const ALL: &[Action] = &[$(Action::$name,)*];

            /// The service that it belongs to.
            pub fn service(self) -> Service {
                match self {
                    $(Action::$name => Service::$service,)*
                }
            }

            fn effect(self) -> Effect {
                match self {
                    $(Action::$name => Effect::$effect,)*
                }
            }
        }
    };
}

actions! {
    /// Starts a snapshot.
    StartSnapshot: Ebs Changes,
    /// Writes one block of a snapshot.
    PutSnapshotBlock: Ebs Changes,
    /// Ends a snapshot, once it has all its blocks.
    CompleteSnapshot: Ebs Changes,
    /// Tags snapshots and images: as a call of its own, and as a part of those that create them.
    CreateTags: Ec2 Changes,
    /// Lists snapshots.
    DescribeSnapshots: Ec2 Reads,
    /// Deletes a snapshot.
    DeleteSnapshot: Ec2 Changes,
    /// Lists images.
    DescribeImages: Ec2 Reads,
    /// Creates an image from a snapshot.
    RegisterImage: Ec2 Changes,
    /// Copies an image from another region.
    CopyImage: Ec2 Changes,
    /// Sets which accounts may launch an image.
    ModifyImageAttribute: Ec2 Changes,
    /// Sets the day from which an image is deprecated.
    EnableImageDeprecation: Ec2 Changes,
    /// Deregisters an image.
    DeregisterImage: Ec2 Changes,
    /// Reads the public half of a key.
    GetPublicKey: Kms Reads,
    /// Signs a digest.
    Sign: Kms Changes,
}

impl Action {
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
        self.effect() == Effect::Reads
    }
}

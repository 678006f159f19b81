//! The messages and services of COSI's APIs, generated from the files in `proto`.
//!
//! Packages, names and field numbers of `cosi` are those of COSI's specification, so any client of
//! it speaks with ours. The messages of `osbuild.v1` are YAML, too. The crate has no behaviour of
//! its own, but for [`spec_message`], which finds the message of a type, and [`text_mistake`],
//! which checks what people write.

#![forbid(unsafe_code)]

mod events;
mod redacted;
mod spec_message;
mod written;
mod yaml;

include!("secrets.rs");

pub use spec_message::spec_message;
pub use written::text_mistake;

/// The package `cosi.resource`: resources, and the service `State` that keeps them.
#[allow(missing_docs, reason = "the comments of the .proto files are the documentation")]
pub mod resource {
    tonic::include_proto!("cosi.resource");

    /// The package `cosi.resource.meta`: the specs of the resources that describe others.
    pub mod meta {
        tonic::include_proto!("cosi.resource.meta");
    }
}

/// The package `cosi.runtime`: the services for plugins.
#[allow(missing_docs, reason = "the comments of the .proto files are the documentation")]
pub mod runtime {
    tonic::include_proto!("cosi.runtime");
}

/// The package `engine`: how a plugin introduces itself.
#[allow(missing_docs, reason = "the comments of the .proto files are the documentation")]
pub mod engine {
    tonic::include_proto!("engine");
}

/// The package `machine`: the one call of Talos' API that `talosctl get` makes.
#[allow(missing_docs, reason = "the comments of the .proto files are the documentation")]
pub mod machine {
    tonic::include_proto!("machine");
}

/// The package `osbuild.v1`: the specs of the node's own resources.
#[allow(missing_docs, reason = "the comments of the .proto files are the documentation")]
pub mod v1 {
    tonic::include_proto!("osbuild.v1");
}

/// The definitions of the API for plugins as an encoded `FileDescriptorSet`, with their comments.
pub const PLUGIN_DESCRIPTORS: &[u8] = tonic::include_file_descriptor_set!("plugins");

/// The definitions of the node's own API as an encoded `FileDescriptorSet`, for server reflection,
/// with their comments.
pub const DESCRIPTORS: &[u8] = tonic::include_file_descriptor_set!("descriptors");

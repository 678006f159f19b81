//! Resources, queries and errors as gRPC carries them.

use crate::limits::{MAX_METADATA, MAX_QUERY, TERM};
use osbuild_cosi::resource as proto;
use osbuild_resources::{
    Content, Error, IdQuery, InvalidPattern, Key, Kind, LabelQuery, LabelTerm, Number, Owner,
    Phase, Query, Resource, Spec, Test, Version,
};
use prost::Message;
use prost_types::Timestamp;
use proto::label_term::Operation;
use std::time::SystemTime;
use tonic::Status;

/// The code and message of an error of the store.
pub fn status(error: &Error) -> Status {
    let message = error.to_string();
    match error {
        Error::NotFound(_) => Status::not_found(message),
        Error::AlreadyExists(_) => Status::already_exists(message),
        Error::Owned(..) => Status::permission_denied(message),
        Error::PhaseConflict(..) => Status::invalid_argument(message),
        Error::VersionConflict { .. } | Error::PendingFinalizers(..) | Error::InvalidBookmark => {
            Status::failed_precondition(message)
        }
        Error::Exhausted(_) => Status::resource_exhausted(message),
    }
}

/// The status of a request that cannot be understood.
pub fn invalid(error: impl ToString) -> Status {
    Status::invalid_argument(error.to_string())
}

/// The kind that a request names.
pub fn kind(namespace: &str, type_name: &str) -> Result<Kind, Status> {
    Kind::new(namespace, type_name).map_err(invalid)
}

/// The key that a request names.
pub fn key(namespace: &str, type_name: &str, id: &str) -> Result<Key, Status> {
    Key::new(kind(namespace, type_name)?, id).map_err(invalid)
}

/// A stored resource as a message.
pub fn resource(resource: &Resource) -> proto::Resource {
    let Content { key, phase, finalizers, labels, annotations, spec } = &resource.content;
    proto::Resource {
        metadata: Some(proto::Metadata {
            version: resource.version.to_string(),
            owner: resource.owner.0.clone(),
            phase: phase.name().to_owned(),
            created: Some(resource.created.into()),
            updated: Some(resource.updated.into()),
            finalizers: finalizers.iter().cloned().collect(),
            labels: labels.clone().into_iter().collect(),
            annotations: annotations.clone().into_iter().collect(),
            ..names(key.kind(), key.id())
        }),
        spec: Some(proto::Spec { proto_spec: spec.proto.clone(), yaml_spec: spec.yaml.clone() }),
    }
}

/// The message in the place of a resource that does not exist. Clients refuse one without a spec.
pub fn tombstone(kind: &Kind, id: &str) -> proto::Resource {
    let metadata = proto::Metadata {
        version: Version::UNDEFINED.to_owned(),
        phase: Phase::Running.name().to_owned(),
        ..names(kind, id)
    };
    proto::Resource { metadata: Some(metadata), spec: Some(proto::Spec::default()) }
}

fn names(kind: &Kind, id: &str) -> proto::Metadata {
    proto::Metadata {
        namespace: kind.namespace().to_owned(),
        r#type: kind.type_name().to_owned(),
        id: id.to_owned(),
        ..proto::Metadata::default()
    }
}

/// A resource that a client sends: its content, the version that the client has read, and whose the
/// client believes it is. Its times are the store's to decide.
pub fn draft(sent: Option<proto::Resource>) -> Result<(Content, Option<Version>, Owner), Status> {
    let draft = read(sent)?;
    check_metadata(&draft.0)?;
    Ok(draft)
}

/// Refuses a resource with more than [`MAX_METADATA`] bytes of labels and annotations, or of
/// finalizers.
fn check_metadata(content: &Content) -> Result<(), Status> {
    check_texts(content)?;
    match content.finalizers.iter().map(String::len).sum::<usize>() > MAX_METADATA {
        true => Err(invalid(format!(
            "the finalizers of {} have more than {MAX_METADATA} bytes",
            content.key
        ))),
        false => Ok(()),
    }
}

/// Refuses a resource with more than [`MAX_METADATA`] bytes of labels and annotations.
pub fn check_texts(Content { key, labels, annotations, .. }: &Content) -> Result<(), Status> {
    let pairs = labels.iter().chain(annotations).map(|(name, value)| name.len() + value.len());
    match pairs.sum::<usize>() > MAX_METADATA {
        true => Err(invalid(format!(
            "the labels and annotations of {key} have more than {MAX_METADATA} bytes"
        ))),
        false => Ok(()),
    }
}

fn read(sent: Option<proto::Resource>) -> Result<(Content, Option<Version>, Owner), Status> {
    let missing = || Status::invalid_argument("the resource has no metadata");
    let proto::Resource { metadata, spec } = sent.ok_or_else(missing)?;
    let metadata = metadata.ok_or_else(missing)?;
    let spec = spec.unwrap_or_default();
    let content = Content {
        key: key(&metadata.namespace, &metadata.r#type, &metadata.id)?,
        phase: metadata.phase.parse().map_err(invalid)?,
        finalizers: metadata.finalizers.into_iter().collect(),
        labels: metadata.labels.into_iter().collect(),
        annotations: metadata.annotations.into_iter().collect(),
        spec: Spec { proto: spec.proto_spec, yaml: spec.yaml_spec, ..Spec::default() },
    };
    let version = Version::parse(&metadata.version).map_err(invalid)?;
    Ok((content, version, Owner(metadata.owner)))
}

/// A resource that [`resource`] has converted.
pub fn stored(sent: proto::Resource) -> Result<Resource, Status> {
    let time = |time: Option<Timestamp>| time.and_then(|time| SystemTime::try_from(time).ok());
    let metadata = sent.metadata.as_ref();
    let created = metadata.and_then(|metadata| time(metadata.created));
    let updated = metadata.and_then(|metadata| time(metadata.updated));
    let (content, version, owner) = read(Some(sent))?;
    match (version, created, updated) {
        (Some(version), Some(created), Some(updated)) => {
            Ok(Resource { content, version, owner, created, updated })
        }
        _ => Err(invalid(format!("{} has no version or no time", content.key))),
    }
}

/// A query of a list or a watch.
pub fn query(labels: Vec<proto::LabelQuery>, id: Option<proto::IdQuery>) -> Result<Query, Status> {
    if labels.iter().map(size).sum::<usize>() > MAX_QUERY {
        let message = format!("the label queries take more than {MAX_QUERY} bytes");
        return Err(Status::resource_exhausted(message));
    }
    let labels = labels.into_iter().map(|query| {
        query.terms.into_iter().map(label_term).collect::<Result<_, _>>().map(LabelQuery)
    });
    let pattern = id.map(|query| query.regexp).filter(|pattern| !pattern.is_empty());
    let id = pattern.map(|pattern| IdQuery::new(&pattern)).transpose();
    let id = id.map_err(|error| match error {
        InvalidPattern::Syntax(_) => invalid(error),
        InvalidPattern::TooLong | InvalidPattern::TooLarge => {
            Status::resource_exhausted(error.to_string())
        }
    })?;
    Ok(Query { id, labels: labels.collect::<Result<_, _>>()? })
}

/// The memory that a query takes, roughly.
fn size(query: &proto::LabelQuery) -> usize {
    query.encoded_len() + (query.terms.len() + 1) * TERM
}

fn label_term(sent: proto::LabelTerm) -> Result<LabelTerm, Status> {
    let operation = Operation::try_from(sent.op).map_err(|_| {
        Status::unimplemented(format!("there is no operation {} on labels", sent.op))
    })?;
    let without_value = format!("the term for `{}` has no value", sent.key);
    let one = || sent.value.first().ok_or_else(|| Status::invalid_argument(without_value));
    let number = |text: &String| Number::parse(text);
    let test = match operation {
        Operation::Exists | Operation::NotExists => Test::Exists,
        Operation::Equal => Test::Equal(one()?.clone()),
        Operation::In => Test::In(sent.value.clone()),
        Operation::Lt => Test::Less(one()?.clone()),
        Operation::Lte => Test::AtMost(one()?.clone()),
        Operation::LtNumeric => Test::NumberLess(one().map(number)?),
        Operation::LteNumeric => Test::NumberAtMost(one().map(number)?),
    };
    let invert = sent.invert || operation == Operation::NotExists;
    Ok(LabelTerm { key: sent.key, test, invert })
}

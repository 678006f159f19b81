//! EC2: images and snapshots.

use super::wire::{Call, refusal};
use super::{Answer, Image, Snapshot, State};
use std::collections::BTreeMap;

type Parameters = BTreeMap<String, String>;

pub fn answer(state: &mut State, call: &Call) -> Answer {
    let parameters = call.parameters();
    if parameters["Version"] != "2016-11-15" {
        return refusal(call, 400, "InvalidParameterValue", "no such version");
    }
    match call.action.as_str() {
        "DescribeSnapshots" => snapshots(state, call, &parameters),
        "DescribeImages" => images(state, call, &parameters),
        "CreateTags" => tag(state, call, &parameters),
        "DeleteSnapshot" => delete_snapshot(state, call, &parameters),
        "RegisterImage" => register(state, call, parameters),
        "CopyImage" => copy(state, call, parameters),
        "ModifyImageAttribute" => share(state, call, &parameters),
        "EnableImageDeprecation" => deprecate(state, call, &parameters),
        "DeregisterImage" => deregister(state, call, &parameters),
        other => panic!("unknown call `{other}`"),
    }
}

fn good() -> Answer {
    (200, "<R><return>true</return></R>".to_owned())
}

fn key(call: &Call, id: &str) -> (String, String) {
    (call.region.clone(), id.to_owned())
}

/// Values of parameters `NAME.1`, `NAME.2`, ….
fn list<'s>(parameters: &'s Parameters, name: &'s str) -> impl Iterator<Item = &'s str> {
    (1..).map_while(move |number| parameters.get(&format!("{name}.{number}")).map(String::as_str))
}

/// The tags of a call for new resources of this kind.
fn tags(parameters: &Parameters, kind: &str) -> BTreeMap<String, String> {
    let of_kind = (1..9).find(|number| {
        parameters
            .get(&format!("TagSpecification.{number}.ResourceType"))
            .is_some_and(|found| found == kind)
    });
    let Some(number) = of_kind else { return BTreeMap::new() };
    let part = |tag: u32, part: &str| {
        parameters.get(&format!("TagSpecification.{number}.Tag.{tag}.{part}")).cloned()
    };
    (1..).map_while(|tag| Some((part(tag, "Key")?, part(tag, "Value")?))).collect()
}

/// Whether a resource with this name and these tags matches the filters.
fn fits(parameters: &Parameters, name: &str, tags: &BTreeMap<String, String>) -> bool {
    let filter = |number: u32| {
        Some((
            parameters.get(&format!("Filter.{number}.Name"))?,
            parameters.get(&format!("Filter.{number}.Value.1"))?,
        ))
    };
    (1..).map_while(filter).all(|(filter, value)| match filter.strip_prefix("tag:") {
        Some(tag) => tags.get(tag) == Some(value),
        None => filter == "name" && name == value,
    })
}

fn tag_set(tags: &BTreeMap<String, String>) -> String {
    let one = |(key, value): (&String, &String)| {
        format!("<item><key>{key}</key><value>{value}</value></item>")
    };
    format!("<tagSet>{}</tagSet>", tags.iter().map(one).collect::<String>())
}

fn snapshots(state: &mut State, call: &Call, parameters: &Parameters) -> Answer {
    let requested: Vec<&str> = list(parameters, "SnapshotId").collect();
    if let Some(gone) = requested.iter().find(|id| !state.snapshots.contains_key(&key(call, id))) {
        return refusal(call, 400, "InvalidSnapshot.NotFound", gone);
    }
    let here = state.snapshots.iter_mut().filter(|((region, id), snapshot)| {
        *region == call.region
            && (requested.is_empty() || requested.contains(&id.as_str()))
            && fits(parameters, "", &snapshot.tags)
    });
    let one = |((_, id), snapshot): (&(String, String), &mut Snapshot)| {
        if snapshot.sealed && snapshot.state == "pending" {
            match snapshot.looks.checked_sub(1) {
                Some(left) => snapshot.looks = left,
                None => snapshot.state = "completed".to_owned(),
            }
        }
        let (state, started, tags) = (&snapshot.state, &snapshot.started, tag_set(&snapshot.tags));
        let description = &snapshot.description;
        format!(
            "<item><snapshotId>{id}</snapshotId><status>{state}</status>\
             <startTime>{started}</startTime>\
             <description>{description}</description>{tags}</item>"
        )
    };
    (200, format!("<R><snapshotSet>{}</snapshotSet></R>", here.map(one).collect::<String>()))
}

fn images(state: &mut State, call: &Call, parameters: &Parameters) -> Answer {
    let requested: Vec<&str> = list(parameters, "ImageId").collect();
    if let Some(gone) = requested.iter().find(|id| !state.images.contains_key(&key(call, id))) {
        return refusal(call, 400, "InvalidAMIID.Unavailable", gone);
    }
    let here = state.images.iter_mut().filter(|((region, id), image)| {
        *region == call.region
            && image.unseen == 0
            && (requested.is_empty() || requested.contains(&id.as_str()))
            && fits(parameters, &image.parameters["Name"], &image.tags)
    });
    let one = |((_, id), image): (&(String, String), &mut Image)| {
        let state = match image.looks.checked_sub(1) {
            Some(left) => {
                image.looks = left;
                "pending"
            }
            None if image.fails => "failed",
            None => "available",
        };
        let (name, created, snapshot, tags) =
            (&image.parameters["Name"], &image.created, &image.snapshot, tag_set(&image.tags));
        let description = &image.parameters["Description"];
        format!(
            "<item><imageId>{id}</imageId><imageState>{state}</imageState><name>{name}</name>\
             <description>{description}</description><creationDate>{created}</creationDate>\
             <stateReason><message>as the test requires</message></stateReason>\
             <blockDeviceMapping><item><ebs><snapshotId>{snapshot}</snapshotId></ebs></item>\
             </blockDeviceMapping>{tags}</item>"
        )
    };
    let listed = here.map(one).collect::<String>();
    let new = state.images.iter_mut().filter(|((region, _), _)| *region == call.region);
    new.for_each(|(_, image)| image.unseen = image.unseen.saturating_sub(1));
    (200, format!("<R><imagesSet>{listed}</imagesSet></R>"))
}

fn tag(state: &mut State, call: &Call, parameters: &Parameters) -> Answer {
    let Some(snapshot) = state.snapshots.get_mut(&key(call, &parameters["ResourceId.1"])) else {
        return refusal(call, 400, "InvalidSnapshot.NotFound", "no such snapshot");
    };
    snapshot.tags.insert(parameters["Tag.1.Key"].clone(), parameters["Tag.1.Value"].clone());
    good()
}

fn delete_snapshot(state: &mut State, call: &Call, parameters: &Parameters) -> Answer {
    let id = &parameters["SnapshotId"];
    if state
        .images
        .iter()
        .any(|((region, _), image)| *region == call.region && image.snapshot == *id)
    {
        return refusal(call, 400, "InvalidSnapshot.InUse", "an image uses it");
    }
    match state.snapshots.remove(&key(call, id)) {
        Some(_) => good(),
        None => refusal(call, 400, "InvalidSnapshot.NotFound", "no such snapshot"),
    }
}

fn is_taken(state: &State, call: &Call, name: &str) -> bool {
    state
        .images
        .iter()
        .any(|((region, _), image)| *region == call.region && image.parameters["Name"] == name)
}

fn register(state: &mut State, call: &Call, parameters: Parameters) -> Answer {
    let snapshot = parameters["BlockDeviceMapping.1.Ebs.SnapshotId"].clone();
    if is_taken(state, call, &parameters["Name"]) {
        return refusal(call, 400, "InvalidAMIName.Duplicate", "the name is taken");
    }
    if state.snapshots.get(&key(call, &snapshot)).is_none_or(|found| found.state != "completed") {
        return refusal(call, 400, "InvalidSnapshot.NotFound", "no such snapshot, or not complete");
    }
    let id = state.name("ami");
    insert(state, call, &id, parameters, snapshot);
    (200, format!("<R><imageId>{id}</imageId></R>"))
}

/// A new image, `pending` at first.
fn insert(state: &mut State, call: &Call, id: &str, parameters: Parameters, snapshot: String) {
    let (created, looks, fails) = (state.time(), state.slow, state.next_fails());
    let image = Image {
        created,
        looks,
        unseen: state.unseen,
        fails,
        tags: tags(&parameters, "image"),
        parameters,
        snapshot,
        ..Image::default()
    };
    state.images.insert(key(call, id), image);
}

fn copy(state: &mut State, call: &Call, parameters: Parameters) -> Answer {
    let (region, source) =
        (parameters["SourceRegion"].clone(), parameters["SourceImageId"].clone());
    let Some(original) = state.images.get(&(region.clone(), source.clone())).cloned() else {
        return refusal(call, 400, "InvalidAMIID.NotFound", "no such image");
    };
    let token = key(call, &parameters["ClientToken"]);
    if let Some((known, id)) = state.tokens.get(&token) {
        if *known != parameters {
            let code = "IdempotentParameterMismatch";
            return refusal(call, 400, code, "the token had another request");
        }
        return (200, format!("<R><imageId>{id}</imageId></R>"));
    }
    if is_taken(state, call, &parameters["Name"]) {
        return refusal(call, 400, "InvalidAMIName.Duplicate", "the name is taken");
    }
    let (id, snapshot) = (state.name("ami"), state.name("snap"));
    let copied = state.snapshots[&(region, original.snapshot.clone())].clone();
    let description = format!(
        "Copied for DestinationAmi {id} from SourceAmi {source} for SourceSnapshot {}.",
        original.snapshot
    );
    let copied = Snapshot {
        description,
        tags: tags(&parameters, "snapshot"),
        token: String::new(),
        started: state.time(),
        ..copied
    };
    state.snapshots.insert(key(call, &snapshot), copied);
    state.tokens.insert(token, (parameters.clone(), id.clone()));
    insert(state, call, &id, parameters, snapshot);
    (200, format!("<R><imageId>{id}</imageId></R>"))
}

fn share(state: &mut State, call: &Call, parameters: &Parameters) -> Answer {
    let image = state.images.get_mut(&key(call, &parameters["ImageId"])).unwrap();
    let part = |number: u32, kind: &str| {
        parameters.get(&format!("LaunchPermission.Add.{number}.{kind}")).cloned()
    };
    image.shared = (1..)
        .map_while(|number| part(number, "UserId").or_else(|| part(number, "Group")))
        .collect();
    good()
}

fn deprecate(state: &mut State, call: &Call, parameters: &Parameters) -> Answer {
    state.images.get_mut(&key(call, &parameters["ImageId"])).unwrap().deprecated =
        Some(parameters["DeprecateAt"].clone());
    good()
}

fn deregister(state: &mut State, call: &Call, parameters: &Parameters) -> Answer {
    match state.images.remove(&key(call, &parameters["ImageId"])) {
        Some(_) => good(),
        None => refusal(call, 400, "InvalidAMIID.Unavailable", "no such image"),
    }
}

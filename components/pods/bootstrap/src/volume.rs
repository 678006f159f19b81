//! The user data on a volume, NoCloud's or OpenStack's config drive. Nothing is mounted: pure
//! readers find two files.

use crate::instance::Instance;
use crate::trust::Trust;
use crate::user_data;
use osbuild_abi::volumes::{CONFIG_DRIVE, NO_CLOUD};
use osbuild_document::Document;
use osbuild_envelope::MachineId;
use osbuild_failure::{Explain, Outcome};
use osbuild_formats::volume::{Volume, label};
use std::io::{Read, Seek};

/// The largest user data in bytes: an envelope, or base64, of the largest document.
const MAX_USER_DATA: usize = 128 << 10;
/// The largest file with the identifier in bytes.
const MAX_IDENTITY: usize = 256 << 10;

/// A kind of volume.
struct Layout {
    label: &'static str,
    user_data: &'static str,
    identity: &'static str,
    /// The field of the identifier in that file.
    field: &'static str,
}

const LAYOUTS: [Layout; 2] = [
    // https://cloudinit.readthedocs.io/en/latest/reference/datasources/nocloud.html
    Layout { label: NO_CLOUD, user_data: "user-data", identity: "meta-data", field: "instance-id" },
    // https://docs.openstack.org/nova/latest/user/metadata.html
    Layout {
        label: CONFIG_DRIVE,
        user_data: "openstack/latest/user_data",
        identity: "openstack/latest/meta_data.json",
        field: "uuid",
    },
];

/// The document of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnVolume {
    /// The machine for which it is, as far as the volume can say that: of a signed document the
    /// signature alone, as anybody can write another identifier beside it.
    pub instance: Option<Instance>,
    /// As [`Found::replaces`](crate::decision::Found::replaces).
    pub replaces: Option<u64>,
    /// The document.
    pub text: String,
}

/// The node document on the volume that begins at the start of `source`, on the machine `here`.
/// None if it has no user data.
///
/// # Errors
/// The volume, its user data or the document is damaged or not valid, or `trust` refuses it. The
/// error names the file.
pub fn read(
    mut source: impl Read + Seek,
    trust: &Trust,
    here: Option<&MachineId>,
) -> Outcome<Option<OnVolume>> {
    let label = label(&mut source).unwrap_or_default();
    let layout = LAYOUTS.iter().find(|layout| label.eq_ignore_ascii_case(layout.label));
    let Some(layout) = layout else { return Ok(None) };
    let mut volume = Volume::open(source).explain("open the volume")?;
    let file = layout.user_data;
    let Some(bytes) = volume.file(file, MAX_USER_DATA).explain(file)? else { return Ok(None) };
    if bytes.trim_ascii().is_empty() {
        return Ok(None);
    }
    let text = user_data::decode(&bytes).explain(file)?;
    let opened = trust.open(&text, here).explain(file)?;
    Document::parse(&opened.text).explain(file)?;
    let replaces = opened.audience.as_ref().and_then(|audience| audience.replaces);
    let instance = match (&opened.audience, trust) {
        (Some(audience), _) => Some(Instance::parse(audience.machine.as_str())?),
        (None, Trust::Signers(_)) => None,
        (None, Trust::Anyone) => {
            let identity = volume.file(layout.identity, MAX_IDENTITY).explain(layout.identity)?;
            let identity = identity.as_deref().and_then(|bytes| field(bytes, layout.field));
            identity.map(|text| Instance::parse(&text)).transpose().explain(layout.identity)?
        }
    };
    Ok(Some(OnVolume { instance, replaces, text: opened.text }))
}

/// The text of a field at the top of JSON, or of YAML in the form that tools write: a line for each
/// field.
fn field(bytes: &[u8], name: &str) -> Option<String> {
    if let Ok(json) = serde_json::from_slice::<serde_json::Value>(bytes) {
        return json[name].as_str().map(str::to_owned);
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let value = value.split(" #").next().unwrap_or_default().trim();
    Some(value.trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_is_read_from_json_and_from_lines() {
        for text in [
            "instance-id: i-1\nlocal-hostname: a\n",
            "local-hostname: a\ninstance-id: \"i-1\"  # made by a tool\n",
            "instance-id: 'i-1'\r\n",
            "{\"instance-id\": \"i-1\"}",
        ] {
            assert_eq!(field(text.as_bytes(), "instance-id").as_deref(), Some("i-1"), "{text}");
        }
        for text in ["", "{}", "  instance-id: i-1", "instance-ids: i-1", "\u{fffd}"] {
            assert_eq!(field(text.as_bytes(), "instance-id"), None, "{text}");
        }
    }
}

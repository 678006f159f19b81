//! The type of the payload of an envelope with a node document.

use std::fmt;

/// The media type of a node document.
const MEDIA_TYPE: &str = "text/x-osbuild-node";
/// Its parameters: the machine for which the document is, and the time of a document that replaces.
const MACHINE: &str = "; machine=";
const REPLACES: &str = "; replaces=";

/// The type of a node document, as a media type: `text/x-osbuild-node`, with the machine for which
/// the document is: `text/x-osbuild-node; machine=UUID`, or to replace its document:
/// `text/x-osbuild-node; machine=UUID; replaces=SECONDS`. The signature covers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentType {
    /// The only machine that uses the document; any machine if there is none.
    pub audience: Option<Audience>,
}

/// The machine for which a document is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audience {
    /// Its identifier.
    pub machine: MachineId,
    /// When the document was signed to replace the one that the machine has, in seconds since 1970.
    /// It replaces every document but one of the same or a later time.
    pub replaces: Option<u64>,
}

/// The identifier that a machine has from its maker or its hypervisor: the UUID in the firmware's
/// tables (SMBIOS 3.7, 7.2.1), as Linux shows it in `/sys/class/dmi/id/product_uuid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineId(String);

impl DocumentType {
    /// The media type without a machine.
    pub const MEDIA_TYPE: &str = MEDIA_TYPE;

    /// Reads a type; none if it is another one.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(MEDIA_TYPE)?;
        let Some(machine) = rest.strip_prefix(MACHINE) else {
            return rest.is_empty().then_some(Self { audience: None });
        };
        let (machine, replaces) = match machine.split_once(REPLACES) {
            Some((machine, time)) => (machine, Some(time.parse().ok()?)),
            None => (machine, None),
        };
        Some(Self { audience: Some(Audience { machine: MachineId::parse(machine)?, replaces }) })
    }
}

impl fmt::Display for DocumentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MEDIA_TYPE)?;
        let Some(Audience { machine, replaces }) = &self.audience else { return Ok(()) };
        write!(f, "{MACHINE}{machine}")?;
        replaces.map_or(Ok(()), |time| write!(f, "{REPLACES}{time}"))
    }
}

impl MachineId {
    /// Reads a UUID in any case, with its four hyphens and white space around it; none if it has
    /// another form, or is one that firmware gives to machines without one: all zeros or all ones.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let is_hyphen = |index: usize| matches!(index, 8 | 13 | 18 | 23);
        let has_form = text.len() == 36
            && text.bytes().enumerate().all(|(index, byte)| match is_hyphen(index) {
                true => byte == b'-',
                false => byte.is_ascii_hexdigit(),
            });
        let is_all = |digit: char| text.chars().all(|one| one == digit || one == '-');
        (has_form && !is_all('0') && !is_all('f')).then_some(Self(text))
    }

    /// The UUID in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "4c4c4544-0051-3610-8052-b4c04f4e3332";

    #[test]
    fn a_type_is_written_and_read() {
        let machine = MachineId::parse(&format!("{}\n", UUID.to_uppercase())).unwrap();
        assert_eq!(machine.as_str(), UUID);
        let kind = |replaces| DocumentType {
            audience: Some(Audience { machine: machine.clone(), replaces }),
        };
        for (kind, text) in [
            (DocumentType { audience: None }, "text/x-osbuild-node".to_owned()),
            (kind(None), format!("text/x-osbuild-node; machine={UUID}")),
            (kind(Some(7)), format!("text/x-osbuild-node; machine={UUID}; replaces=7")),
        ] {
            assert_eq!(kind.to_string(), text);
            assert_eq!(DocumentType::parse(&text), Some(kind));
        }
    }

    #[test]
    fn another_type_and_a_machine_without_an_identifier_are_refused() {
        for text in [
            "",
            "text/plain",
            "text/x-osbuild-nodes",
            "text/x-osbuild-node; machine=",
            "text/x-osbuild-node; replaces=7",
            &format!("text/x-osbuild-node; machine={UUID}; replaces="),
            &format!("text/x-osbuild-node; machine={UUID}; replaces=soon"),
            " text/x-osbuild-node",
        ] {
            assert_eq!(DocumentType::parse(text), None, "{text}");
        }
        let zeros = UUID.replace(|one: char| one != '-', "0");
        let ones = zeros.replace('0', "F");
        for text in ["", "vm-1", &UUID[1..], &UUID.replace('-', "0"), &zeros, &ones] {
            assert_eq!(MachineId::parse(text), None, "{text}");
        }
    }
}

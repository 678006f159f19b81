//! Responses of AWS: XML from EC2, JSON from EBS and KMS.

use super::Failure;
use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;

/// The response to a call that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Its body.
    pub body: Vec<u8>,
}

/// An element of an XML document, without attributes, which AWS does not use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The elements in it.
    pub children: Vec<Element>,
}

impl Response {
    /// The body as JSON.
    pub fn json(&self) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::Invalid(format!("the response is not JSON: {error}")))
    }

    /// The root of the body as XML.
    pub fn xml(&self) -> Result<Element, Failure> {
        Element::parse(&self.body)
            .ok_or_else(|| Failure::Invalid("the response is not XML".to_owned()))
    }

    /// A required text member of the JSON object.
    pub fn member(&self, name: &str) -> Result<String, Failure> {
        let found = self.json()?.get(name).and_then(Value::as_str).map(str::to_owned);
        found.ok_or_else(|| Failure::Invalid(format!("the response has no `{name}`")))
    }

    /// The text of a required element of the XML document's root.
    pub fn element(&self, name: &str) -> Result<String, Failure> {
        let root = self.xml()?;
        let found = root.get(name).map(str::to_owned);
        found.ok_or_else(|| Failure::Invalid(format!("the response has no `{name}`")))
    }
}

impl Element {
    /// Reads a document and returns its root; `None` if it is not XML.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::from_reader(bytes);
        let mut open = vec![Element::default()];
        let mut buffer = Vec::new();
        loop {
            match reader.read_event_into(&mut buffer).ok()? {
                Event::Start(start) => open.push(Element::named(start.local_name().as_ref())),
                Event::Empty(start) => {
                    open.last_mut()?.children.push(Element::named(start.local_name().as_ref()))
                }
                Event::End(_) => {
                    let done = open.pop()?;
                    open.last_mut()?.children.push(done);
                }
                Event::Text(text) => open.last_mut()?.text.push_str(&text.xml10_content()),
                Event::GeneralRef(name) => open.last_mut()?.text.push(character(&name)?),
                Event::Eof => break,
                _ => {}
            }
            buffer.clear();
        }
        let [document] = <[Element; 1]>::try_from(open).ok()?;
        document.children.into_iter().next()
    }

    /// The first element of this name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first element of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.trim())
    }

    /// The items of a list, which EC2 names `item` each.
    pub fn items(&self, list: &str) -> &[Element] {
        self.child(list).map_or(&[], |list| &list.children)
    }

    /// The first element of this name at any depth.
    pub fn find(&self, name: &str) -> Option<&Element> {
        self.child(name).or_else(|| self.children.iter().find_map(|child| child.find(name)))
    }

    fn named(name: &str) -> Self {
        Element { name: name.to_owned(), ..Element::default() }
    }
}

/// The character of a reference such as `&amp;`.
fn character(name: &quick_xml::events::BytesRef) -> Option<char> {
    if let Some(found) = name.resolve_char_ref().ok()? {
        return Some(found);
    }
    match &**name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_read_and_their_escapes_resolved() {
        let text = "<?xml version=\"1.0\"?>\n<R xmlns=\"http://x/\"><imagesSet><item>\
                    <imageId>ami-1</imageId><name>a &lt;&#38;&gt; b</name><empty/></item>\
                    <item><imageId>ami-2</imageId></item></imagesSet></R>";
        let root = Element::parse(text.as_bytes()).unwrap();
        let items = root.items("imagesSet");
        assert_eq!(
            items.iter().filter_map(|item| item.get("imageId")).collect::<Vec<_>>(),
            ["ami-1", "ami-2"]
        );
        assert_eq!(
            (items[0].get("name"), items[0].get("empty"), items[1].get("name")),
            (Some("a <&> b"), Some(""), None)
        );
        assert_eq!(root.find("name").map(|name| name.text.as_str()), Some("a <&> b"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text: String) {
            let _ = Element::parse(&bytes);
            let _ = Element::parse(format!("<a>{text}</a>").as_bytes());
        }
    }
}

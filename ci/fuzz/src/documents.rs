//! Inputs of several documents that name each other by digest. A fuzzer cannot find a SHA-256, so
//! an input has `@` and a number in its place.

use osbuild::engine::digest::Digest;

/// Separates documents.
pub const END: u8 = 0x1E;

/// Separates documents, and stores the one before it under a name that is not its digest.
pub const FALSE_END: u8 = 0x1D;

/// The name of a document whose digest does not match its name.
pub const FALSE_NAME: &str = "00000000000000000000000000000000000000000000000000000000000000ff";

/// A document and its name.
pub struct Document {
    /// Its digest in hexadecimal, or [`FALSE_NAME`].
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The documents of an input. `@1` is replaced with the name of the second document, `@2` with that
/// of the third, and so on. A document can name only later ones, because its digest depends on
/// theirs.
pub fn read(input: &[u8]) -> Vec<Document> {
    let mut ends: Vec<usize> =
        (0..input.len()).filter(|at| [END, FALSE_END].contains(&input[*at])).take(9).collect();
    ends.push(input.len());
    let mut names = vec![FALSE_NAME.to_owned(); ends.len()];
    let mut documents = Vec::new();
    for (number, end) in ends.iter().enumerate().rev() {
        let start = if number == 0 { 0 } else { ends[number - 1] + 1 };
        let bytes = named(input.get(start..*end).unwrap_or_default(), &names);
        if input.get(*end) != Some(&FALSE_END) {
            names[number] = Digest::of(&bytes).hex();
        }
        documents.push(Document { name: names[number].clone(), bytes });
    }
    documents.reverse();
    documents
}

/// Replaces each `@` and digit with the name of that document.
fn named(text: &[u8], names: &[String]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        rest = behind;
        match behind.first().map(|digit| usize::from(digit.wrapping_sub(b'0'))) {
            Some(number) if *first == b'@' && number < names.len() => {
                bytes.extend(names[number].bytes());
                rest = &behind[1..];
            }
            _ => bytes.push(*first),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_names_later_ones_by_their_digest() {
        let documents = read(b"a @1 @2 @9\x1ea @2\x1eb");
        let [first, second, third] = documents.as_slice() else { panic!("there are three") };
        assert_eq!(third.name, Digest::of(b"b").hex());
        assert_eq!(second.bytes, format!("a {}", third.name).into_bytes());
        assert_eq!(first.bytes, format!("a {} {} @9", second.name, third.name).into_bytes());
    }

    #[test]
    fn a_false_name_is_not_a_digest() {
        assert_eq!(read(b"@1\x1exx\x1d")[1].name, FALSE_NAME);
    }
}

//! The mistakes in the elements of a list, which the reader refuses as a whole.

use super::{Mistake, first_mistake};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Removes the elements of the list that `refused` is about which are refused alone too, and
/// returns their mistakes. None if it is not about a list, or about elements that contradict each
/// other.
pub fn take_wrong_elements(table: &mut Spanned<DeTable>, refused: &Mistake) -> Vec<Mistake> {
    let span = &refused.span;
    let Some(list) = list_in_table(table.get_mut(), span) else { return Vec::new() };
    let elements: Vec<Spanned<DeValue>> = list.iter().cloned().collect();
    let mut mistakes = Vec::new();
    let mut right = DeArray::new();
    for element in elements {
        let mut alone = DeArray::new();
        alone.push(element.clone());
        set_list(table, span, alone);
        match first_mistake(table).filter(|mistake| mistake.span == *span) {
            Some(mistake) => {
                let span = named_value(&element, &mistake.reason).unwrap_or(element.span());
                mistakes.push(Mistake { span, ..mistake });
            }
            None => right.push(element),
        }
    }
    set_list(table, span, right);
    mistakes
}

fn set_list<'i>(table: &mut Spanned<DeTable<'i>>, span: &Range<usize>, elements: DeArray<'i>) {
    if let Some(list) = list_in_table(table.get_mut(), span) {
        *list = elements;
    }
}

/// The list at `span`. One of tables is at the header of its first element.
fn list_in_table<'t, 'i>(
    table: &'t mut DeTable<'i>,
    span: &Range<usize>,
) -> Option<&'t mut DeArray<'i>> {
    table.iter_mut().find_map(|(_, value)| {
        let is_meant = value.span() == *span;
        match value.get_mut() {
            DeValue::Table(table) => list_in_table(table, span),
            DeValue::Array(list) if is_meant => Some(list),
            _ => None,
        }
    })
}

/// The place of the value that a reason is about: the one that it quotes, or else that of the only
/// key which it names.
fn named_value(element: &Spanned<DeValue>, reason: &str) -> Option<Range<usize>> {
    let mut values = Vec::new();
    collect("", element, &mut values);
    let quotes = |text: &str| reason.contains(&format!("`{text}`"));
    if let Some((.., span)) = values.iter().find(|(_, text, _)| quotes(text)) {
        return Some(span.clone());
    }
    let words = |character: char| !character.is_alphanumeric() && character != '-';
    let names = |key: &str| reason.split(words).any(|word| word.eq_ignore_ascii_case(key));
    let mut named = values.iter().filter(|(key, ..)| names(key));
    let (.., span) = named.next()?;
    named.next().is_none().then(|| span.clone())
}

/// Adds the strings and numbers of a value: the key, the text, and the place of each.
fn collect(key: &str, value: &Spanned<DeValue>, found: &mut Vec<(String, String, Range<usize>)>) {
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Array(list) => return list.iter().for_each(|value| collect(key, value, found)),
        DeValue::Table(table) => {
            return table.iter().for_each(|(key, value)| collect(key.get_ref(), value, found));
        }
        _ => return,
    };
    found.push((key.to_owned(), text, value.span()));
}

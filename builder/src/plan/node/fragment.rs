//! Fragments of a kernel configuration: `CONFIG_X=y`, `=n`, `=64`, `="text"` and comments, with one
//! file for each concern.

use super::kernel::{KernelOption, OptionValue};
use crate::error::Problem;
use crate::plan::document::{Spot, Text};
use crate::plan::keys::{Map, OptionName, OptionSetting};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Options by name without `CONFIG_`.
pub type Options = BTreeMap<String, KernelOption>;

/// Reads a fragment. Lines of another syntax and repeated options are problems.
pub fn parse(text: &Arc<Text>, problems: &mut Vec<Problem>) -> Options {
    let mut options = Options::new();
    let mut start = 0;
    for line in text.text.split_inclusive('\n') {
        let spot = Spot::new(text, start..start + line.trim_end().len());
        start += line.len();
        let line = line.trim();
        if line.is_empty() || (line.starts_with('#') && !line.ends_with(" is not set")) {
            continue;
        }
        match option(line) {
            Ok((name, value)) => {
                let before =
                    options.insert(name.to_owned(), KernelOption { value, origin: spot.origin() });
                if let Some(before) = before {
                    let problem =
                        Problem::new(format!("`CONFIG_{name}` is in this fragment twice"))
                            .at(spot.place());
                    problems.push(problem.cause(format!("first on line {}", before.origin.line)));
                }
            }
            Err(message) => problems.push(Problem::new(message).at(spot.place())),
        }
    }
    options
}

/// Reads one line that is not a comment.
fn option(line: &str) -> Result<(&str, OptionValue), String> {
    let unset = line.strip_prefix("# CONFIG_").and_then(|rest| rest.strip_suffix(" is not set"));
    let assignment = || line.strip_prefix("CONFIG_").and_then(|rest| rest.split_once('='));
    let (name, value) = match unset {
        Some(name) => (name, "n"),
        None => assignment().ok_or_else(|| {
            "a line of a fragment must be `CONFIG_NAME=VALUE` or a comment".to_owned()
        })?,
    };
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(format!("`CONFIG_{name}` is not the name of a kernel option"));
    }
    let value = match (value, value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))) {
        ("m", _) => return Err(format!("`CONFIG_{name}` cannot be a module: the node has none")),
        ("y", _) => OptionValue::Yes,
        ("n", _) => OptionValue::No,
        (_, Some(text)) => OptionValue::Text(text.replace("\\\"", "\"").replace("\\\\", "\\")),
        (number, None) if is_number(number) => OptionValue::Number(number.to_owned()),
        _ => {
            return Err(format!(
                "the value of `CONFIG_{name}` must be `y`, `n`, a number or a string in quotes"
            ));
        }
    };
    Ok((name, value))
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    match digits.strip_prefix("0x") {
        Some(hex) => !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// The options of a board's or a recipe's `[kernel.options]`.
pub fn from_table(table: &Map<OptionName, OptionSetting>, problems: &mut Vec<Problem>) -> Options {
    let mut options = Options::new();
    for (name, entry) in table.iter() {
        if let Some(bare) = name.strip_prefix("CONFIG_") {
            let problem = Problem::new(format!("`{}` is written without `CONFIG_` here", &**name))
                .at(entry.key.place());
            problems.push(problem.hint(format!("write `{bare}`")));
        }
        match &entry.value {
            OptionSetting::Value(value) => {
                let option = KernelOption { value: value.clone(), origin: entry.key.origin() };
                options.insert(name.to_string(), option);
            }
            OptionSetting::Module => problems.push(
                Problem::new(format!("`{}` cannot be a module: the node has none", &**name))
                    .at(entry.spot.place()),
            ),
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Options, Vec<String>) {
        let mut problems = Vec::new();
        let text = Arc::new(Text { name: "base.config".into(), text: text.into() });
        let options = parse(&text, &mut problems);
        (options, problems.into_iter().map(|problem| problem.to_string()).collect())
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let (options, problems) = read(
            "# why\nCONFIG_A=y\nCONFIG_B=n\n# CONFIG_C is not set\n\
             CONFIG_D=64\nCONFIG_E=0x10\nCONFIG_F=\"a b\"\n",
        );
        let values: Vec<String> = options.values().map(|option| option.value.to_string()).collect();
        assert_eq!((values.join(" "), problems), ("y n n 64 0x10 \"a b\"".to_owned(), vec![]));
        assert_eq!(options["F"].origin.line, 7);
    }

    #[test]
    fn a_module_a_misspelling_and_a_repetition_are_refused_together() {
        let (_, problems) = read("CONFIG_A=m\nCONFG_B=y\nCONFIG_C=y\nCONFIG_C=n\nCONFIG_D=maybe\n");
        assert_eq!(problems.len(), 4, "{problems:#?}");
        assert!(problems[0].contains("cannot be a module"));
        assert!(problems[2].contains("first on line 3"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".*", line in "CONFIG_[A-Z]{1,3}=.*") {
            read(&format!("{text}\n{line}"));
        }
    }
}

//! A report as Markdown with tables (GitHub Flavored Markdown, 4.10), for GitHub and GitLab.

use super::{Size, Skew, Summary};
use crate::report::bytes;
use crate::ship::audit::diff::Change;
use std::fmt::{self, Display, Formatter};

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Summary { recipe, architecture, against, sizes, components, moved, others, skew } =
            self;
        writeln!(f, "## `{}` for {architecture}\n", cell(recipe))?;
        match against {
            Some(against) => writeln!(f, "Compared with `{}`.\n", cell(against))?,
            None => writeln!(f, "There was no release to compare it with.\n")?,
        }
        table_of_sizes(f, "", sizes, against.is_some())?;
        writeln!(f, "\n### Components\n")?;
        table_of_sizes(f, " version |", components, against.is_some())?;
        if against.is_some() {
            writeln!(f, "\n### Versions moved\n")?;
            table_of_moved(f, moved)?;
            let others: Vec<String> =
                others.iter().map(|(name, count)| format!("{name}: {count}")).collect();
            let others = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
            writeln!(f, "\nWhat else differs: {others}.")?;
        }
        writeln!(f, "\n### Kubernetes\n")?;
        writeln!(f, "| API server | joins | support |\n|---|---|---|")?;
        skew.iter().try_for_each(|row| {
            writeln!(f, "| {} | {} | {} |", cell(&row.api_server), joins(row), support(row))
        })
    }
}

fn table_of_sizes(
    f: &mut Formatter<'_>,
    version: &str,
    sizes: &[Size],
    compared: bool,
) -> fmt::Result {
    let (head, line) = if compared { (" before | change |", "---:|---:|") } else { ("", "") };
    writeln!(f, "| |{version} size |{head}")?;
    writeln!(f, "|---|{}---:|{line}", if version.is_empty() { "" } else { "---|" })?;
    for size in sizes {
        let amount = |bytes_: Option<u64>| bytes_.map_or_else(|| "-".to_owned(), bytes);
        write!(f, "| {} |", cell(&size.name))?;
        if !version.is_empty() {
            write!(f, " {} |", cell(size.version.as_deref().unwrap_or_default()))?;
        }
        write!(f, " {} |", amount(size.now))?;
        if compared {
            write!(f, " {} | {} |", amount(size.before), change(size))?;
        }
        writeln!(f)?;
    }
    Ok(())
}

/// The growth in bytes and percent.
fn change(size: &Size) -> String {
    match (size.now, size.before) {
        (Some(now), Some(before)) if now == before => "0".to_owned(),
        (Some(now), Some(before)) => {
            let sign = if now > before { '+' } else { '-' };
            let percent = 100.0 * (now as f64 - before as f64) / (before.max(1) as f64);
            format!("{sign}{} ({percent:+.1} %)", bytes(now.abs_diff(before)))
        }
        _ => String::new(),
    }
}

fn table_of_moved(f: &mut Formatter<'_>, moved: &[Change<String>]) -> fmt::Result {
    if moved.is_empty() {
        return writeln!(f, "None.");
    }
    writeln!(f, "| | from | to |\n|---|---|---|")?;
    for Change { name, a, b } in moved {
        let version = |version: &Option<String>| cell(version.as_deref().unwrap_or("-"));
        writeln!(f, "| {} | {} | {} |", cell(name), version(a), version(b))?;
    }
    Ok(())
}

fn joins(row: &Skew) -> String {
    row.obstacle
        .as_ref()
        .map_or_else(|| "yes".to_owned(), |obstacle| format!("no: {}", cell(obstacle)))
}

fn support(row: &Skew) -> String {
    match &row.until {
        Some(date) if row.supported => format!("until {date}"),
        Some(date) => format!("ended on {date}"),
        None => String::new(),
    }
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

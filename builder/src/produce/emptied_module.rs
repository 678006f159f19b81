//! A Go module with packages that are compiled without their content, because what they import
//! cannot be had.

use crate::error::{Context, Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use zip::ZipArchive;

/// The files of the module in `zip`, by path. The packages in the folders `empty` have one file,
/// which only names them.
///
/// # Errors
/// The zip file is not that of a Go module, or has no file in one of these folders.
pub fn files(zip: &Path, empty: &[String]) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = read(zip)?;
    for folder in empty {
        let content = |path: &String, _: &mut Vec<u8>| {
            path.rsplit_once('/').is_some_and(|(parent, _)| parent == folder)
        };
        if files.extract_if(.., content).count() == 0 {
            return Err(Error::usage(format!("the Go module has no package `{folder}`"))
                .cause("`empty-packages` of a component names it"));
        }
        let name = folder.rsplit('/').next().unwrap_or(folder);
        files.insert(format!("{folder}/empty.go"), format!("package {name}\n").into_bytes());
    }
    Ok(files)
}

/// The files of a zip file whose names all begin with `MODULE@VERSION/`.
fn read(zip: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let cannot = || format!("cannot read the Go module in `{}`", zip.display());
    let file = BufReader::new(File::open(zip).or_build(cannot)?);
    let mut archive = ZipArchive::new(file).or_build(cannot)?;
    let mut files = BTreeMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).or_build(cannot)?;
        let name = entry.name().or_build(cannot)?.into_owned();
        let inner = name.split_once('@').and_then(|(_, rest)| rest.split_once('/'));
        let (_, path) = inner.ok_or_else(|| Error::build(cannot()).cause(&name))?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).or_build(cannot)?;
        files.insert(path.to_owned(), bytes);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    /// The zip file of a module with two packages, one inside the other.
    fn module(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("module.zip");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        for (name, text) in [
            ("go.mod", "module example.org/m\n"),
            ("pkg/a/a.go", "package a\nimport _ \"example.org/gone\"\n"),
            ("pkg/a/a_test.go", "package a\n"),
            ("pkg/a/b/b.go", "package b\n"),
        ] {
            zip.start_file(format!("example.org/m@v1.0.0/{name}"), SimpleFileOptions::default())
                .unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    #[test]
    fn an_empty_package_keeps_its_name_and_those_inside_it() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(&module(folder.path()), &["pkg/a".to_owned()]).unwrap();
        let text = |path: &str| String::from_utf8(files[path].clone()).unwrap();
        assert_eq!(
            files.keys().map(String::as_str).collect::<Vec<_>>(),
            ["go.mod", "pkg/a/b/b.go", "pkg/a/empty.go"]
        );
        assert_eq!(text("pkg/a/empty.go"), "package a\n");
        assert_eq!(text("pkg/a/b/b.go"), "package b\n");
    }

    #[test]
    fn a_package_that_the_module_lacks_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = files(&module(folder.path()), &["pkg/c".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("the Go module has no package `pkg/c`"), "{error}");
    }
}

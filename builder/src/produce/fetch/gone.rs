//! Errors for locked modules that the Go module proxy no longer serves.

use super::Fetcher;
use super::go::TOOLCHAIN;
use super::proxy::{Line, Proxy, absent};
use crate::error::{Error, Result};
use crate::plan::{GoRequirement, Version};
use crate::report::Step;

impl Fetcher<'_> {
    /// Explains a failed fetch of a component's modules if one of them is gone.
    pub(super) fn module_gone(
        &self,
        error: Error,
        requirement: &GoRequirement,
        step: &Step,
    ) -> Error {
        let Some((module, version)) = absent(&error) else { return error };
        if module == TOOLCHAIN {
            return self.toolchain_gone(error, &version, step);
        }
        let gone =
            Error::lock(format!("the Go module proxy no longer serves `{module}` {version}"));
        let gone = match module == requirement.module {
            true => {
                self.with_newest(gone, &Line::of(&module), version.trim_start_matches('v'), step)
            }
            false => {
                gone.cause(format!("`{}` {} needs it", requirement.component, requirement.version))
            }
        };
        gone.hint(format!("cargo osbuild update {}", requirement.component))
    }

    /// Explains a failed fetch of the Go toolchain if it is gone.
    pub(super) fn toolchain_gone(&self, error: Error, version: &str, step: &Step) -> Error {
        if absent(&error).is_none() {
            return error;
        }
        let version = version.trim_start_matches("v0.0.1-go").trim_end_matches(".linux-amd64");
        let gone =
            Error::lock(format!("the Go module proxy no longer serves the Go toolchain {version}"));
        self.with_newest(gone, &Line::toolchain(), version, step)
            .hint("cargo osbuild update toolchain")
    }

    /// Adds the newest release of the same minor, if it can be found.
    fn with_newest(&self, gone: Error, line: &Line, version: &str, step: &Step) -> Error {
        let newest = || -> Result<Option<Version>> {
            let Ok(version) = version.parse::<Version>() else { return Ok(None) };
            let proxy = Proxy::open(self.store, step)?;
            let others = proxy.listed(line)?.into_iter().filter(|other| *other != version);
            Ok(proxy
                .releases(line, version.minor, others)?
                .into_iter()
                .rfind(|other| *other != version))
        };
        match newest() {
            Ok(Some(newest)) => gone.cause(format!("the newest of its minor is {newest}")),
            _ => gone,
        }
    }
}

//! The mode in which a build uses a shared cache, and its trust in results from one.

/// The mode in which a build uses a shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The build does not use the cache.
    Off,
    /// The build reads results.
    Cache,
    /// The build reads results, and gives the cache those of the steps that ran here.
    CacheWrite,
    /// The build reads results, and has the server execute all other steps.
    Execute,
}

/// Which results count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// All of them.
    #[default]
    Everywhere,
    /// Those of steps that ran on this machine. A cache is not read, and what came from one earlier
    /// runs again.
    Here,
}

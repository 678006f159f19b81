//! What a build does with a shared cache, and with results that came from one.

/// What a build does with a shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing: it is not asked.
    Off,
    /// It reads results.
    Cache,
    /// It reads results, and gives the cache those of the steps that ran here.
    CacheWrite,
    /// It reads results, and has all other steps executed there.
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

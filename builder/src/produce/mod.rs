//! From a locked plan to files: actions, the store that keeps their results, and the executor that runs them.

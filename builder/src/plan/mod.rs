//! What is wanted, resolved: pure, without network, process, clock or environment.

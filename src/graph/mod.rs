//! Nets of operator definitions.

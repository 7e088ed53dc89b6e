//! Distributions of lengths.

/// Placeholder shape; see the module's final form.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution<T> {
    /// Always the same value.
    Static(T),
}

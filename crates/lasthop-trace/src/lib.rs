//! From packet events to flow and run records.

//! Scenario files: what they say, and what is said of wrong ones.

mod atm;
mod errors;
mod extends;
mod flows;
mod limits;
mod range;
mod short;
mod study;
mod support;
mod traces;

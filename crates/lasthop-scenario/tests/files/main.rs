//! Scenario files: their meaning, and the errors of faulty files.

mod atm;
mod courses;
mod errors;
mod extends;
mod flows;
mod hops;
mod limits;
mod media;
mod range;
mod short;
mod study;
mod support;
mod traces;
mod transfers;

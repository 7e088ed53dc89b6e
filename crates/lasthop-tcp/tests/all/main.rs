//! All tests of the crate's public functions, in one program: each further one would compile the senders again.

mod ns2;
mod properties;
mod rfc_examples;
mod support;
mod traces;
mod wire;

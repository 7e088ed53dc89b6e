//! The whole engine: scenarios in, records out. One program, as every further one would compile the engine once more.

mod conservation;
mod determinism;
mod diffserv;
mod flows;
mod golden;
mod kulve_t34;
mod order;
mod page;
mod quic;
mod random;
mod short;
mod support;
mod web;

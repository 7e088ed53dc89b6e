//! The whole engine: scenarios in, records out. All tests are one program, because each further program would
//! compile the engine again.

mod conservation;
mod determinism;
mod diffserv;
mod faults;
mod flows;
mod golden;
mod kulve_t34;
mod order;
mod page;
mod quic;
mod random;
mod relay;
mod short;
mod support;
mod trees;
mod web;

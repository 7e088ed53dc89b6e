//! Packet traces of one endpoint, mechanism by mechanism.

mod accurate_ecn;
mod cbi;
mod classic;
mod close;
mod dctcp;
mod ecn;
mod frto;
mod handshake;
mod modern;
mod nagle;
mod receiver;
mod recovery;
mod timeout;
mod undo;
mod window;

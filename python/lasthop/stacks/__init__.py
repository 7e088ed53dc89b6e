"""Transfers by implementations of QUIC and TCP that are real programs: the side of the interop runner."""

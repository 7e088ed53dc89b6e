//! Model engine: event queue, topology, virtual clock.

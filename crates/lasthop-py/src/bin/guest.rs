//! The program that a guest kernel starts.

use std::process::Termination;

fn main() -> impl Termination {
    lasthop_guest::main()
}
